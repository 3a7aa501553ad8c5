"""The adapter for Stable-Baselines3 against its own DummyVecEnv of monitored scalar environments, step for step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from prfaas_env.environment.env import PrfaaSEnv
from prfaas_env.environment.reward import TERMS
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Scenario, load_scenario

stable_baselines3 = pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")

from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from prfaas_env.environment.sb3 import PrfaaSVecEnv, make_sb3_env  # noqa: E402

HORIZONS_S = {"drift-mix": 95.0, "paper-stationary-80": 60.0}


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [replace(load_scenario(name), horizon_s=horizon_s) for name, horizon_s in HORIZONS_S.items()]


@pytest.mark.parametrize("reward", ["ttft", "cost"])
def test_every_step_is_that_of_monitored_scalar_environments(scenarios: list[Scenario], reward: str) -> None:
    n, rng = 4, np.random.default_rng(0)
    makers = [partial(lambda s: Monitor(PrfaaSEnv(s, reward=reward)), scenarios[i % 2]) for i in range(n)]
    expected, adapter = DummyVecEnv(makers), make_sb3_env(n, 21, scenarios, reward=reward)
    expected.seed(21)
    np.testing.assert_array_equal(expected.reset(), adapter.reset())
    episodes = 0
    for _ in range(25):
        actions = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        observations, rewards, dones, infos = expected.step(actions)
        ours = adapter.step(actions)
        for a, b in zip((observations, rewards, dones), ours[:3], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        for row in range(n):
            info, own = infos[row], ours[3][row]
            assert ("terminal_observation" in own) == ("episode" in own) == dones[row]
            for term in TERMS:
                values = adapter.last_infos["final_info"] if dones[row] else adapter.last_infos
                assert values[term.name][row] == info[term.name]
            if dones[row]:
                episodes += 1
                np.testing.assert_array_equal(own["terminal_observation"], info["terminal_observation"])
                assert own["TimeLimit.truncated"] is True
                assert info["TimeLimit.truncated"] is True
                assert own["episode"]["r"] == pytest.approx(info["episode"]["r"], abs=1e-6)  # Monitor rounds
                assert own["episode"]["l"] == info["episode"]["l"]
                assert own["episode"]["t"] >= 0.0
    assert episodes == 2 * (25 // 10) + 2 * (25 // 6)


def test_consecutive_observations_share_no_memory(scenarios: list[Scenario]) -> None:
    adapter = make_sb3_env(3, 0, scenarios)
    given = [adapter.reset()]
    kept = [given[0].copy()]
    for _ in range(12):
        observations, rewards, _, infos = adapter.step(np.zeros((3, 2), np.float32))
        last = [info["terminal_observation"] for info in infos if info]
        given.extend([observations, rewards, *last])
        kept.extend(array.copy() for array in given[-2 - len(last) :])
    assert all(np.array_equal(a, b) for a, b in zip(given, kept, strict=True))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(given) for b in given[:i])


def test_only_the_first_reset_takes_the_seed(scenarios: list[Scenario]) -> None:
    adapter, other = make_sb3_env(2, 3, scenarios), make_sb3_env(2, 3, scenarios)
    first = adapter.reset(), adapter.step(np.zeros((2, 2)))[0]
    again = other.reset(), other.step(np.zeros((2, 2)))[0]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    adapter.reset()
    assert not np.array_equal(adapter.step(np.zeros((2, 2)))[0], first[1])
    adapter.seed(3)
    adapter.reset()
    np.testing.assert_array_equal(adapter.step(np.zeros((2, 2)))[0], first[1])


def test_what_stable_baselines3_asks_of_a_vec_env(scenarios: list[Scenario]) -> None:
    adapter = make_sb3_env(3, 0, scenarios)
    assert adapter.env_is_wrapped(Monitor) == [True] * 3
    assert adapter.env_is_wrapped(VecNormalize) == [False] * 3
    assert adapter.get_attr("num_envs", indices=[0, 2]) == [3, 3]
    with pytest.raises(AttributeError):
        adapter.set_attr("reward", "cost")
    with pytest.raises(AttributeError):
        adapter.env_method("finish")
    with pytest.raises(ValueError, match="SAME_STEP"):
        PrfaaSVecEnv(PrfaaSVectorEnv(2, scenarios))
    adapter.close()


def test_ppo_learns_saves_and_loads(tmp_path: Path) -> None:
    env = VecNormalize(make_sb3_env(4, 0, "paper-stationary-80", horizon_s=100.0), norm_obs=False)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu")
    before = model.policy.state_dict()["action_net.weight"].clone()
    model.learn(256)
    assert not before.equal(model.policy.state_dict()["action_net.weight"])
    assert len(model.ep_info_buffer or ()) == 4 * (64 // 10)
    model.save(tmp_path / "model")
    observation = env.reset()
    action, _ = PPO.load(tmp_path / "model").predict(observation, deterministic=True)
    np.testing.assert_array_equal(action, model.predict(observation, deterministic=True)[0])
