"""Rewards as the learners see them: of about one size, whatever kind of reward it is."""

from __future__ import annotations

import math

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

__all__ = ["ScaledRewards"]

EPSILON, MOST = 1e-8, 10.0


class ScaledRewards(VecEnvWrapper):
    """Rewards over the running deviation of the discounted return, at most ``MOST``.

    One deviation for all copies: divided by the size of their own scenario's, a minute lost in an overloaded episode
    would weigh no more than a second in a calm one.
    """

    def __init__(self, copies: VecEnv, gamma: float) -> None:
        super().__init__(copies)
        self.statistics = RunningMeanStd(shape=())
        self.original_rewards = np.zeros(copies.num_envs)
        self._returns = np.zeros(copies.num_envs)
        self._gamma = gamma

    def reset(self) -> VecEnvObs:
        self._returns[:] = 0.0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        self.original_rewards = rewards
        self._returns = self._returns * self._gamma + rewards
        self.statistics.update(self._returns)
        self._returns[dones] = 0.0
        size = math.sqrt(float(self.statistics.var) + EPSILON)
        return observations, np.clip(rewards / size, -MOST, MOST).astype(np.float32), dones, infos
