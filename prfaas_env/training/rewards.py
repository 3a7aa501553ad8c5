"""Rewards as the learners see them: relative to what is usual in the scenario that they come from."""

from __future__ import annotations

import math

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

__all__ = ["RelativeRewards"]

EPSILON, MOST = 1e-8, 10.0


class RelativeRewards(VecEnvWrapper):
    """Rewards over the size of the discounted returns of their scenario, so that a second saved in a calm scenario
    counts as much as a minute in an overloaded one: what is compared are ratios. ``scenario[i]`` is copy i's number.
    """

    def __init__(self, copies: VecEnv, gamma: float, scenario: np.ndarray) -> None:
        super().__init__(copies)
        self.statistics = [RunningMeanStd(shape=()) for _ in range(int(scenario.max()) + 1)]
        self.original_rewards = np.zeros(copies.num_envs)
        self._returns = np.zeros(copies.num_envs)
        self._gamma, self._scenario = gamma, scenario

    def reset(self) -> VecEnvObs:
        self._returns[:] = 0.0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        self.original_rewards = rewards
        self._returns = self._returns * self._gamma + rewards
        for number, statistics in enumerate(self.statistics):
            statistics.update(self._returns[self._scenario == number])
        self._returns[dones] = 0.0
        size = np.array([math.sqrt(float(x.mean) ** 2 + float(x.var) + EPSILON) for x in self.statistics])
        scaled = np.clip(rewards / size[self._scenario], -MOST, MOST).astype(np.float32)
        return observations, scaled, dones, infos
