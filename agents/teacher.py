"""A scripted policy as a teacher: what it does, written in the form of action that a learner has.

What it clips is taught from beyond the edge, so that a learner who comes near is not short of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.actions import ActionName, action_form
from prfaas_env.environment.observation import decode
from prfaas_env.scenario import Scenario

__all__ = ["Teacher"]

EDGE = 4.0 / 3.0
"""Where an action counts as that was clipped to ± 1: a shift of N_p by two instances is there, exactly at the edge (two
over its span of 1.5 is 4/3), and whoever comes near without reaching it shifts by one."""


class Teacher:
    """A scripted policy whose actions are written in another form of the same routing law."""

    def __init__(self, name: str, action: ActionName, scenario: Scenario) -> None:
        """Raises :class:`ConfigError` on an unknown policy, one that plans, or one of the other routing law."""
        from prfaas_env.policies import load_policy, plans

        policy = load_policy(name, scenario)
        if plans(policy) or (policy.action_mode == "price") != (action == "price"):
            raise ConfigError(f"{name} does not act by what the form {action!r} sets")
        self._policy, self.action_mode = policy, action
        self._theirs = action_form(policy.action_mode, scenario.deployment)
        self._own = action_form(action, scenario.deployment)

    def predict(
        self, observation: np.ndarray, state: Any = None, episode_start: np.ndarray | None = None, **_: Any
    ) -> tuple[np.ndarray, Any]:
        """As any policy's; actions of the form ``action``, where clipped at ± ``EDGE``."""
        actions, state = self._policy.predict(observation, state=state, episode_start=episode_start)
        if self._theirs.name != self._own.name:
            batch, raw = np.atleast_2d(observation), np.atleast_2d(actions)
            written = np.stack([self._written(row, action) for row, action in zip(batch, raw, strict=True)])
            actions = written if np.ndim(observation) == 2 else written[0]
        return np.where(np.abs(actions) >= 1.0, np.float32(EDGE) * np.sign(actions), actions), state

    def _written(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        observed = decode(observation)
        advised = observed["advised_threshold"], round(observed["advised_prefill"]), observed["filling_threshold"]
        return self._own.encode(self._theirs.decode(action, *advised), *advised)
