"""Training on top of a scripted policy: the copies get its actions with the learner's corrections added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from prfaas_env.policies import agents_module
from prfaas_env.scenario import Scenario

__all__ = ["Corrections", "corrected_policy"]


def corrected_policy(base: str, network: Any, action: str, scenario: Scenario) -> Any:
    """A learner's network as a policy on top of ``base``. Raises :class:`ConfigError` if the two do not go together."""
    module = agents_module("corrected")
    return module.Corrected(module.Base(base, action, scenario), network)


class Corrections(VecEnvWrapper):
    """``places[i]``: the number of copy i's scenario."""

    def __init__(
        self, copies: VecEnv, base: str, action: str, scenarios: Sequence[Scenario], places: np.ndarray
    ) -> None:
        super().__init__(copies)
        module = agents_module("corrected")
        self._corrected = module.corrected
        self._bases = [module.Base(base, action, scenario) for scenario in scenarios]
        self._rows = [np.flatnonzero(places == number) for number in range(len(scenarios))]
        self._states: list[Any] = [None] * len(scenarios)
        self._actions = np.zeros((copies.num_envs, 2), dtype=np.float32)

    def reset(self) -> VecEnvObs:
        observations = self.venv.reset()
        self._look(observations, np.ones(self.num_envs, dtype=bool))
        return observations

    def _look(self, observations: Any, starts: np.ndarray) -> None:
        for number, (base, rows) in enumerate(zip(self._bases, self._rows, strict=True)):
            if len(rows):
                self._actions[rows], self._states[number] = base.predict(
                    observations[rows], self._states[number], starts[rows]
                )

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(self._corrected(self._actions, actions))

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, dones, infos = self.venv.step_wait()
        self._look(observations, dones)
        return observations, rewards, dones, infos
