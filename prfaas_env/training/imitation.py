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
from prfaas_env.environment.batch import Batch
from prfaas_env.environment.core import ControlLoop
from prfaas_env.policies import agents_module
from prfaas_env.scenario import Scenario

__all__ = ["CriticFirst", "imitate"]

ROUNDS = 3
STEPS, BATCH, LEARNING_RATE = 6000, 1024, 1e-3


def imitate(model: PPO, name: str, action: ActionName, scenarios: Sequence[Scenario], seeds: Sequence[int]) -> float:
    """Fit the model's deterministic action to the teacher's on an episode of each scenario and seed.

    Returns the root mean square difference of the actions that is left, on the data of the fit.
    """
    observations, actions = [], []
    for turn in range(ROUNDS):
        for scenario in scenarios:
            for observed, taught in _lessons(model if turn else None, name, action, scenario, seeds[turn::ROUNDS]):
                observations.append(observed)
                actions.append(taught)
        error = _fit(model, np.concatenate(observations), np.concatenate(actions))
    return error


def _lessons(
    model: PPO | None, name: str, action: ActionName, scenario: Scenario, seeds: Sequence[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Observations (seeds, k) of every step and what the teacher does on them, (seeds, 2); ``model`` drives, or the
    teacher where there is none."""
    teacher = agents_module("corrected").Base(name, action, scenario)
    batch, rows, state = Batch([ControlLoop(scenario, action)] * len(seeds)), np.arange(len(seeds)), None
    for row, seed in enumerate(seeds):
        batch.begin(row, scenario.draw(seed))
    start = np.ones(len(seeds), dtype=bool)
    while not batch.shared.scalars["ended"].all():
        observed = batch.observations.copy()
        taught, state = teacher.predict(observed, state, start)
        yield observed, taught
        driven = taught if model is None else model.predict(observed, deterministic=True)[0]
        batch.step(np.asarray(driven, dtype=np.float64), rows)
        start = np.zeros(len(seeds), dtype=bool)
    batch.close()


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
