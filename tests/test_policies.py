"""The scripted policies, the protocol they share, and how policies are found by name."""

from __future__ import annotations

import pickle
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
from prfaas_env.environment.observation import COMPONENTS, layout_hash
from prfaas_env.evaluation.fingerprint import policy_hash
from prfaas_env.evaluation.verdict import is_learned
from prfaas_env.policies import load_policy, policy_line, policy_names
from prfaas_env.resources import names as shipped
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import SIGNAL
from prfaas_env.theory.plan import plan
from tests.policies import run

SCRIPTED = [
    name
    for name in policy_names()
    if name in agents._SCRIPTED and issubclass(agents.policy_class(name), ScriptedPolicy)
]
TUNABLE = [name for name in SCRIPTED if agents.policy_class(name).tunable]


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


def test_deployments_reach_the_policies(scenario: Scenario) -> None:
    """A policy made for one deployment encodes for that one: N_p is relative to its bounds."""
    large = scenario.with_overrides(deployment={"local": {"instances": 16, "prefill": 6}})
    assert set(run(large, load_policy("static", large))[1]) == {Control(6, 19_400.0)}
    assert load_deployment("prfaas-pd").local.prefill == 3


@pytest.mark.parametrize("name", SCRIPTED)
def test_an_observation_that_is_no_number_is_refused(name: str, scenario: Scenario) -> None:
    policy = load_policy(name, scenario)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="observation: expected finite numbers"):
            policy.predict(np.full(len(COMPONENTS), bad, dtype=np.float32))


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
