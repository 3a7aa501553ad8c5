"""A start from a scripted policy: PPO's network first learns to do what a teacher does, then goes on from there.

The teacher's knobs are written as actions of the learner's form, on the teacher's own episodes and then on those that
the network steers itself into (DAgger, arXiv 1011.0686), all of the training split. Since the network then acts well
and its critic knows nothing, the first rollouts train the critic alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.core import ControlLoop
from prfaas_env.policies import agents_module
from prfaas_env.scenario import Scenario

__all__ = ["CriticFirst", "imitate"]

ROUNDS = 2
STEPS, BATCH, LEARNING_RATE = 3000, 512, 1e-3


def imitate(model: PPO, name: str, action: ActionName, scenarios: Sequence[Scenario], seeds: Sequence[int]) -> float:
    """Fit the model's deterministic action to the teacher's on an episode of each scenario and seed.

    Returns the root mean square difference of the actions that is left, on the data of the fit.
    """
    observations, actions = [], []
    for turn in range(ROUNDS):
        for seed in seeds[turn::ROUNDS]:
            for scenario in scenarios:
                for observation, taught in _episode(model if turn else None, name, action, scenario, seed):
                    observations.append(observation)
                    actions.append(taught)
        error = _fit(model, np.array(observations), np.array(actions))
    return error


def _episode(
    model: PPO | None, name: str, action: ActionName, scenario: Scenario, seed: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Observations, and what the teacher does on them; ``model`` drives, or the teacher where there is none."""
    teacher = agents_module("corrected").Base(name, action, scenario)
    loop = ControlLoop(scenario, action)
    observation, state, start, ended = loop.reset(seed), None, np.array([True]), False
    while not ended:
        taught, state = teacher.predict(observation, state, start)
        yield observation, taught
        driven = taught if model is None else model.predict(observation, deterministic=True)[0]
        interval = loop.step(driven)
        observation, start, ended = interval.observation, np.array([False]), interval.ended


def _fit(model: PPO, observations: np.ndarray, actions: np.ndarray) -> float:
    policy = model.policy
    x, y = torch.as_tensor(observations), torch.as_tensor(actions)
    optimiser = torch.optim.Adam(_actor(model), lr=LEARNING_RATE)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * (1.0 - step / STEPS)
        rows = torch.randint(len(x), (BATCH,))
        loss = torch.nn.functional.mse_loss(policy.get_distribution(x[rows]).distribution.mean, y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        left = policy.get_distribution(x).distribution.mean - y
    return float(left.square().mean().sqrt())


def _actor(model: PPO) -> list[torch.nn.Parameter]:
    policy = model.policy
    return [*policy.mlp_extractor.policy_net.parameters(), *policy.action_net.parameters()]


class CriticFirst(BaseCallback):
    """Holds the actor still for the first ``rollouts``."""

    def __init__(self, rollouts: int) -> None:
        super().__init__()
        self._left = rollouts

    def _on_rollout_start(self) -> None:
        assert isinstance(self.model, PPO)
        for parameter in [*_actor(self.model), self.model.policy.log_std]:
            parameter.requires_grad_(self._left <= 0)
        self._left -= 1

    def _on_step(self) -> bool:
        return True
