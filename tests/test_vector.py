"""The vector environment against the scalar one: the same numbers, step for step, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from prfaas_env.config import ConfigError
from prfaas_env.environment.actions import ACTION_FORMS
from prfaas_env.environment.env import PrfaaSEnv
from prfaas_env.environment.registration import ENVIRONMENT_ID
from prfaas_env.environment.reward import REWARDS
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Scenario, load_scenario

# Staggered ends: 10 steps (the last of 5 s), 6 and 8. They have drift, a plain Poisson process, sessions with caches.
HORIZONS_S = {"drift-mix": 95.0, "paper-stationary-80": 60.0, "mooncake-like": 75.0}


@pytest.fixture(scope="module")
def staggered() -> list[Scenario]:
    return [replace(load_scenario(name), horizon_s=horizon_s) for name, horizon_s in HORIZONS_S.items()]


def scalars(scenarios: list[Scenario], mode: AutoresetMode, **arguments: Any) -> SyncVectorEnv:
    makers = [partial(PrfaaSEnv, scenario=scenario, **arguments) for scenario in scenarios]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def random_actions(count: int, n: int, seed: int = 0) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.uniform(-1.2, 1.2, (n, 2)).astype(np.float32)  # some outside the box: they are clipped


def assert_steps_equal(one: tuple, other: tuple, step: int) -> None:
    for name, a, b in zip(("observation", "reward", "terminated", "truncated"), one, other, strict=False):
        np.testing.assert_array_equal(a, b, err_msg=f"{name} of step {step}")
        assert a.dtype == b.dtype


# --- the same as the scalar environment -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_copy_is_the_scalar_environment_in_every_mode(staggered: list[Scenario], mode: AutoresetMode) -> None:
    expected, vector = scalars(staggered, mode), PrfaaSVectorEnv(3, staggered, autoreset_mode=mode)
    np.testing.assert_array_equal(expected.reset(seed=3)[0], vector.reset(seed=3)[0])
    ends = np.zeros(3, dtype=int)
    for k, actions in enumerate(random_actions(25, 3)):
        one, other = expected.step(actions), vector.step(actions)
        assert_steps_equal(one, other, k)
        ended = other[3]
        if mode is AutoresetMode.SAME_STEP and ended.any():
            for name in ("final_obs", "_final_obs", "final_info", "_final_info"):
                assert data_equivalence(one[4][name], other[4][name]), name
            running = np.flatnonzero(~ended)  # Gymnasium leaves the others' places to the infos of the reset: none here
            for name in one[4].keys() - {"final_obs", "_final_obs", "final_info", "_final_info"}:
                np.testing.assert_array_equal(one[4][name][running], other[4][name][running], err_msg=name)
        else:
            assert data_equivalence(one[4], other[4]), f"infos of step {k}"
        if mode is AutoresetMode.DISABLED and ended.any():
            resets = [env.reset(options={"reset_mask": ended.copy()}) for env in (expected, vector)]
            np.testing.assert_array_equal(resets[0][0], resets[1][0])
        ends += ended
    assert ends.tolist() == ([2, 3, 2] if mode is AutoresetMode.NEXT_STEP else [2, 4, 3])


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("action", ACTION_FORMS)
def test_every_action_form_and_reward_is_the_same(action: str, reward: str) -> None:
    arguments = {"scenario": "drift-mix", "horizon_s": 300.0, "action": action, "reward": reward, "window_s": 60.0}
    vector, scalar = PrfaaSVectorEnv(2, **arguments), PrfaaSEnv(**arguments)
    rows = [vector.reset(seed=11)[0]]
    steps = [vector.step(actions) for actions in random_actions(30, 2)]
    for copy in range(2):
        np.testing.assert_array_equal(rows[0][copy], scalar.reset(seed=11 + copy)[0])
        for k, actions in enumerate(random_actions(30, 2)):
            observation, value, terminated, truncated, info = scalar.step(actions[copy])
            np.testing.assert_array_equal(observation, steps[k][0][copy])
            assert (value, terminated, truncated) == tuple(part[copy] for part in steps[k][1:4])
            assert info == {name: steps[k][4][name][copy] for name in info}


def test_make_vec_makes_it_and_its_own_sync_vector_agrees() -> None:
    arguments = {"scenario": "mooncake-like", "horizon_s": 200.0, "action": "price"}
    expected = gymnasium.make_vec(ENVIRONMENT_ID, 3, "sync", **arguments)
    vector = gymnasium.make_vec(ENVIRONMENT_ID, 3, vectorization_mode="vector_entry_point", **arguments)
    assert isinstance(vector, PrfaaSVectorEnv)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert vector.observation_space == expected.observation_space
    assert vector.action_space == expected.action_space
    np.testing.assert_array_equal(expected.reset(seed=5)[0], vector.reset(seed=5)[0])
    for k, actions in enumerate(random_actions(30, 3)):
        other = vector.step(actions)
        assert_steps_equal(expected.step(actions), other, k)
        assert vector.observation_space.contains(other[0])


@pytest.mark.parametrize("scenario", ["link-outage", "multi-tenant", "node-failures", "prefix-skew"])
def test_faults_outages_classes_and_caches_are_the_same(scenario: str) -> None:
    arguments = {"scenario": scenario, "horizon_s": 1800.0, "action": "absolute"}
    vector, scalar = PrfaaSVectorEnv(1, **arguments), PrfaaSEnv(**arguments)
    np.testing.assert_array_equal(vector.reset(seed=2)[0][0], scalar.reset(seed=2)[0])
    for actions in random_actions(180, 1):
        observation, reward, _, truncated, _ = scalar.step(actions[0])
        step = vector.step(actions)
        np.testing.assert_array_equal(observation, step[0][0])
        assert (reward, truncated) == (step[1][0], step[3][0])
    assert truncated


def test_a_ring_that_grows_inside_a_step_changes_nothing() -> None:
    """Four times the load that the system can bear: hundreds of requests are in it after some minutes."""
    scenario = load_scenario("paper-stationary").with_overrides(load=4.0, horizon_s=600.0)
    vector, scalar = PrfaaSVectorEnv(2, scenario), PrfaaSEnv(scenario)
    vector.reset(seed=0)
    before = len(vector.batch.engines[1].sim.ring)
    steps = [vector.step(np.zeros((2, 2))) for _ in range(60)]
    assert len(vector.batch.engines[1].sim.ring) >= 4 * before
    scalar.reset(seed=1)
    for step in steps:
        observation, reward, *_ = scalar.step(np.zeros(2))
        np.testing.assert_array_equal(observation, step[0][1])
        assert reward == step[1][1]


# --- threads, seeds, resets -------------------------------------------------------------------------------------------


def trajectory(vector: PrfaaSVectorEnv, seed: int | list[int] | None, count: int = 25) -> list[np.ndarray]:
    parts = [vector.reset(seed=seed)[0]]
    for actions in random_actions(count, vector.num_envs):
        parts.extend(vector.step(actions)[:4])
    return parts


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_threads_change_nothing(staggered: list[Scenario], mode: AutoresetMode) -> None:
    runs = [
        trajectory(PrfaaSVectorEnv(7, staggered, threads=threads, autoreset_mode=mode), 1, count=40)
        for threads in (1, 2, 5)
    ]
    assert equal(runs[0], runs[1])
    assert equal(runs[0], runs[2])


def test_a_seed_fixes_everything_and_goes_on_after_a_reset_without_one(staggered: list[Scenario]) -> None:
    one, other = (PrfaaSVectorEnv(3, staggered) for _ in range(2))
    first, second = trajectory(one, 8), trajectory(one, None)
    assert not equal(first, second)
    assert equal(first, trajectory(other, 8))
    assert equal(second, trajectory(other, None))
    assert equal(first, trajectory(one, 8))  # whatever was drawn in advance is dropped
    assert equal(first, trajectory(one, [8, 9, 10]))
    assert not equal(first, trajectory(one, 9))


def test_a_new_seed_for_one_copy_leaves_the_others_going_on(staggered: list[Scenario]) -> None:
    vector, expected = PrfaaSVectorEnv(3, staggered), scalars(staggered, AutoresetMode.NEXT_STEP)
    for env in (vector, expected):
        env.reset(seed=0)
    seeds = [None, 77, None]
    np.testing.assert_array_equal(vector.reset(seed=seeds)[0], expected.reset(seed=seeds)[0])


def test_without_a_seed_no_two_are_alike() -> None:
    observations = [PrfaaSVectorEnv(2, "drift-mix", horizon_s=60.0) for _ in range(2)]
    runs = [trajectory(vector, None, count=6)[-4] for vector in observations]
    rows = np.concatenate(runs)
    assert len(np.unique(rows, axis=0)) == 4


def test_what_was_given_out_does_not_change_later(staggered: list[Scenario]) -> None:
    vector = PrfaaSVectorEnv(3, staggered, autoreset_mode=AutoresetMode.SAME_STEP)
    given = [vector.reset(seed=0)[0]]
    infos: list[dict[str, Any]] = []
    kept, kept_infos = [given[0].copy()], []
    for actions in random_actions(12, 3):
        *arrays, info = vector.step(actions)
        given.extend(arrays)
        kept.extend(array.copy() for array in arrays)
        infos.append(info)
        kept_infos.append({k: v.copy() for k, v in info.items() if isinstance(v, np.ndarray) and v.dtype != object})
    assert equal(given, kept)
    assert all(
        data_equivalence(info[k], v) for info, copy in zip(infos, kept_infos, strict=True) for k, v in copy.items()
    )
    assert not any(np.shares_memory(a, b) for i, a in enumerate(given) for b in given[:i])


def test_wrappers_of_gymnasium_see_whole_episodes(staggered: list[Scenario]) -> None:
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        env = gymnasium.wrappers.vector.RecordEpisodeStatistics(PrfaaSVectorEnv(3, staggered, autoreset_mode=mode))
        env.reset(seed=0)
        lengths: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
        for actions in random_actions(24, 3):
            *_, info = env.step(actions)
            for copy in np.flatnonzero(info.get("_episode", [])):
                lengths[int(copy)].add(int(info["episode"]["l"][copy]))
        assert lengths == {0: {10}, 1: {6}, 2: {8}}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs: expected at least 1"),
        ({"engine": "reference"}, "compiled engine only"),
        ({"render_mode": "ansi"}, "draws nothing"),
        ({"autoreset_mode": "SameStap"}, "did you mean 'SameStep'"),
        ({"scenario": []}, "at least one scenario"),
        ({"scenario": ["drift-mix", "drift-max"]}, "did you mean 'drift-mix'"),
        ({"action": "residuals"}, "did you mean 'residual'"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        PrfaaSVectorEnv(**arguments)
    assert "\n" not in str(refusal.value)


def test_what_cannot_be_stepped_or_reset_is_refused() -> None:
    vector = PrfaaSVectorEnv(2, "paper-stationary", horizon_s=20.0, autoreset_mode="Disabled")
    zeros = np.zeros((2, 2))
    with pytest.raises(RuntimeError, match="call reset first"):
        vector.step(zeros)
    with pytest.raises(ConfigError, match="the first reset must be of every copy"):
        vector.reset(options={"reset_mask": np.array([True, False])})
    vector.reset(seed=0)
    for bad in (np.full((2, 2), np.nan), np.zeros((3, 2)), np.zeros(2)):
        with pytest.raises(ValueError, match="expected finite numbers"):
            vector.step(bad)
    for options, message in (({"reset_masks": zeros}, "valid: reset_mask"), ({"reset_mask": [True]}, "2 booleans")):
        with pytest.raises(ConfigError, match=message):
            vector.reset(options=options)
    with pytest.raises(ConfigError, match="one a copy"):
        vector.reset(seed=[1, 2, 3])
    vector.step(zeros)
    assert vector.step(zeros)[3].all()
    with pytest.raises(RuntimeError, match="an episode has ended"):
        vector.step(zeros)


def test_copies_with_one_seed_share_an_episode_and_go_on_alike(staggered: list[Scenario]) -> None:
    """Neighbours take an episode that was drawn once, and a copy alone gets the same sequence."""
    actions = random_actions(60, 1)
    together, alone = PrfaaSVectorEnv(2, staggered[:1]), PrfaaSVectorEnv(1, staggered[:1])
    np.testing.assert_array_equal(together.reset(seed=[5, 5])[0], np.repeat(alone.reset(seed=[5])[0], 2, axis=0))
    for action in actions:
        both, one = together.step(np.repeat(action, 2, axis=0)), alone.step(action)
        for given, expected in zip(both[:4], one[:4], strict=True):
            np.testing.assert_array_equal(given, np.repeat(expected, 2, axis=0))
