"""The control loop and its Gymnasium coat: contracts of Gymnasium and SB3, determinism, actions, reward, rendering."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.environment.actions import ACTION_FORMS, action_form
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.env import PrfaaSEnv
from prfaas_env.environment.live import LiveDashboard
from prfaas_env.environment.page import environment_page
from prfaas_env.environment.registration import ENVIRONMENT_ID
from prfaas_env.environment.reward import PATIENCE_S, REWARDS, TERMS
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import ENGINES
from prfaas_env.simulator.signals import SIGNAL

SHORT = {"scenario": "paper-stationary-80", "horizon_s": 120.0}
REPOSITORY = Path(__file__).resolve().parent.parent


def make(**changes: Any) -> PrfaaSEnv:
    return PrfaaSEnv(**{**SHORT, **changes})


def episode(env: PrfaaSEnv, seed: int | None, actions_seed: int = 0) -> list[tuple[np.ndarray, float, bool, dict]]:
    """Observation, reward, truncated, info of every step under random actions."""
    rng = np.random.default_rng(actions_seed)
    observation, info = env.reset(seed=seed)
    steps = [(observation, 0.0, False, info)]
    while not steps[-1][2]:
        observation, reward, terminated, truncated, info = env.step(rng.uniform(-1, 1, 2).astype(np.float32))
        assert not terminated
        steps.append((observation, reward, truncated, info))
    return steps


def same(one: list, other: list) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a[0], b[0]) and a[1:] == b[1:] for a, b in zip(one, other, strict=True)
    )


# --- contracts --------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("action", ACTION_FORMS)
@pytest.mark.parametrize("reward", REWARDS)
def test_gymnasium_finds_nothing_to_warn_about(strict: None, action: str, reward: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(ENVIRONMENT_ID, **SHORT, action=action, reward=reward).unwrapped)


@pytest.mark.parametrize("render_mode", PrfaaSEnv.metadata["render_modes"])
def test_gymnasium_has_nothing_against_a_render_mode(strict: None, render_mode: str) -> None:
    """Its checker, and the wrappers of ``make``, which look at what every call of an episode gives."""
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(ENVIRONMENT_ID, **SHORT, render_mode=render_mode).unwrapped)
    env = gymnasium.make(ENVIRONMENT_ID, **SHORT, render_mode=render_mode)
    env.reset(seed=0)
    env.step(np.zeros(2, dtype=np.float32))
    env.render()
    env.close()


@pytest.mark.parametrize("action", ACTION_FORMS)
def test_stable_baselines3_finds_nothing_to_warn_about(action: str) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker", reason="needs the extra 'train'")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(make(action=action))


def test_information_is_ten_floats_under_the_same_names() -> None:
    steps = episode(make(), 0)[1:]
    assert {tuple(step[3]) for step in steps} == {tuple(steps[0][3])}
    assert len(steps[0][3]) <= 10
    assert all(type(value) is float for step in steps for value in step[3].values())
    assert all(type(step[1]) is float and type(step[2]) is bool for step in steps)


def test_the_time_limit_truncates_and_a_step_after_it_is_refused() -> None:
    env = make(horizon_s=95.0)
    assert len(episode(env, 0)) == 1 + 10  # nine full steps and one of five seconds
    assert env.loop.timeline[:, SIGNAL["interval_s"]].tolist() == [10.0] * 9 + [5.0]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(np.zeros(2))


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(RuntimeError, match="call reset"):
        make().step(np.zeros(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "paper-stationery"}, "did you mean 'paper-stationary"),
        ({"action": "residuals"}, "did you mean 'residual'"),
        ({"reward": "good"}, "did you mean 'goodput'"),
        ({"engine": "referense"}, "did you mean 'reference'"),
        ({"render_mode": "rgb"}, "did you mean 'rgb_array'"),
        ({"window_s": 0.0}, "window_s: expected a number of seconds > 0"),
        ({"window_s": 1e300}, "window_s: expected a number of seconds > 0"),
        ({"window_s": "long"}, "window_s: expected a number of seconds > 0"),
        ({"action": ["residual"]}, "action: expected a name"),
        ({"reward": {"ttft": 1}}, "reward: expected a name"),
        ({"cache_rule": 1}, "cache_rule: expected a name"),
        ({"control_step_s": 0.5}, "control_step_s: expected a number ≥ 1"),
        ({"horizon_s": -1.0}, "horizon_s: expected a number > 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        make(**arguments).reset(seed=0)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("action", [np.array([np.nan, 0.0]), np.array([0.0, np.inf]), np.zeros(3), np.zeros((1, 2))])
def test_an_action_that_is_not_two_finite_numbers_is_refused(action: np.ndarray) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected 2 finite numbers"):
        env.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([1], "reset: options: expected a mapping"),
        ({5: 1}, "reset: unknown option 5"),
        ({"scenario": 5}, "reset: scenario: expected a mapping"),
        ({"scenario": "drift-mix"}, "reset: scenario: expected a mapping"),
        ({"scenario": {5: 1}}, "5: unknown key"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make().unwrapped.reset(seed=0, options=options)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, True])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed: expected a whole number ≥ 0"):
        load_scenario("paper-stationary").draw(seed)


def test_options_override_the_scenario_for_one_episode() -> None:
    env = make()
    env.reset(seed=0, options={"scenario": {"load": 0.0}})
    assert env.step(np.zeros(2))[4]["waiting"] == 0.0
    assert env.loop.scenario.load == 0.0
    env.reset(seed=0)
    assert env.loop.scenario is env.scenario
    with pytest.raises(ConfigError, match="did you mean 'scenario'"):
        env.reset(options={"scenarios": {}})
    with pytest.raises(ConfigError, match="did you mean 'horizon_s'"):
        env.reset(options={"scenario": {"horizons": 5}})


# --- randomness -------------------------------------------------------------------------------------------------------


def test_a_seed_fixes_the_whole_trajectory_and_consecutive_resets_differ() -> None:
    env = make()
    first, second = episode(env, 7), episode(env, None)
    assert not same(first, second)
    again = make()
    assert same(first, episode(again, 7))
    assert same(second, episode(again, None))
    assert not same(first, episode(env, 8))


def test_no_action_can_change_what_arrives() -> None:
    env = make()
    episode(env, 3, actions_seed=0)
    one = env.finish()
    episode(env, 3, actions_seed=1)
    other = env.finish()
    for name in ("arrival_s", "input_tokens", "output_tokens"):
        np.testing.assert_array_equal(one[name], other[name])
    assert not np.array_equal(one["remote"], other["remote"])


def test_the_environment_draws_what_the_loop_draws_at_the_same_seed() -> None:
    env = make()
    env.reset(seed=5)
    loop = ControlLoop(env.scenario)
    loop.reset(5)
    np.testing.assert_array_equal(env.loop.episode.draw.stream.arrival_s, loop.episode.draw.stream.arrival_s)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pickled_environment_draws_on_alike_after_a_reset(engine: str) -> None:
    env = make(engine=engine)
    env.reset(seed=2)
    env.step(np.zeros(2))
    copy = pickle.loads(pickle.dumps(env))
    with pytest.raises(RuntimeError, match="call reset"):
        copy.step(np.zeros(2))
    assert same(episode(env, None), episode(copy, None))


def test_both_engines_give_the_same_trajectory() -> None:
    one, other = (episode(make(engine=engine), 6) for engine in ENGINES)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a[0], b[0], atol=1e-5)
        assert a[1] == pytest.approx(b[1], abs=1e-6)


def _first_reward(env: PrfaaSEnv) -> float:
    env.reset(seed=1)
    return env.step(np.zeros(2))[1]


def test_a_spawned_process_steps_alike() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_first_reward, (make(),)) == _first_reward(make())


# --- actions ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return load_deployment("prfaas-pd")


def test_zero_residual_is_the_closed_form_and_zero_price_the_least_completion(deployment: Deployment) -> None:
    zero = np.zeros(2, np.float32)
    assert action_form("residual", deployment).decode(zero, 19_613.7, 3) == Control(3, 19_613.7)
    assert action_form("price", deployment).decode(zero, 19_613.7, 3) == Control(3, law="price", price_s=0.0)


@pytest.mark.parametrize("tokens", [0.0, 256.0, 4_096.0, 19_400.0, 131_072.0, 262_144.0, np.inf])
@pytest.mark.parametrize("n_prefill", [1, 2, 5, 7])
def test_absolute_actions_give_back_the_control_exactly(deployment: Deployment, tokens: float, n_prefill: int) -> None:
    form = action_form("absolute", deployment)
    control = Control(n_prefill, tokens)
    assert form.decode(form.encode(control, 1e4, 3), 1e4, 3) == control


def test_residual_and_price_actions_give_back_the_control(deployment: Deployment) -> None:
    residual, price = action_form("residual", deployment), action_form("price", deployment)
    for offset in (-2, -1, 0, 1, 2):
        for factor in (0.25, 0.8, 1.0, 4.0):
            back = residual.decode(residual.encode(Control(4 + offset, 2e4 * factor), 2e4, 4), 2e4, 4)
            assert back.n_prefill == 4 + offset
            assert back.threshold_tokens == pytest.approx(2e4 * factor, rel=1e-6)
        for price_s in (0.0, 0.1, 12.0):
            control = Control(4 + offset, law="price", price_s=price_s)
            back = price.decode(price.encode(control, 2e4, 4), 2e4, 4)
            assert (back.law, back.n_prefill) == ("price", 4 + offset)
            assert back.price_s == pytest.approx(price_s, abs=1e-5)


def test_residual_corrections_are_alike_up_and_down_and_stay_in_the_bounds(deployment: Deployment) -> None:
    form = action_form("residual", deployment)
    up, down = (form.decode(np.array([a, a]), 1e4, 4) for a in (1.0, -1.0))
    assert (up.n_prefill, down.n_prefill) == (6, 2)
    assert up.threshold_tokens * down.threshold_tokens == pytest.approx(1e8)
    assert up.threshold_tokens == pytest.approx(1e4 * np.exp(3.0))
    assert form.decode(np.array([0, 1.0]), 1e4, 7).n_prefill == 7
    assert form.decode(np.array([0, -1.0]), 1e4, 1).n_prefill == 1
    assert form.decode(np.array([9.0, 0]), 1e4, 4) == form.decode(np.array([1.0, 0]), 1e4, 4)


def test_a_price_above_zero_is_in_seconds_and_finer_near_zero(deployment: Deployment) -> None:
    form = action_form("price", deployment)
    prices = np.array([form.decode(np.array([a, 0.0]), 1e4, 3).price_s for a in np.linspace(0, 1, 21)])
    assert (prices[0], prices[-1]) == (0.0, pytest.approx(120.0))
    assert (np.diff(prices) > 0).all()
    assert np.diff(prices)[0] < np.diff(prices)[-1] / 5


def test_well_below_zero_the_price_form_names_a_threshold_about_t_fill(
    deployment: Deployment,
) -> None:
    form = action_form("price", deployment)
    actions = np.linspace(-1.0, -0.2 - 1e-6, 41)
    controls = [form.decode(np.array([a, 0.0]), 5e4, 3, 1e4) for a in actions]
    assert {control.law for control in controls} == {"threshold"}
    ratios = np.array([control.threshold_tokens / 1e4 for control in controls])
    assert ratios[[0, 20, 40]] == pytest.approx([np.exp(3.0), 1.0, np.exp(-3.0)], rel=1e-4)
    steps = -np.diff(np.log(ratios))
    assert (steps > 0).all()
    assert steps[20] < steps[0] / 5  # finer near it


@given(st.floats(500.0, 2e5), st.sampled_from([1e3, 2e4, 262144.0]))
def test_the_price_form_gives_back_the_threshold_that_was_asked_for(wanted: float, filling: float) -> None:
    form = action_form("price", load_scenario("paper-stationary-80").deployment)
    back = form.decode(form.encode(Control(3, wanted), 5e4, 3, filling), 5e4, 3, filling)
    nearest = min(max(wanted, filling * np.exp(-3.0)), filling * np.exp(3.0))
    assert (back.law, back.n_prefill) == ("threshold", 3)
    assert back.threshold_tokens == pytest.approx(nearest, rel=1e-4)


@pytest.mark.parametrize(("wanted", "sign"), [(0.0, -1.0), (np.inf, 1.0)])
def test_the_price_form_comes_as_near_as_it_can_to_all_or_nothing(
    deployment: Deployment, wanted: float, sign: float
) -> None:
    form = action_form("price", deployment)
    back = form.decode(form.encode(Control(3, wanted), 5e4, 3, 1e4), 5e4, 3, 1e4)
    assert back.law == "threshold"
    assert np.log(back.threshold_tokens / 1e4) == pytest.approx(3.0 * sign, rel=1e-4)


def test_about_the_zero_action_the_price_form_asks_for_nothing(deployment: Deployment) -> None:
    form = action_form("price", deployment)
    for first in (-0.2, np.float32(-0.2), -0.1, -1e-9, 0.0):
        assert form.decode(np.array([first, 0.0]), 1e4, 3) == Control(3, 0.0, "price", 0.0)


def test_a_price_below_zero_cannot_be_named_and_becomes_none(deployment: Deployment) -> None:
    form = action_form("price", deployment)
    assert form.decode(form.encode(Control(3, law="price", price_s=-20.0), 1e4, 3), 1e4, 3).price_s == 0.0


# --- reward -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
def test_the_reward_is_exactly_the_weighted_sum_of_its_terms(reward: str) -> None:
    for _, value, _, info in episode(make(reward=reward), 0)[1:]:
        total = 0.0
        for term in TERMS:
            total += REWARDS[reward].get(term.name, 0.0) * info[term.name]
        assert value == total


def test_the_terms_are_what_happened_per_nominal_arrival() -> None:
    scenario = load_scenario("paper-stationary-80").with_overrides(
        horizon_s=300.0, deployment={"link": {"price_usd_per_gb": 0.02}}
    )
    env = PrfaaSEnv(scenario)
    infos = [step[3] for step in episode(env, 4)[1:]]
    nominal = scenario.lambda_max_rps * scenario.control_step_s
    timeline, log = env.loop.timeline, env.finish()
    total = {term.name: sum(info[term.name] for info in infos) * nominal for term in TERMS}
    seen = log["first_token_s"] <= 300.0
    # Little's law, against the request log; what waits at the horizon has waited until then.
    until = np.minimum(np.where(seen, log["first_token_s"], 300.0), log["arrival_s"] + PATIENCE_S)
    assert total["waiting"] == pytest.approx((until - log["arrival_s"]).sum())
    assert total["throughput"] == pytest.approx(seen.sum())
    done = log[log["finish_s"] <= 300.0]
    good = (done["ttft_s"] <= scenario.objectives.ttft_s[0]) & (done["tpot_s"] <= scenario.objectives.tpot_s[0])
    assert 0 < good.sum() == pytest.approx(total["goodput"])
    assert total["egress_usd"] == pytest.approx(timeline[:, SIGNAL["link_sent_bytes"]].sum() / 1e9 * 0.02)
    assert total["egress_usd"] > 0
    assert total["instances_usd"] == pytest.approx(scenario.deployment.instances_usd_per_hour * 300 / 3600)


def test_the_patient_reward_is_the_sum_of_all_ttfts() -> None:
    """In an overload, where the capped one is not."""
    scenario = load_scenario("paper-stationary-80").with_overrides(horizon_s=600.0, load=2.5)
    totals = {}
    for reward in ("ttft", "mean-ttft"):
        env = PrfaaSEnv(scenario, reward=reward)
        totals[reward] = sum(step[3]["waiting"] for step in episode(env, 4)[1:])
        log = env.finish()
    waited = (np.minimum(log["first_token_s"], 600.0) - log["arrival_s"]).sum()
    nominal = scenario.lambda_max_rps * scenario.control_step_s
    assert totals["mean-ttft"] * nominal == pytest.approx(waited)
    assert totals["ttft"] < 0.9 * totals["mean-ttft"]


def test_no_request_is_lost_at_the_horizon() -> None:
    env = make()
    episode(env, 0)
    stream = env.loop.episode.draw.stream
    log = env.finish()
    assert len(log) == len(stream)
    assert np.isfinite(log["ttft_s"]).all()
    assert np.isfinite(log["finish_s"]).all()


# --- what people look at ----------------------------------------------------------------------------------------------


def test_the_page_is_what_the_docstring_says() -> None:
    assert (REPOSITORY / "docs" / "environment.md").read_text(encoding="utf-8") == environment_page()
    assert "{" not in environment_page().replace('{"scenario":\n{…}}', "")  # every table was put in


def test_the_panel_tells_the_knobs() -> None:
    env = make(render_mode="ansi")
    env.reset(seed=0)
    assert "no interval yet" in str(env.render())
    env.step(np.zeros(2))
    panel = str(env.render())
    assert f"t {env.loop.control.threshold_tokens:,.0f} tokens" in panel
    assert "N_p 3" in panel
    assert "10 / 120 s" in panel
    assert max(map(len, panel.splitlines())) < 80


def test_the_picture_is_the_panel_and_keeps_its_size() -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    env = make(render_mode="rgb_array", scenario="drift-mix")
    env.reset(seed=0)
    before = env.render()
    env.step(np.zeros(2))
    after = env.render()
    assert isinstance(before, np.ndarray)
    assert isinstance(after, np.ndarray)
    assert before.shape == after.shape == (*after.shape[:2], 3)
    assert after.dtype == np.uint8
    assert (after > 128).sum() > (before > 128).sum() > 0


def dashboard(terminal: bool, fps: float = 1000.0) -> tuple[PrfaaSEnv, io.StringIO]:
    """An environment that shows itself on a console of its own, and what that console was sent."""
    env, sent = make(render_mode="human"), io.StringIO()
    env._dashboard = LiveDashboard(fps, Console(file=sent, force_terminal=terminal, width=100))
    return env, sent


def test_a_terminal_shows_every_step_without_a_call_of_render() -> None:
    env, sent = dashboard(terminal=True)
    episode(env, 0)
    assert env.render() is None  # type: ignore[func-returns-value]  # Gymnasium: nothing, under human
    env.close()
    shown = re.findall(r"([\d,]+) / 120 s", sent.getvalue())
    assert list(dict.fromkeys(shown)) == [str(10 * step) for step in range(13)]
    for part in ("N_p", "remote", "decode", "TTFT, s", "█"):
        assert part in sent.getvalue()
    assert re.search("N_p[^▁-█]*[▁-█]{12}", sent.getvalue())  # a block a step, none left out
    hide, give_back = "\x1b[?25l", "\x1b[?25h"  # of the cursor
    assert sent.getvalue().index(hide) < sent.getvalue().rindex(give_back)


def test_a_terminal_keeps_to_the_pictures_a_second() -> None:
    env, _ = dashboard(terminal=True, fps=50.0)
    env.reset(seed=0)
    begin_s = time.monotonic()
    for _ in range(5):
        env.step(np.zeros(2))
    assert time.monotonic() - begin_s >= 5 / 50.0 - 0.001
    env.close()


def test_without_a_terminal_each_step_is_a_plain_line() -> None:
    env, sent = dashboard(terminal=False, fps=0.001)  # and nothing waits
    episode(env, 0)
    lines = sent.getvalue().splitlines()
    assert len(lines) == 13
    assert lines[0] == "paper-stationary-80 on prfaas-pd  0 / 120 s"
    assert all("\x1b" not in line for line in lines)
    assert f"N_p {env.loop.timeline[-1, SIGNAL['prefill_nodes']]:.0f}" in lines[-1]


def test_an_environment_that_shows_itself_can_be_copied() -> None:
    env, _ = dashboard(terminal=True)
    env.reset(seed=0)
    copy = pickle.loads(pickle.dumps(env))
    env.close()
    assert copy.render_mode == "human"


def test_cache_rule_copies_prefixes_only_where_bandwidth_is_to_spare() -> None:
    """``auto`` behaves as ``abundant`` on an ample line and as ``scarce`` on one that is full."""

    def returned(rule: str, gbps: float) -> float:
        base = load_scenario("mooncake-like")
        scenario = replace(base, horizon_s=600.0).with_overrides({"deployment": {"link": {"capacity_gbps": gbps}}})
        loop = ControlLoop(scenario, cache_rule=rule)
        loop.reset(0)
        for _ in range(60):
            loop.step(np.zeros(2))
        return float(loop.finish()["bytes_returned"].sum())

    assert returned("scarce", 100.0) == 0.0 < returned("auto", 100.0) <= returned("abundant", 100.0)
    assert returned("auto", 1.0) < 0.5 * returned("abundant", 1.0)
    with pytest.raises(ConfigError, match="did you mean 'scarce'"):
        ControlLoop(load_scenario("mooncake-like"), cache_rule="scarse")
