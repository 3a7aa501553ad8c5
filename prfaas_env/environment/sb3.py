"""Stable-Baselines3's view of the vector environment (its ``VecEnv`` is not Gymnasium's)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from prfaas_env.environment.vector import PrfaaSVectorEnv

__all__ = ["PrfaaSVecEnv", "make_sb3_env"]


class PrfaaSVecEnv(VecEnv):
    """A thin coat over :class:`PrfaaSVectorEnv` in ``SameStep`` mode.

    The infos of a step carry only what SB3 asks for: at the end of an episode ``terminal_observation``,
    ``TimeLimit.truncated`` and ``episode`` (return, length, wall time). What the copies did is in ``last_infos``, as
    arrays by name.
    """

    def __init__(self, env: PrfaaSVectorEnv) -> None:
        if env.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise ValueError("PrfaaSVecEnv needs a vector environment with autoreset_mode=AutoresetMode.SAME_STEP")
        self.env = env
        self.last_infos: dict[str, Any] = {}
        self._actions = np.zeros((env.num_envs, 2))
        self._returns = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=int)
        self._start = time.time()
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self.render_mode = None

    def reset(self) -> np.ndarray:
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        observations, _ = self.env.reset(seed=seeds)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._returns[:] = 0.0
        self._lengths[:] = 0
        return observations

    def seed_each(self, seeds: Sequence[int]) -> None:
        """A seed for each copy at the next reset, whatever they are; ``seed`` counts up."""
        self._seeds = list(seeds)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observations, rewards, _, truncated, self.last_infos = self.env.step(self._actions)
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(truncated).tolist():
            infos[row] = {
                "terminal_observation": self.last_infos["final_obs"][row],
                "TimeLimit.truncated": True,
                "episode": {
                    "r": float(self._returns[row]),
                    "l": int(self._lengths[row]),
                    "t": round(time.time() - self._start, 6),
                },
            }
            self._returns[row], self._lengths[row] = 0.0, 0
        return observations, rewards.astype(np.float32), truncated, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:  # noqa: ARG002
        raise AttributeError(f"cannot set {attr_name!r}: the copies live in compiled code")

    def env_method(
        self,
        method_name: str,
        *_args: Any,
        indices: int | Iterable[int] | None = None,  # noqa: ARG002
        **_kwargs: Any,
    ) -> list[Any]:
        raise AttributeError(f"cannot call {method_name!r}: the copies live in compiled code")

    def env_is_wrapped(self, wrapper_class: type, indices: int | Iterable[int] | None = None) -> list[bool]:
        from stable_baselines3.common.monitor import Monitor

        return [wrapper_class is Monitor] * len(list(self._get_indices(indices)))  # episodes are reported as by Monitor


def make_sb3_env(n_envs: int, seed: int, scenario: Any = "paper-stationary", **arguments: Any) -> PrfaaSVecEnv:
    """``n_envs`` copies for SB3, copy i seeded ``seed + i`` at the first reset; arguments as for the environment.

    ``scenario`` may be a list, over which the copies are spread evenly (copy i takes number i mod length).
    """
    spread: str | Sequence[Any] = scenario
    env = PrfaaSVecEnv(PrfaaSVectorEnv(n_envs, scenario=spread, autoreset_mode=AutoresetMode.SAME_STEP, **arguments))
    env.seed(seed)
    return env
