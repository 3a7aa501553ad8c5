"""Link processes: the base capacity, what others take of it, and what is lost for a while."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.link_process import LinkProcess
from prfaas_env.processes import Clock
from prfaas_env.simulator.conditions import CapacityTimeline


def timeline(plain: dict, seed: int = 0, horizon_s: float = 3600.0, clock: Clock | None = None) -> CapacityTimeline:
    return from_mapping(LinkProcess, plain).draw(np.random.default_rng(seed), 100.0, horizon_s, clock)


def mean_over_time(link: CapacityTimeline, horizon_s: float) -> float:
    ends = np.append(link.times_s[1:], horizon_s)
    return float((link.gbps * (np.minimum(ends, horizon_s) - np.minimum(link.times_s, horizon_s))).sum() / horizon_s)


def test_mean_reverting_capacity() -> None:
    link = timeline({"capacity": {"kind": "mean-reverting", "cv": 0.07}}, horizon_s=2_000_000.0)
    assert link.gbps.mean() == pytest.approx(100.0, rel=0.005)
    assert link.gbps.std() == pytest.approx(7.0, rel=0.05)
    wild = timeline({"capacity": {"kind": "mean-reverting", "cv": 2.0, "mean_gbps": 20}}, horizon_s=100_000.0)
    assert wild.gbps.min() == 0.0  # held at 0, never below


def test_capacity_trace_with_outages() -> None:
    link = timeline(
        {
            "capacity": {"kind": "trace", "times_s": [0, 100, 200], "gbps": [100, 40, 80]},
            "outages": [{"start_s": 150, "end_s": 250}, {"start_s": 300, "end_s": 400, "remaining_share": 0.25}],
        }
    )
    assert link.times_s.tolist() == [0, 100, 150, 200, 250, 300, 400]
    assert link.gbps.tolist() == [100, 40, 0, 0, 80, 20, 80]


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"capacity": {"kind": "trace", "times_s": [5], "gbps": [1]}}, "the first at 0 s"),
        ({"capacity": {"kind": "trace", "times_s": [0, 0], "gbps": [1, 1]}}, "increasing times"),
        ({"capacity": {"kind": "constnat"}}, "unknown kind 'constnat'; did you mean 'constant'"),
        ({"outages": [{"start_s": 5, "end_s": 5}]}, r"outages\[0\].end_s: expected later than start_s 5"),
        (
            {"outages": [{"start_s": 5, "end_s": 9, "remaining_share": 2}]},
            "remaining_share: expected a number ≥ 0 and ≤ 1",
        ),
        ({"capacity": {"kind": "markov", "states": [{"capacity_share": 1, "mean_stay_s": 9}]}}, "states: expected at"),
        (
            {"capacity": {"kind": "markov", "states": [{"capacity_share": 0, "mean_stay_s": 9}] * 2}},
            "states: expected one at least with a capacity_share > 0",
        ),
        ({"background": {"mean_share": 1.5}}, "background.mean_share: expected a number ≥ 0 and ≤ 1, got 1.5"),
        ({"excursions": {"low_depth": 0.99}}, r"excursions.high_depth: expected at least 0.99 \(low_depth\), got 0.95"),
        ({"excursions": {"high_duration_s": 9}}, r"high_duration_s: expected at least 300 \(low_duration_s\), got 9"),
    ],
)
def test_bad_links_are_refused(plain: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        timeline(plain)


# ---- random parts


MARKOV = {
    "kind": "markov",
    "states": [
        {"capacity_share": 1.0, "mean_stay_s": 600},
        {"capacity_share": 0.5, "mean_stay_s": 300},
        {"capacity_share": 0.0, "mean_stay_s": 100},
    ],
}


def test_markov_states_have_their_stays_and_are_left_for_any_other() -> None:
    horizon_s = 2_000_000.0
    link = timeline({"capacity": MARKOV}, horizon_s=horizon_s)
    assert set(link.gbps) == {100.0, 50.0, 0.0}
    stays, before = np.diff(link.times_s), link.gbps[:-1]
    for gbps, mean_s in ((100.0, 600), (50.0, 300), (0.0, 100)):
        own = stays[before == gbps]
        assert own.mean() == pytest.approx(mean_s, rel=0.08)
        assert own.std() == pytest.approx(mean_s, rel=0.12)  # exponential
    after_full = link.gbps[1:][before == 100.0]
    assert (after_full == 50.0).mean() == pytest.approx(0.5, abs=0.04)
    assert mean_over_time(link, horizon_s) == pytest.approx(100.0 * (600 + 150) / 1000, rel=0.03)


def test_markov_begins_in_its_long_run_shares_and_ends_up() -> None:
    links = [timeline({"capacity": MARKOV}, seed, horizon_s=1000.0) for seed in range(600)]
    first = np.array([link.gbps[0] for link in links])
    assert (first == 100.0).mean() == pytest.approx(0.6, abs=0.06)
    assert (first == 0.0).mean() == pytest.approx(0.1, abs=0.04)
    assert all(link.gbps[-1] > 0 for link in links)  # what is in the system can leave


def test_background_follows_the_day() -> None:
    day = Clock(day_s=3600.0, start_h=0.0)
    link = timeline({"background": {"peak_h": 6.0, "wander": None}}, clock=day)
    assert link.gbps[link.times_s == 900.0] == pytest.approx(40.0)  # .4 + .2 are taken at the peak
    assert link.gbps[link.times_s == 2700.0] == pytest.approx(80.0)
    assert mean_over_time(link, 3600.0) == pytest.approx(60.0, rel=0.01)
    assert link.gbps[-1] == pytest.approx(60.0)  # the mean holds after the episode


def test_background_wanders_with_its_own_sd_and_memory() -> None:
    plain = {"background": {"daily_amplitude": 0.0, "wander": {"sd": 0.05, "time_constant_h": 0.5}}}
    gbps = timeline(plain, horizon_s=3_000_000.0).gbps[:-1]
    assert gbps.mean() == pytest.approx(60.0, rel=0.01)
    assert gbps.std() == pytest.approx(5.0, rel=0.05)
    lag = 180  # steps of 10 s in half an hour
    assert np.corrcoef(gbps[:-lag], gbps[lag:])[0, 1] == pytest.approx(np.exp(-1.0), abs=0.05)


def test_excursions_come_at_their_rate_with_their_depths_and_durations() -> None:
    horizon_s = 30_000_000.0
    plain = {"per_h": 0.2, "low_depth": 0.5, "high_depth": 0.95, "low_duration_s": 300, "high_duration_s": 900}
    link = timeline({"excursions": plain}, seed=1, horizon_s=horizon_s)
    assert (len(link.times_s) - 1) / 2 == pytest.approx(0.2 * horizon_s / 3600.0, rel=0.05)  # two edges each
    stays, gbps = np.diff(link.times_s), link.gbps[:-1]
    alone = (gbps < 100.0) & (np.append(100.0, gbps[:-1]) == 100.0) & (link.gbps[1:] == 100.0)
    assert stays[alone].min() > 299.0
    assert stays[alone].max() < 901.0
    assert stays[alone].mean() == pytest.approx(600.0, rel=0.03)
    assert 4.9 < gbps[alone].min() < 6.0
    assert 49.0 < gbps[alone].max() < 50.1
    # A day compressed into an hour brings them 24 times as often, no shorter.
    dense = timeline({"excursions": plain}, seed=1, horizon_s=2_000_000.0, clock=Clock(day_s=3600.0))
    share = 1.0 - np.exp(-0.2 * 24 * 600.0 / 3600.0)  # of an M/G/∞ queue's busy time
    lost = CapacityTimeline(dense.times_s, 100.0 * (dense.gbps < 100.0))
    assert mean_over_time(lost, 2_000_000.0) / 100.0 == pytest.approx(share, rel=0.03)


def test_an_excursion_may_be_under_way_at_the_start() -> None:
    plain = {"excursions": {"per_h": 1.0, "low_duration_s": 900, "high_duration_s": 900}}
    down = np.mean([timeline(plain, seed, horizon_s=10.0).gbps[0] < 100.0 for seed in range(600)])
    assert down == pytest.approx(1.0 - np.exp(-0.25), abs=0.05)


def test_factors_multiply_and_each_draws_on_its_own() -> None:
    parts: dict[str, dict] = {
        "capacity": {"capacity": MARKOV},
        "background": {"background": {}},
        "excursions": {"excursions": {"per_h": 3.0}},
        "outages": {"outages": [{"start_s": 500, "end_s": 700, "remaining_share": 0.25}]},
    }
    whole = timeline({key: part[key] for key, part in parts.items()}, seed=3)
    product = np.ones(len(whole.times_s))
    for part in parts.values():
        own = timeline(part, seed=3)
        product *= own.gbps[np.searchsorted(own.times_s, whole.times_s, side="right") - 1] / 100.0
    np.testing.assert_allclose(whole.gbps, 100.0 * product)


@pytest.mark.parametrize(
    "plain",
    [
        {"capacity": MARKOV},
        {"background": {}},
        {"excursions": {"per_h": 3.0}},
        {"capacity": {"kind": "mean-reverting"}},
    ],
)
def test_a_longer_horizon_continues_the_same_link(plain: dict) -> None:
    short, long = timeline(plain, seed=5), timeline(plain, seed=5, horizon_s=9000.0)
    times_s = np.arange(0.0, 3600.0, 7.0)
    a, b = (link.gbps[np.searchsorted(link.times_s, times_s, side="right") - 1] for link in (short, long))
    assert (a == b).all()
