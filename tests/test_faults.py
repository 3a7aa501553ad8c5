"""Faults of a scenario: scripted and random failures, and the runs that they reach."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.faults import Faults
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.conditions import FaultTimeline
from prfaas_env.simulator.log import COMPLETED

SOME = {"mean_time_between_failures_s": 900.0, "mean_repair_s": 100.0}


def draw(plain: dict, seed: int = 0, horizon_s: float = 3600.0, remote: int = 4, local: int = 8) -> FaultTimeline:
    return from_mapping(Faults, plain).draw(np.random.default_rng(seed), horizon_s, remote, local)


def windows(faults: FaultTimeline, remote: bool, instance: int) -> list[tuple[float, float]]:
    """Failures and repairs of one instance, which must alternate."""
    own = (faults.remote == remote) & (faults.instance == instance)
    assert (faults.up[own] == (np.arange(own.sum()) % 2 == 1)).all()
    times_s = faults.times_s[own]
    return list(zip(times_s[::2], times_s[1::2], strict=True))


@pytest.fixture(scope="module")
def paper() -> Scenario:
    return load_scenario("paper-stationary-80").with_overrides(load=0.5, horizon_s=600)


def test_no_faults_by_default(paper: Scenario) -> None:
    assert len(draw({}).times_s) == 0
    assert len(paper.draw(0).faults.times_s) == 0


def test_scripted_failures_of_one_instance_are_joined_where_they_overlap() -> None:
    script = [(100, "remote", 1, 50), (120, "remote", 1, 100), (400, "remote", 1, 10), (110, "local", 1, 15)]
    keys = ("time_s", "cluster", "instance", "repair_after_s")
    faults = draw({"scripted": [dict(zip(keys, row, strict=True)) for row in script]})
    assert windows(faults, True, 1) == [(100, 220), (400, 410)]
    assert windows(faults, False, 1) == [(110, 125)]
    assert faults.times_s.tolist() == [100, 110, 125, 220, 400, 410]


def test_random_failures_have_their_means() -> None:
    faults = draw({"local": SOME}, horizon_s=100_000.0, local=20)
    assert not faults.remote.any()
    down = [window for k in range(20) for window in windows(faults, False, k)]
    assert len(down) == pytest.approx(20 * 100_000 / 1000, rel=0.06)
    repairs = np.array([end - start for start, end in down])
    assert repairs.mean() == pytest.approx(100.0, rel=0.06)
    assert repairs.std() == pytest.approx(100.0, rel=0.1)
    assert max(start for start, _ in down) < 100_000.0


def test_a_share_is_down_at_the_start() -> None:
    down = [(draw({"local": SOME}, seed, horizon_s=1.0, local=50).times_s == 0.0).sum() for seed in range(40)]
    assert np.mean(down) / 50 == pytest.approx(0.1, abs=0.02)


def test_each_instance_fails_on_its_own() -> None:
    few, more = draw({"local": SOME, "remote": SOME}, local=2), draw({"local": SOME}, local=8, horizon_s=9000.0)
    for k in range(2):
        first = windows(few, False, k)
        assert windows(more, False, k)[: len(first)] == first
    assert windows(more, False, 0) != windows(more, False, 1)
    assert windows(few, True, 0) != windows(few, False, 0)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"scripted": [{"time_s": 1, "cluster": "remote", "instance": 4, "repair_after_s": 1}]},
            r"faults.scripted\[0\].instance: expected less than 4, the number of remote instances, got 4",
        ),
        (
            {"scripted": [{"time_s": 1, "cluster": "remot", "instance": 0, "repair_after_s": 1}]},
            r"faults.scripted\[0\].cluster: expected one of .*did you mean 'remote'",
        ),
        ({"remote": {"mean_repair_s": 3}}, r"faults.remote.mean_time_between_failures_s: missing key"),
        ({"local": SOME | {"mean_repair_s": 0}}, r"faults.local.mean_repair_s: expected a number > 0, got 0"),
    ],
)
def test_bad_faults_are_refused(paper: Scenario, plain: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        paper.with_overrides(faults=plain)


def test_a_cluster_that_is_not_there_cannot_fail(paper: Scenario) -> None:
    with pytest.raises(ConfigError, match=r"faults.remote: expected none: the deployment has no remote cluster"):
        paper.with_overrides(deployment="homogeneous-pd", faults={"remote": SOME})


def test_a_run_feels_the_faults_and_loses_nothing(paper: Scenario) -> None:
    """Three of four remote instances gone for five minutes: prompts wait for the one that is left."""
    script = [{"time_s": 100, "cluster": "remote", "instance": k, "repair_after_s": 300} for k in range(3)]
    whole = simulate(paper, "static", seed=1)
    broken = simulate(paper.with_overrides(faults={"scripted": script}), "static", seed=1)
    assert (whole.requests["arrival_s"] == broken.requests["arrival_s"]).all()
    assert (broken.requests["status"] == COMPLETED).all()
    assert broken.summary["ttft_mean_s"] > 2.0 * whole.summary["ttft_mean_s"]


@pytest.mark.parametrize("name", ["node-failures", "link-outage", "link-shared", "multi-tenant"])
def test_both_engines_run_the_same_conditions(name: str) -> None:
    scenario = load_scenario(name).with_overrides(
        horizon_s=400, load=0.6, faults={"local": {"mean_time_between_failures_s": 600, "mean_repair_s": 60}}
    )
    one, other = (simulate(scenario, "static", seed=2, engine=engine).requests for engine in ("compiled", "reference"))
    assert len(one) > 200
    for column in ("first_token_s", "finish_s", "kv_ready_s"):
        np.testing.assert_allclose(one[column], other[column], atol=1e-6)
    assert (one["service_class"] == other["service_class"]).all()
