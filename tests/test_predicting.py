"""The policies that predict what a request would wait: ``load-aware`` and ``priced-completion``."""

from __future__ import annotations

import timeit

import numpy as np
import pytest

from prfaas_env.environment.observation import HISTOGRAM_FACTS, decode
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.theory.plan import plan
from tests.policies import controls_under, encode_named, paper_load, run

# --- load-aware -------------------------------------------------------------------------------------------------------


def test_load_aware_sends_nearly_everything_at_low_load_and_ends_at_the_throughput_optimum(scenario: Scenario) -> None:
    policy = load_policy("load-aware", scenario, tuned=False)
    best = plan(scenario.deployment, scenario)
    rates = (0.8, 1.6, 2.4, 3.1)
    controls = [controls_under(policy, (1, paper_load(scenario, rate)))[0] for rate in rates]
    thresholds = [control.threshold_tokens for control in controls]
    shares_kept = scenario.nominal.lengths.cdf(np.array(thresholds))
    assert shares_kept[0] < 0.02
    assert shares_kept[1] < 0.15
    assert thresholds == sorted(thresholds)
    assert thresholds[3] == pytest.approx(best.threshold_tokens, rel=0.15)
    overload = controls_under(policy, (1, paper_load(scenario, 2.0 * best.lambda_max_rps)))[0]
    assert overload.n_prefill == best.n_prefill  # beyond Λ_max, where the busiest stage of all is the least busy


def local_work_s(scenario: Scenario, threshold_tokens: float) -> float:
    """Seconds of local prefill that an arrival of the nominal workload asks for on average."""
    points = scenario.nominal.lengths.points(4096)
    kept = points.lengths_tokens <= threshold_tokens
    return float(points.weights[kept] @ scenario.deployment.local.profile.prefill.time_s(points.lengths_tokens[kept]))


@pytest.mark.parametrize(("rate_rps", "wait_s", "spare"), [(6.5, 7.0, 1.0), (6.5, 22.0, 0.5), (13.0, 7.0, 1.0)])
@pytest.mark.parametrize("name", ["load-aware", "priced-completion"])
def test_in_an_overload_the_local_pool_is_filled_and_no_more(
    name: str, scenario: Scenario, rate_rps: float, wait_s: float, spare: float
) -> None:
    """The shortest prompts stay: what arrives of them takes the pool's time, less while its queue is too long."""
    seen = paper_load(scenario, rate_rps, local_expected_wait_s=wait_s, local_queue=20.0, remote_queue=200.0)
    control = controls_under(load_policy(name, scenario, tuned=False), (1, seen))[0]
    assert control.law == "threshold"
    assert rate_rps * local_work_s(scenario, control.threshold_tokens) == pytest.approx(3.0 * spare, rel=0.08)


def test_load_aware_helps_with_all_that_comes_when_a_burst_is_over(scenario: Scenario) -> None:
    seen = paper_load(scenario, 0.3, remote_queue=300.0)
    assert controls_under(load_policy("load-aware", scenario, tuned=False), (1, seen))[0].threshold_tokens == np.inf


def test_load_aware_reckons_with_the_remote_instances_that_are_up(scenario: Scenario) -> None:
    """Three of four have failed: what one can do is kept for the long prompts. A failed local one is no remote one."""
    policy = load_policy("load-aware", scenario, tuned=False)
    whole = {"decode_share": 5 / 8}
    sound, failed, elsewhere = (
        controls_under(policy, (1, paper_load(scenario, 1.0, **roles)))[0].threshold_tokens
        for roles in (whole, whole | {"failed_nodes": 3.0}, {"decode_share": 2 / 8, "failed_nodes": 3.0})
    )
    assert failed > 2.0 * sound
    assert elsewhere == sound


def test_load_aware_beats_the_throughput_optimum_at_low_load() -> None:
    light = load_scenario("light-load").with_overrides(horizon_s=1200.0)
    aware, optimum = (
        run(light, load_policy(name, light, tuned=False))[0].finish() for name in ("load-aware", "closed-form")
    )
    assert aware["remote"].mean() > 0.95
    assert aware["ttft_s"].mean() < 0.85 * optimum["ttft_s"].mean()


def test_load_aware_keeps_requests_local_while_the_link_is_down(scenario: Scenario) -> None:
    """All of them as long as the local pool can do it, else as many as it can: the long ones may wait for the link."""
    policy = load_policy("load-aware", scenario, tuned=False)
    few, many = (
        controls_under(policy, (1, paper_load(scenario, rate, link_capacity_gbps=0.0)))[0] for rate in (0.5, 2.0)
    )
    assert few.threshold_tokens == np.inf
    assert 10_000 < many.threshold_tokens < 100_000


def test_load_aware_moves_n_p_only_for_a_gain_beyond_the_hysteresis(scenario: Scenario) -> None:
    short = dict.fromkeys(HISTOGRAM_FACTS, 0.0) | {HISTOGRAM_FACTS[1]: 1.0}  # 1K to 1.4K: decode is the bottleneck
    seen = paper_load(scenario, 4.5, **short)
    stuck = load_policy("load-aware", scenario, tuned=False, hysteresis=0.99)
    assert controls_under(stuck, (1, seen))[0].n_prefill == 1  # as it is decode cannot keep up: any hysteresis yields
    three = paper_load(scenario, 2.9)
    for hysteresis, expected in ((0.0, 4), (0.1, 3)):  # a gain of 7 %
        policy = load_policy("load-aware", scenario, tuned=False, hysteresis=hysteresis)
        assert controls_under(policy, (1, three))[0].n_prefill == expected


def test_load_aware_decides_in_a_moment(scenario: Scenario) -> None:
    policy, seen = load_policy("load-aware", scenario, tuned=False), decode(encode_named(paper_load(scenario, 2.0)))
    assert min(timeit.repeat(lambda: policy.decide(seen, np.empty(0)), number=10, repeat=20)) / 10 < 2e-3


# --- priced-completion ------------------------------------------------------------------------------------------------


def test_priced_completion_asks_more_for_the_remote_pool_the_higher_the_load(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False, price_s=0.1, load_price_s=1.0)
    for load, price in ((0.0, 0.1), (0.5, 0.6), (1.7, 1.1)):
        control = controls_under(policy, (1, paper_load(scenario, 1.0, load=load)))[0]
        assert control.law == "price"
        assert control.price_s == pytest.approx(price, abs=1e-4)


def test_priced_completion_asks_more_while_the_link_is_congested(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False, load_price_s=0.0, link_price_s=4.0)
    seen = paper_load(scenario, 1.0, link_congested_share=0.5)
    assert controls_under(policy, (1, seen))[0].price_s == pytest.approx(2.0, abs=1e-3)


def test_priced_completion_does_not_convert_as_the_window_s_advice_flickers(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False)
    for advised in (2, 3, 4):
        seen = paper_load(scenario, 1.6, advised_prefill=float(advised))
        assert controls_under(policy, (1, seen), advised=(1e4, advised))[0].n_prefill == 3


# --- both, in an overload ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["load-aware", "priced-completion"])
@pytest.mark.parametrize(
    "still",
    [{"remote_queue": 40.0, "remote_expected_wait_s": 20.0}, {"link_backlog": 25.0, "link_capacity_gbps": 10.0}],
)
def test_an_overload_is_not_over_before_its_queue_for_pool_or_link_is_short(
    name: str, still: dict[str, float], scenario: Scenario
) -> None:
    """One request in five seconds: the local pool helps with all that comes."""
    patient = load_policy(name, scenario, tuned=False, overload_wait_s=30.0, clear_queues_s=1000.0)
    hasty = load_policy(name, scenario, tuned=False, overload_wait_s=10.0, clear_queues_s=1000.0)
    seen = paper_load(scenario, 0.2, **still)
    (calm,), (filling,) = (controls_under(policy, (1, seen)) for policy in (patient, hasty))
    assert (filling.law, filling.threshold_tokens > 1e6) == ("threshold", True)
    assert calm.law == "price" or calm.threshold_tokens < 1e5
