"""Every learner learns; what it sees, what its rewards are, and which episodes are compared."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

# Skips this file where the training extras are missing, and so comes before what needs them.
from tests.training_runs import call, run_of, steps_kept, validations

# isort: split
import torch
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback

from agents.trained import Trained
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import COMPONENTS, GROUPS, observation_space
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.suites import members
from prfaas_env.policies import load_policy
from prfaas_env.scenario import load_scenario
from prfaas_env.seeds import (
    lesson_seeds,
    training_seed,
)
from prfaas_env.training.model import training_environments
from prfaas_env.training.run import _scenarios, _validated
from prfaas_env.training.settings import ALGORITHMS, Settings

# --- learners, groups of scenarios, parts of the observation ----------------------------------------------------------


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_learner_learns_acts_and_goes_on(algo: str, scenarios: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert call(*run_of(algo, scenarios, out)) == 0
    first, *_, last = steps_kept(out)
    assert (first, validations(out)[0]["ttft_ratio"]) == (0, 1.0)
    for steps in (first, last):  # a checkpoint too is a policy
        for name in ("model.zip", "model.json"):
            shutil.copy(out / "checkpoints" / f"{steps:09d}" / name, tmp_path / name)
        scenario = load_scenario(scenarios.split(",")[0])
        assert load_policy(tmp_path / "model.zip", scenario).action_mode == "residual"
        policy = Trained(tmp_path / "model.zip")  # not held to what it has met, which no random observation is near
        state, actions = None, []
        rng = np.random.default_rng(0)
        for k in range(3):
            seen = rng.uniform(-1, 1, len(COMPONENTS)).astype(np.float32)
            action, state = policy.predict(seen, state=state, episode_start=np.array([k == 0]), deterministic=True)
            actions.append(action)
        assert (np.abs(actions).max() > 0.0) == (steps > 0)
        assert (state is not None) == (algo == "recurrent-ppo")
    assert simulate(scenario, out / "model.zip", 1).summary["arrived"] > 0
    assert call("--resume", out, "--timesteps", str(last + 40)) == 0
    assert steps_kept(out)[-1] >= last + 40


def test_a_group_of_scenarios_is_spread_over_the_copies_and_others_validate(tmp_path: Path) -> None:

    shipped = members("train")
    settings = Settings(scenarios=("train",), n_envs=2 * len(shipped), validation_scenarios=("validation",))
    found = _scenarios(settings, Console(quiet=True))
    assert [scenario.name for scenario in found] == list(shipped)
    assert {scenario.split for scenario in found} == {"train"}
    environments = training_environments(settings, found, training_seed(0, 0))
    copies = environments.unwrapped.env
    assert [loop.scenario.name for loop in copies.batch.loops] == 2 * list(shipped)
    environments.close()
    assert {scenario.split for scenario in _validated(settings)} == {"validation"}
    for few, least in (
        (Settings(scenarios=("train",), n_envs=2), 1),
        (Settings(scenarios=("train",), n_envs=2, algo="es"), 2),
    ):
        with pytest.raises(ConfigError, match=f"n_envs: expected at least {least * len(shipped)}"):
            _scenarios(few, Console(quiet=True))


def test_a_policy_sees_only_the_groups_that_it_was_given(scenarios: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert sorted(k for group in GROUPS.values() for k in group) == list(range(len(COMPONENTS)))
    assert call(*run_of("ppo", scenarios, out, 'observation_groups=["flow","histogram"]')) == 0
    assert json.loads((out / "model.json").read_text())["training"]["observation_groups"] == ["flow", "histogram"]
    last = out / "checkpoints" / f"{steps_kept(out)[-1]:09d}" / "model.zip"
    policy = Trained(last)
    rng = np.random.default_rng(0)
    seen, other = rng.uniform(-1, 1, (2, len(COMPONENTS))).astype(np.float32)
    own = [k for group in ("flow", "histogram") for k in GROUPS[group]]
    hidden = np.setdiff1d(np.arange(len(COMPONENTS)), own)
    changed = seen.copy()
    changed[hidden] = other[hidden]
    action = policy.predict(seen)[0]
    assert np.array_equal(policy.predict(changed)[0], action)
    changed[own] = other[own]
    assert not np.array_equal(policy.predict(changed)[0], action)


def test_evolution_compares_pairs_on_the_same_episode(scenarios: str) -> None:
    from prfaas_env.training.evolution import Evolution, signed_ranks
    from prfaas_env.training.features import Scaling
    from prfaas_env.training.learners import new_model

    assert signed_ranks(np.array([0.5, -10.0, 0.0, 2.0])) == pytest.approx([0.5, -1.0, 0.0, 0.75])
    found = [load_scenario(path) for path in scenarios.split(",")]
    settings = Settings(scenarios=("x",), algo="es", n_envs=8, perturbation=1e-9)
    environments = training_environments(settings, found, training_seed(0, 0))
    model = new_model(settings, environments, Scaling.unit())
    assert isinstance(model, Evolution)
    with torch.no_grad():
        model.policy.action_net.weight.normal_()
    _, callback = model._setup_learn(0, _Silent())
    seen = np.random.default_rng(0).uniform(-1, 1, (8, len(COMPONENTS))).astype(np.float32)
    weights = [np.repeat(parameter.detach().numpy()[None], 8, axis=0) for parameter in model._weights()]
    np.testing.assert_allclose(model._act(seen, weights), model.predict(seen, deterministic=True)[0], atol=1e-5)
    assert model.collect_rollouts(environments, callback, model.rollout_buffer, 2)
    pairs = model._fitness.reshape(4, 2)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=1e-3)
    assert len(np.unique(pairs[:, 0].round(6))) == 4
    assert model.num_timesteps == 8 * 6
    environments.close()


def test_a_pair_of_rewards_is_the_gain_over_the_zero_action(scenarios: str) -> None:
    """Nothing for doing nothing; over an episode, one less the ratio of what was waited."""
    found = [load_scenario(path) for path in scenarios.split(",")]
    settings = Settings(scenarios=("x",), n_envs=4, reward="mean-ttft", paired=True)
    steps = math.ceil(found[0].horizon_s / found[0].control_step_s)
    for action, episodes in (((0.0, 0.0), 3), ((0.4, -0.5), 2)):
        environments = training_environments(settings, found, training_seed(0, 0))
        single = training_environments(replace(settings, paired=False), found, training_seed(0, 0))
        zero = training_environments(replace(settings, paired=False), found, training_seed(0, 0))
        for copies in (environments, single, zero):
            copies.reset()
        for _ in range(episodes):
            gains, own, base = np.zeros(4), np.zeros(4), np.zeros(4)
            for _ in range(steps):
                taken = np.tile(np.array(action, dtype=np.float32), (4, 1))
                for copies, total, given in (
                    (environments, gains, taken),
                    (single, own, taken),
                    (zero, base, 0 * taken),
                ):
                    copies.step(given)
                    total += copies.original_rewards
            np.testing.assert_allclose(gains / steps, 1.0 - own / base, atol=1e-5)
            assert (gains == 0.0).all() == (action == (0.0, 0.0))
        for copies in (environments, single, zero):
            copies.close()


def test_features_are_centred_stretched_and_bounded(scenarios: str) -> None:
    from prfaas_env.training.features import Features, measured_scaling

    found = [load_scenario(path) for path in scenarios.split(",")]
    scaling = measured_scaling("residual", found, lesson_seeds(0, 1)[0], copies=4)
    extractor = Features(observation_space(), scaling.factor.tolist(), scaling.offset.tolist())
    observations = []
    for scenario in found:
        loop = ControlLoop(scenario, "residual")
        observations.append(loop.reset(11))
        while len(loop.episode.signals) < loop.steps:
            observations.append(loop.step(np.zeros(2)).observation)
    seen = torch.from_numpy(np.array(observations))
    features = extractor(seen).numpy()
    assert np.abs(features).max() <= 1.0
    assert np.abs(features.mean(axis=0)).max() < 0.5
    names = [component.name for component in COMPONENTS]
    constant = names.index("control_step_s")
    assert scaling.factor[constant] == 0.0
    assert (features[:, constant] == 0.0).all()
    # Two instances of a small cluster are told apart as well as the load is.
    n_prefill = names.index("prefill_nodes")
    assert features[:, n_prefill].std() > 5 * seen.numpy()[:, n_prefill].std()


class _Silent(BaseCallback):
    def _on_step(self) -> bool:
        return True
