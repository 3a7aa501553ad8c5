"""A start from a scripted policy: PPO's network first learns to do what a teacher does, then goes on from there.

The teacher's knobs are written as actions of the learner's form, on the teacher's own episodes and then on those that
the network steers itself into (DAgger, arXiv 1011.0686), all of the training split. A teacher moves N_p on few steps,
and a network that always keeps it agrees with him on nearly all, and yet is never where he is: so a good part of what
it learns from may be the steps on which he moves it. Since the network then acts well and its critic knows nothing, the
first rollouts train the critic alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from prfaas_env.environment.actions import ActionName, action_form
from prfaas_env.environment.observation import decode
from prfaas_env.evaluation.together import play_together
from prfaas_env.policies import agents_module
from prfaas_env.scenario import Scenario

__all__ = ["CriticFirst", "imitate"]

ROUNDS = 3
STEPS, BATCH, LEARNING_RATE = 6000, 1024, 1e-3


def imitate(
    model: PPO,
    name: str,
    action: ActionName,
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    moves_share: float,
    stopped: Callable[[], bool] = lambda: False,
) -> float | None:
    """Fit the model's deterministic action to the teacher's on an episode of each scenario and seed. Of the steps it
    learns from, ``moves_share`` are drawn from those on which the teacher moves N_p.

    Returns the root mean square difference of the actions that is left, on the data of the fit; ``None`` as soon as
    ``stopped`` says so.
    """
    observations, actions, moves = [], [], []
    for turn in range(ROUNDS):
        for scenario in scenarios:
            if stopped():
                return None
            lesson = _Lesson(model if turn else None, name, action, scenario)
            play_together(scenario, lesson, [scenario.draw(seed) for seed in seeds[turn::ROUNDS]])
            observations += lesson.observed
            actions += lesson.taught
            moves += lesson.moves
        error = _fit(model, np.concatenate(observations), np.concatenate(actions), np.concatenate(moves), moves_share)
    return error


class _Lesson:
    """A policy that notes what the teacher does on every observation; ``model`` drives, or the teacher without one."""

    def __init__(self, model: PPO | None, name: str, action: ActionName, scenario: Scenario) -> None:
        self._teacher = agents_module("teacher").Teacher(name, action, scenario)
        self._model, self.action_mode = model, action
        self._form = action_form(action, scenario.deployment)
        self.observed: list[np.ndarray] = []
        self.taught: list[np.ndarray] = []
        self.moves: list[np.ndarray] = []  # whether the teacher asks for another N_p than is asked for

    def predict(
        self, observation: np.ndarray, state: Any = None, episode_start: np.ndarray | None = None, **_: Any
    ) -> tuple[np.ndarray, Any]:
        """As any policy's, on a batch."""
        taught, state = self._teacher.predict(observation, state, episode_start)
        self.observed.append(observation.copy())
        self.taught.append(taught)
        seen = decode(observation)
        advised = np.rint(seen["advised_prefill"]).astype(int)
        asked = [self._form.decode(act, 1.0, n).n_prefill for act, n in zip(taught, advised.tolist(), strict=True)]
        self.moves.append(np.rint(seen["target_prefill_nodes"]) != asked)
        return (taught if self._model is None else self._model.predict(observation, deterministic=True)[0]), state


def _fit(model: PPO, observations: np.ndarray, actions: np.ndarray, moves: np.ndarray, moves_share: float) -> float:
    policy = model.policy
    x, y = torch.as_tensor(observations), torch.as_tensor(actions)
    moving = torch.as_tensor(np.flatnonzero(moves) if moves.any() else np.arange(len(moves)))
    drawn = round(moves_share * BATCH)
    optimiser = torch.optim.Adam(_actor(model), lr=LEARNING_RATE)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * (1.0 - step / STEPS)
        rows = torch.cat([torch.randint(len(x), (BATCH - drawn,)), moving[torch.randint(len(moving), (drawn,))]])
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
