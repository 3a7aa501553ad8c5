"""``windowed-closed-form``: (t*, N_p*) of Eq. 7 and 8, solved anew at every step on the recent window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prfaas_env.config import Record

from .base import Observed, ScriptedPolicy

__all__ = ["WindowedClosedForm"]


@dataclass(frozen=True)
class WindowedClosedFormParameters(Record):
    """There are none: the window is the environment's ``window_s``."""


class WindowedClosedForm(ScriptedPolicy):
    """The zero residual action: what a learned correction starts from."""

    action_mode = "residual"
    Parameters = WindowedClosedFormParameters

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return np.zeros(2, dtype=np.float32)
