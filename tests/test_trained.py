"""Trained models as policies: which are taken, and which are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prfaas_env.config import ConfigError
from prfaas_env.environment.observation import layout_hash
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario
from tests.policies import run


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
