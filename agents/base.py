"""What a policy is, and the base of the scripted ones.

The protocol is Stable-Baselines3's: ``predict(observation, state=None, episode_start=None, deterministic=True)``
returns ``(action, state)``, for one observation (k,) or a batch (n, k). Everything a policy remembers travels in
``state``, so that one object serves many episodes at once. ``action_mode`` says which form its actions have, and the
evaluation makes its environment accordingly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.environment.actions import ActionForm, ActionName, action_form
from prfaas_env.environment.observation import decode
from prfaas_env.scenario import Scenario
from prfaas_env.study import Span

__all__ = ["Observed", "Policy", "ScriptedPolicy", "Span", "elapsed"]

Observed = dict[str, float]
"""An observation's components by name, in physical units."""


def elapsed(clock_s: float, period_s: float, observed: Observed) -> bool:
    """Whether a period is over, to the nearest control step (whose length is observed in float32)."""
    return clock_s > period_s - 0.5 * observed["control_step_s"]


class Policy(Protocol):
    """Any object that the evaluation can run."""

    action_mode: ActionName

    def predict(
        self,
        observation: np.ndarray,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Actions, float32 (2,) or (n, 2), and the state to hand in next time."""


class ScriptedPolicy:
    """A rule on named components in physical units, one decision an observation.

    A subclass names its ``action_mode`` and its ``Parameters`` (a frozen record) and defines :meth:`decide`; one with a
    memory also defines :meth:`fresh_memory`. ``tunable`` says which parameters are tuned, and over which span.
    """

    action_mode: ClassVar[ActionName]
    Parameters: ClassVar[type]
    tunable: ClassVar[Mapping[str, Span]] = {}

    def __init__(self, scenario: Scenario, parameters: Any = None) -> None:
        self.scenario = scenario
        self.deployment: Deployment = scenario.deployment
        self.parameters = self.Parameters() if parameters is None else parameters
        self.actions: ActionForm = action_form(self.action_mode, self.deployment)

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:
        """The action, float32 (2,), for one observation; ``memory`` is changed in place."""
        raise NotImplementedError

    def fresh_memory(self) -> np.ndarray:
        """The memory at the start of an episode, float64 (m,)."""
        return np.empty(0)

    def predict(
        self,
        observation: np.ndarray,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,  # noqa: ARG002 - a scripted rule has no other way
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """See :class:`Policy`. ``state`` is one array (n, m); rows whose ``episode_start`` is true begin afresh.

        Raises ``ValueError`` if an observation is not of finite numbers.
        """
        batch = np.atleast_2d(observation)
        if not np.isfinite(batch).all():
            raise ValueError("observation: expected finite numbers")
        fresh = np.tile(self.fresh_memory(), (len(batch), 1))
        memory = fresh if state is None else state[0].copy()
        if episode_start is not None:
            starts = np.broadcast_to(np.asarray(episode_start, dtype=bool), len(batch))
            memory[starts] = fresh[starts]
        actions = np.stack([self.decide(decode(row), memory[i]) for i, row in enumerate(batch)])
        return (actions if np.ndim(observation) == 2 else actions[0]), (memory,)
