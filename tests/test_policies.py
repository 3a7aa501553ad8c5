"""The scripted policies, the protocol they share, and how policies are found by name."""

from __future__ import annotations

import json
import pickle
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
from agents.base import ScriptedPolicy
from agents.card import ModelCard
from agents.dual_timescale import DualTimescale, DualTimescaleParameters
from agents.portable import Layer, Network
from prfaas_env.config import ConfigError
from prfaas_env.deployment import load_deployment
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import (
    COMPONENTS,
    HISTOGRAM_FACTS,
    coarse_shares,
    decode,
    encode,
    layout_hash,
)
from prfaas_env.evaluation.fingerprint import policy_hash
from prfaas_env.evaluation.verdict import is_learned
from prfaas_env.policies import load_policy, policy_line, policy_names
from prfaas_env.resources import names as shipped
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import SIGNAL
from prfaas_env.theory.online import bin_shares
from prfaas_env.theory.plan import plan

SCRIPTED = [
    name
    for name in policy_names()
    if name in agents._SCRIPTED and issubclass(agents.policy_class(name), ScriptedPolicy)
]
TUNABLE = [name for name in SCRIPTED if agents.policy_class(name).tunable]


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario("paper-stationary-80").with_overrides(horizon_s=300.0)


def run(scenario: Scenario, policy: Any, seed: int = 0) -> tuple[ControlLoop, list[Control]]:
    """An episode under a policy: the loop at its end and the control of every interval."""
    loop = ControlLoop(scenario, policy.action_mode, cache_rule="scarce")
    observation, state, start, controls, ended = loop.reset(seed), None, True, [], False
    while not ended:
        action, state = policy.predict(observation, state, np.array([start]))
        interval = loop.step(action)
        controls.append(interval.control)
        observation, start, ended = interval.observation, False, interval.ended
    return loop, controls


# --- every policy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTED)
@pytest.mark.parametrize("deployment", shipped("deployments"))
def test_every_policy_runs_on_every_deployment(name: str, deployment: str) -> None:
    scenario = load_scenario("paper-stationary-50").with_overrides(deployment={"extends": deployment}, horizon_s=120.0)
    loop, _ = run(scenario, load_policy(name, scenario))
    log = loop.finish()
    assert np.isfinite(log["ttft_s"]).all()
    assert len(log) > 50
    pinned = scenario.deployment.route_pinned
    if pinned:
        assert (log["remote"] == (pinned == "remote")).all()
    low, high = scenario.deployment.prefill_bounds
    assert (
        low
        <= loop.timeline[:, SIGNAL["prefill_nodes"]].min()
        <= loop.timeline[:, SIGNAL["prefill_nodes"]].max()
        <= high
    )


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_batch_acts_as_its_rows_do_each_alone(name: str, scenario: Scenario) -> None:
    policy = load_policy(name, scenario)
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (6, 3, len(COMPONENTS))).astype(np.float32)
    starts = rng.random((6, 3)) < 0.3
    together, alone, batch_state, states = [], [], None, [None] * 3
    for observation, start in zip(rows, starts, strict=True):
        actions, batch_state = policy.predict(observation, batch_state, start)
        assert actions.shape == (3, 2)
        assert actions.dtype == np.float32
        together.append(actions)
        each = [policy.predict(observation[i], states[i], start[i : i + 1]) for i in range(3)]
        alone.append([action for action, _ in each])
        states = [state for _, state in each]
    np.testing.assert_array_equal(np.array(together), np.array(alone))
    assert (np.abs(together) <= 1).all()


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_policy_forgets_at_the_start_of_an_episode_and_keeps_nothing_itself(name: str, scenario: Scenario) -> None:
    policy = load_policy(name, scenario)
    before = repr(vars(policy))
    first = run(scenario, policy)[1]
    assert run(scenario, policy)[1] == first
    assert repr(vars(policy)) == before
    assert run(scenario, pickle.loads(pickle.dumps(policy)))[1] == first


# --- what each one does -----------------------------------------------------------------------------------------------


def test_static_keeps_the_deployment_s_own_or_the_given_setting(scenario: Scenario) -> None:
    assert set(run(scenario, load_policy("static", scenario))[1]) == {Control(3, 19_400.0)}
    assert set(run(scenario, load_policy("static", scenario, threshold_tokens=9_000, n_prefill=4))[1]) == {
        Control(4, 9_000.0)
    }


def test_naive_sends_everything(scenario: Scenario) -> None:
    loop, controls = run(scenario, load_policy("naive", scenario))
    assert set(controls) == {Control(1, 0.0)}
    assert loop.finish()["remote"].all()


def test_closed_form_is_the_plan_of_the_nominal_workload(scenario: Scenario) -> None:
    optimum = plan(scenario.deployment, scenario)
    assert set(run(scenario, load_policy("closed-form", scenario))[1]) == {
        Control(optimum.n_prefill, float(round(optimum.threshold_tokens)))
    }


def test_windowed_closed_form_follows_the_advice_exactly(scenario: Scenario) -> None:
    loop = ControlLoop(scenario, "residual", cache_rule="scarce")
    policy = load_policy("windowed-closed-form", scenario)
    observation, ended, thresholds = loop.reset(0), False, set()
    while not ended:
        advice = loop.advice
        interval = loop.step(policy.predict(observation)[0])
        assert interval.control == Control(advice.n_prefill, advice.threshold_tokens)
        thresholds.add(interval.control.threshold_tokens)
        observation, ended = interval.observation, interval.ended
    assert len(thresholds) > 20  # the advice moves


def test_least_completion_names_its_price(scenario: Scenario) -> None:
    assert {(c.law, c.price_s) for c in run(scenario, load_policy("least-completion", scenario))[1]} == {("price", 0.0)}
    priced = run(scenario, load_policy("least-completion", scenario, price_s=4.0))
    free = run(scenario, load_policy("least-completion", scenario))
    assert priced[1][0].price_s == pytest.approx(4.0, abs=1e-5)
    assert priced[0].finish()["remote"].mean() < free[0].finish()["remote"].mean()


# --- tuning -----------------------------------------------------------------------------------------------------------


def test_every_policy_with_constants_of_its_own_can_be_tuned() -> None:
    assert set(TUNABLE) >= {"sliding-window", "long-timescale", "dual-timescale", "load-aware", "priced-completion"}


@pytest.mark.parametrize("name", TUNABLE)
def test_every_point_of_the_tuning_spans_is_a_valid_setting(name: str, scenario: Scenario) -> None:
    policy = agents.policy_class(name)
    spans, default = policy.tunable, policy.Parameters()
    assert all(span.low <= getattr(default, key) <= span.high for key, span in spans.items())
    assert all(span.low > 0 for span in spans.values() if span.log)
    assert set(spans) == set(vars(default))  # no constant is out of reach
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 2, (50, len(spans)))
    for point in (np.zeros(len(spans)), np.ones(len(spans)), *corners, *rng.random((50, len(spans)))):
        values: dict[str, Any] = {
            key: float(span.low + x * (span.high - span.low))
            for x, (key, span) in zip(point, spans.items(), strict=True)
        }
        load_policy(name, scenario, **values)


# --- on observations made by hand -------------------------------------------------------------------------------------


def controls_under(
    policy: Any, *spells: tuple[int, dict[str, float]], advised: tuple[float, int] = (1e4, 3)
) -> list[Control]:
    """What a policy sets while each spell of (steps, components) lasts."""
    controls, state = [], None
    for steps, components in spells:
        for _ in range(steps):
            action, state = policy.predict(encode_named(components), state)
            controls.append(policy.actions.decode(action, *advised))
    return controls


def encode_named(components: dict[str, float]) -> np.ndarray:
    """An observation from some of its components; the others are 0."""
    return encode(np.array([components.get(c.name, 0.0) for c in COMPONENTS]))


def paper_load(scenario: Scenario, arrivals: float, **others: float) -> dict[str, float]:
    """The paper's lengths at some rate, as an observation shows them."""
    shares = coarse_shares(bin_shares(scenario.nominal.lengths))
    seen = {
        "arrivals": arrivals,
        "load": arrivals / 3.228,
        "output_mean": 1024.0,
        "link_capacity_gbps": 100.0,
        "prefill_nodes": 3.0,
        "target_prefill_nodes": 3.0,
        "advised_prefill": 3.0,
    }
    return seen | dict(zip(HISTOGRAM_FACTS, shares, strict=True)) | others


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


@pytest.mark.parametrize(("rate_rps", "wait_s", "spare"), [(6.5, 10.0, 1.0), (6.5, 25.0, 0.5), (13.0, 10.0, 1.0)])
def test_load_aware_fills_the_local_pool_in_an_overload_and_no_more(
    scenario: Scenario, rate_rps: float, wait_s: float, spare: float
) -> None:
    """The shortest prompts stay: what arrives of them takes the pool's time, less while its queue is too long."""
    policy = load_policy("load-aware", scenario, tuned=False, local_wait_s=10.0, steer_s=30.0)
    seen = paper_load(scenario, rate_rps, local_expected_wait_s=wait_s, local_queue=20.0, remote_queue=200.0)
    control = controls_under(policy, (1, seen))[0]
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


def test_priced_completion_asks_more_for_the_remote_pool_the_higher_the_load(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False, price_s=0.1, load_price_s=1.0)
    for load, price in ((0.0, 0.1), (0.5, 0.6), (1.7, 1.1)):
        control = controls_under(policy, (1, paper_load(scenario, 1.0, load=load)))[0]
        assert control.law == "price"
        assert control.price_s == pytest.approx(price, abs=1e-4)


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
    advised = (131072.0, 3)
    seen = paper_load(scenario, 0.2, advised_threshold=advised[0], **still)
    (calm,), (filling,) = (controls_under(policy, (1, seen), advised=advised) for policy in (patient, hasty))
    assert (filling.law, filling.threshold_tokens > 1e6) == ("threshold", True)
    assert calm.law == "price" or calm.threshold_tokens < 1e5


def test_priced_completion_fills_the_local_pool_as_load_aware_does(scenario: Scenario) -> None:
    for rate, wait_s in ((6.5, 3.0), (6.5, 20.0), (13.0, 3.0)):
        seen = paper_load(scenario, rate, local_expected_wait_s=wait_s, advised_threshold=15000.0)
        priced, aware = (
            controls_under(load_policy(name, scenario, tuned=False), (1, seen), advised=(15000.0, 3))[0]
            for name in ("priced-completion", "load-aware")
        )
        assert priced.law == "threshold"
        assert priced.threshold_tokens == pytest.approx(aware.threshold_tokens, rel=1e-3)


def test_priced_completion_asks_more_while_the_link_is_congested(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False, load_price_s=0.0, link_price_s=4.0)
    seen = paper_load(scenario, 1.0, link_congested_share=0.5)
    assert controls_under(policy, (1, seen))[0].price_s == pytest.approx(2.0, abs=1e-3)


def test_priced_completion_does_not_convert_as_the_window_s_advice_flickers(scenario: Scenario) -> None:
    policy = load_policy("priced-completion", scenario, tuned=False)
    for advised in (2, 3, 4):
        seen = paper_load(scenario, 1.6, advised_prefill=float(advised))
        assert controls_under(policy, (1, seen), advised=(1e4, advised))[0].n_prefill == 3


WINDOW = {
    "control_step_s": 10.0,
    "prefill_nodes": 3.0,
    "advised_threshold": 9_000.0,
    "advised_threshold_present_split": 12_000.0,
    "prefill_present_split_rps": 3.0,
    "decode_present_split_rps": 3.9,
    "lambda_max": 3.1,
    "advised_prefill": 5.0,
}


def test_sliding_window_solves_once_a_period_at_the_split_that_is_there(scenario: Scenario) -> None:
    policy = load_policy("sliding-window", scenario, period_s=30.0, hysteresis=0.1)
    controls = controls_under(policy, (4, WINDOW), (2, WINDOW | {"advised_threshold_present_split": 15_000.0}))
    np.testing.assert_allclose([c.threshold_tokens for c in controls], [19_400] * 3 + [12_000] * 3, rtol=1e-4)
    assert {c.n_prefill for c in controls} == {3}  # 3 % more is within the hysteresis
    assert controls_under(policy, (4, WINDOW | {"lambda_max": 3.4}))[-1].n_prefill == 5


def test_long_timescale_moves_n_p_and_never_t(scenario: Scenario) -> None:
    policy = load_policy("long-timescale", scenario, long_period_s=60.0, hysteresis=0.1)
    controls = controls_under(policy, (8, WINDOW | {"lambda_max": 3.4}), (8, WINDOW | {"prefill_nodes": 4.0}))
    assert {c.threshold_tokens for c in controls} == {19_400.0}
    assert [c.n_prefill for c in controls] == [3] * 6 + [4] * 10


# --- dual-timescale, loop by loop -------------------------------------------------------------------------------------

CALM = {
    "control_step_s": 10.0,
    "remote_instances": 4.0,
    "link_capacity_gbps": 100.0,
    "link_utilisation": 0.6,
    "prefill_nodes": 3.0,
    "advised_threshold_present_split": 12_000.0,
    "prefill_present_split_rps": 3.2,
    "decode_present_split_rps": 3.9,
    "lambda_max": 3.2,
    "advised_prefill": 3.0,
}


def controls_of(scenario: Scenario, *spells: tuple[int, dict[str, float]], **parameters: float) -> list[Control]:
    """What ``dual-timescale`` sets while each spell of (steps, components other than calm) lasts."""
    policy = load_policy("dual-timescale", scenario, tuned=False, **parameters)
    return controls_under(policy, *((steps, CALM | components) for steps, components in spells))


def thresholds_of(scenario: Scenario, *spells: tuple[int, dict[str, float]], **parameters: float) -> list[float]:
    return [control.threshold_tokens for control in controls_of(scenario, *spells, **parameters)]


def test_dual_timescale_leaves_a_calm_system_alone(scenario: Scenario) -> None:
    assert set(controls_of(scenario, (100, {}))) == {Control(3, 19_400.0)}


def test_short_loop_searches_t_anew_while_egress_is_congested_once_a_period(scenario: Scenario) -> None:
    seen = thresholds_of(scenario, (7, {"link_utilisation": 0.9}), short_period_s=30.0)
    np.testing.assert_allclose(seen, [19_400] * 3 + [12_000] * 4, rtol=1e-4)


def test_short_loop_goes_beyond_the_searched_t_while_kv_piles_up_and_the_local_pool_is_the_shorter_way(
    scenario: Scenario,
) -> None:
    piled = {"link_utilisation": 1.0, "link_backlog": 50.0, "link_capacity_gbps": 100.0}  # 4 s of the link
    for local_s, expected in ((1.0, 18_000.0), (9.0, 12_000.0)):
        seen = thresholds_of(scenario, (4, piled | {"local_expected_wait_s": local_s}), raise_factor=1.5)
        assert seen[-1] == pytest.approx(expected, rel=1e-4)
    little = piled | {"link_backlog": 5.0}
    assert thresholds_of(scenario, (4, little), raise_factor=1.5)[-1] == pytest.approx(12_000, rel=1e-4)


def test_short_loop_searches_t_anew_when_requests_queue_for_remote_prefill(scenario: Scenario) -> None:
    for searched in (12_000.0, 30_000.0):
        seen = thresholds_of(scenario, (4, {"remote_queue": 8.0, "advised_threshold_present_split": searched}))
        assert seen[-1] == pytest.approx(searched, rel=1e-4)


def test_short_loop_lowers_t_to_the_searched_one_only_after_a_long_idle_spell(scenario: Scenario) -> None:
    idle = {"link_utilisation": 0.1}
    seen = thresholds_of(scenario, (20, idle), idle_after_s=60.0, relax_factor=1.5)
    assert seen[:5] == [19_400.0] * 5
    assert seen[5] == pytest.approx(19_400 / 1.5, rel=1e-4)
    assert seen[-1] == pytest.approx(12_000, rel=1e-4)
    broken = thresholds_of(scenario, (5, idle), (1, {}), (5, idle), idle_after_s=60.0)
    assert set(broken) == {19_400.0}


def test_short_loop_keeps_requests_local_while_the_link_is_down(scenario: Scenario) -> None:
    down = {"link_capacity_gbps": 0.0, "link_utilisation": 0.0, "advised_threshold_present_split": 2.0**20}
    assert thresholds_of(scenario, (4, down))[-1] == np.inf


def test_long_loop_turns_one_node_over_and_only_beyond_the_hysteresis(scenario: Scenario) -> None:
    def targets(prefill: float, decode: float, best: int, **queues: float) -> set[int]:
        rates = {"prefill_present_split_rps": prefill, "decode_present_split_rps": decode}
        optimum = {"lambda_max": 3.0, "advised_prefill": float(best)}
        settings = {"long_period_s": 120.0, "hysteresis": 0.1}
        return {c.n_prefill for c in controls_of(scenario, (13, rates | optimum | queues), **settings)[12:]}

    assert targets(2.8, 3.9, best=5) == targets(3.9, 2.8, best=1) == {3}  # another split would gain 7 % only
    assert targets(2.0, 3.9, best=5) == {4}  # prefill-bound
    assert targets(3.9, 2.0, best=1) == {2}  # decode-bound
    assert targets(2.0, 3.9, best=5, decode_queue=9.0) == {3}  # the queues say the opposite
    assert targets(3.9, 2.0, best=1, local_queue=9.0) == {3}


def test_long_loop_waits_for_a_conversion_and_then_solves_t_anew(scenario: Scenario) -> None:
    bound = {"prefill_present_split_rps": 2.0, "advised_prefill": 4.0}
    seen = controls_of(
        scenario,
        (13, bound),
        (30, bound | {"converting_share": 0.125}),
        (1, {"prefill_nodes": 4.0}),
        long_period_s=120.0,
    )
    assert [c.n_prefill for c in seen[11:]] == [3] + [4] * 32
    assert seen[-2].threshold_tokens == 19_400.0
    assert seen[-1].threshold_tokens == pytest.approx(12_000, rel=1e-4)


def test_dual_timescale_beats_a_static_setting_under_drift() -> None:
    drift = load_scenario("drift-mix")
    means = {
        name: np.mean([run(drift, load_policy(name, drift), seed)[0].finish()["ttft_s"].mean() for seed in range(2)])
        for name in ("static", "dual-timescale")
    }
    assert means["dual-timescale"] < means["static"]


# --- by name ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("dual-timescales", {}, "unknown policy 'dual-timescales'; did you mean 'dual-timescale'"),
        ("static", {"threshold": 5}, "policy static: threshold: unknown key; did you mean 'threshold_tokens'"),
        ("static", {"threshold_tokens": -1}, "threshold_tokens: expected"),
        ("naive", {"price_s": 1}, "policy naive: price_s: unknown key"),
        ("dual-timescale", {"idle_utilisation": 0.9}, "idle_utilisation: expected less than congested_utilisation"),
        ("no/such/model.zip", {}, "no/such/model.zip: no such file"),
        ("learned", {"price_s": 1}, "a trained model has no parameters"),
    ],
)
def test_bad_names_and_parameters_are_refused_in_one_line(
    scenario: Scenario, name: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        load_policy(name, scenario, **parameters)
    assert "\n" not in str(refusal.value)


def test_learned_says_so_while_no_model_is_shipped(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_PRETRAINED", tmp_path / "none")
    assert agents.names() == [*agents._SCRIPTED, "learned"]
    with pytest.raises(ConfigError, match="policy learned: no trained model is shipped"):
        load_policy("learned", scenario)


def test_every_form_with_a_model_is_a_policy(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder a form; a folder without a model is none."""
    (tmp_path / "absolute").mkdir()
    for form in ("price", "residual"):
        (tmp_path / form).mkdir()
        card = ModelCard("PPO", form, layout_hash())  # type: ignore[arg-type]
        layer = Layer(np.zeros((2, len(COMPONENTS)), np.float32), np.zeros(2, np.float32), "Clip")
        Network((layer,)).save(tmp_path / form / "model.npz", card)
    monkeypatch.setattr(agents, "_PRETRAINED", tmp_path)
    assert policy_names() == [*agents._SCRIPTED, "learned", "learned-price"]
    assert {name: load_policy(name, scenario).action_mode for name in agents.pretrained()} == {
        "learned": "residual",
        "learned-price": "price",
    }
    assert "of the form price" in policy_line("learned-price") != policy_line("learned")
    assert is_learned("learned-price")
    assert not is_learned("learned-absolute")
    assert policy_hash("learned-price", scenario) != policy_hash("learned", scenario) != policy_hash("static", scenario)
    with pytest.raises(ConfigError, match="unknown policy 'learned-prices'; did you mean 'learned-price'"):
        load_policy("learned-prices", scenario)


def test_a_foreign_agents_package_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "__file__", str(tmp_path / "agents" / "__init__.py"))
    with pytest.raises(ConfigError, match="hides this project's own"):
        policy_names()


@pytest.mark.parametrize("name", [*SCRIPTED, "learned"])
def test_every_policy_is_described_in_one_line(name: str) -> None:
    line = policy_line(name)
    assert 20 < len(line) < 140
    assert line.isprintable()
    assert "`" not in line


def test_the_readme_names_every_policy_and_parameter() -> None:
    readme = (Path(agents.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in readme for name in policy_names())
    assert DualTimescale.Parameters is DualTimescaleParameters


# --- trained models ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained PPO, saved with its card."""
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    from prfaas_env.environment.env import PrfaaSEnv

    path = tmp_path_factory.mktemp("model") / "model.zip"
    sb3.PPO("MlpPolicy", PrfaaSEnv("paper-stationary-80", action="price"), seed=0, device="cpu").save(path)
    card = {"algorithm": "PPO", "action": "price", "observation": layout_hash()}
    path.with_suffix(".json").write_text(json.dumps(card), encoding="utf-8")
    return path


def test_a_trained_model_is_a_policy(scenario: Scenario, model: Path) -> None:
    policy = load_policy(model, scenario)
    assert policy.action_mode == "price"
    controls = run(scenario, policy)[1]
    assert {control.law for control in controls} == {"price"}
    assert controls == run(scenario, load_policy(str(model), scenario))[1]


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (None, "the card of model.zip cannot be read"),
        ("{", "not valid JSON"),
        ({"algorithm": "PPO", "action": "price", "observation": "0"}, "the model was trained on layout '0'"),
        ({"algorithm": "PPO", "observation": "0", "of_old": 1}, "the model was trained on layout '0'"),
        ({"algorithm": "PPO", "action": "prices", "observation": layout_hash()}, "did you mean 'price'"),
        ({"algorithm": "PPA", "action": "price", "observation": layout_hash()}, "has no 'PPA'"),
        ({"algorithm": "SAC", "action": "price", "observation": layout_hash()}, "cannot be loaded as SAC"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    scenario: Scenario, model: Path, tmp_path: Path, card: Any, message: str
) -> None:
    copy = tmp_path / "model.zip"
    copy.write_bytes(model.read_bytes())
    if card is not None:
        copy.with_suffix(".json").write_text(card if isinstance(card, str) else json.dumps(card), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as refusal:
        load_policy(copy, scenario)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_no_model_is_refused(scenario: Scenario, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model.zip"
    copy.write_bytes(model.read_bytes()[:1000])
    copy.with_suffix(".json").write_bytes(model.with_suffix(".json").read_bytes())
    with pytest.raises(ConfigError, match="cannot be loaded as PPO"):
        load_policy(copy, scenario)


def test_deployments_reach_the_policies(scenario: Scenario) -> None:
    """A policy made for one deployment encodes for that one: N_p is relative to its bounds."""
    large = scenario.with_overrides(deployment={"local": {"instances": 16, "prefill": 6}})
    assert set(run(large, load_policy("static", large))[1]) == {Control(6, 19_400.0)}
    assert load_deployment("prfaas-pd").local.prefill == 3
