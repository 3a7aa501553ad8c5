"""What a policy did, step by step: the controls that were put in force, from which a run can be played again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prfaas_env.simulator.control import Control
from prfaas_env.simulator.result import RunResult

__all__ = ["CONTROL_DTYPE", "PolicyRun", "Recorded", "as_controls", "control_of"]

CONTROL_DTYPE = np.dtype(
    [("n_prefill", "<i4"), ("by_price", "?"), ("abundant", "?"), ("threshold_tokens", "<f8"), ("price_s", "<f8")]
)
"""A control as a row: the target N_p, the routing law, the rule for the cache, and the parameters of both laws."""


def as_controls(controls: Sequence[Control]) -> np.ndarray:
    """One row (``CONTROL_DTYPE``) a control."""
    rows = [
        (c.n_prefill, c.law == "price", c.cache_rule == "abundant", c.threshold_tokens, c.price_s) for c in controls
    ]
    return np.array(rows, dtype=CONTROL_DTYPE)


def control_of(row: Any) -> Control:
    """The control in a row (``CONTROL_DTYPE``), without the rule for the cache, which is the control loop's to choose.

    Raises :class:`ConfigError` on what can be no control.
    """
    n_prefill, by_price, _, threshold_tokens, price_s = row.item()
    return Control(n_prefill, threshold_tokens, "price" if by_price else "threshold", price_s)


@dataclass(frozen=True, eq=False, repr=False)
class PolicyRun(RunResult):
    """A run, and what the policy did in it.

    - ``controls``: ``CONTROL_DTYPE``, what was in force in each control step.
    - ``decision_s``: mean wall-clock time that the policy took for a decision.
    """

    controls: np.ndarray = field(default_factory=lambda: as_controls([]))
    decision_s: float = 0.0


class Recorded:
    """Plays recorded controls (``CONTROL_DTYPE``, one row a step) as if a policy decided so."""

    name = "recorded"

    def __init__(self, controls: np.ndarray) -> None:
        self._controls = controls

    def control(self, loop: Any) -> Control:
        """The recorded control of the step that the loop stands at."""
        return control_of(self._controls[len(loop.episode.signals)])
