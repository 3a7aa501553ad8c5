"""Rewards as the learners see them: of about one size, whatever kind of reward it is."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

__all__ = ["PairedRewards", "ScaledRewards"]

EPSILON, MOST = 1e-8, 10.0
LEAST_SIZE = 0.01
"""Of an episode's rewards: those of an empty one are not divided by nothing."""


class PairedRewards(VecEnvWrapper):
    """What a correction gains: each reward less that of the zero action at the same step of the same episode, over the
    mean size of the zero action's rewards in that episode.

    ``twins`` are copies with the same seeds; they play each episode by the zero action before it begins. Under the
    reward ``mean-ttft`` the mean over an episode is 1 − (mean TTFT / that of the zero action): every episode counts
    alike, however loaded it is, and the luck of its arrivals cancels.
    """

    def __init__(self, copies: VecEnv, twins: VecEnv) -> None:
        super().__init__(copies)
        self._twins = twins
        self._zeros = np.zeros((copies.num_envs, 2), dtype=np.float32)
        self._played: list[deque[np.ndarray]] = [deque() for _ in range(copies.num_envs)]
        self._playing: list[list[float]] = [[] for _ in range(copies.num_envs)]
        self._at = np.zeros(copies.num_envs, dtype=int)

    def reset(self) -> VecEnvObs:
        self._twins.reset()
        for played, playing in zip(self._played, self._playing, strict=True):
            played.clear()
            playing.clear()
        self._at[:] = 0
        self._play_ahead()
        return self.venv.reset()

    def _play_ahead(self) -> None:
        """Let the twins play until each has finished the episode that its copy is in."""
        while not all(self._played):
            _, rewards, dones, _ = self._twins.step(self._zeros)
            for row, reward in enumerate(rewards.tolist()):
                self._playing[row].append(reward)
            for row in np.flatnonzero(dones).tolist():
                self._played[row].append(np.array(self._playing[row]))
                self._playing[row].clear()

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        gains = np.empty(self.num_envs)
        for row, played in enumerate(self._played):
            size = max(float(np.abs(played[0]).mean()), LEAST_SIZE)
            gains[row] = (rewards[row] - played[0][self._at[row]]) / size
        self._at += 1
        for row in np.flatnonzero(dones).tolist():
            self._played[row].popleft()
            self._at[row] = 0
        self._play_ahead()
        return observations, gains, dones, infos

    def close(self) -> None:
        self._twins.close()
        super().close()


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
