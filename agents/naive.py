"""``naive``: every request is prefilled remotely, and the local cluster decodes with all the instances it may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prfaas_env.config import Record
from prfaas_env.simulator.control import Control

from .base import Observed, ScriptedPolicy

__all__ = ["Naive"]


@dataclass(frozen=True)
class NaiveParameters(Record):
    """There are none."""


class Naive(ScriptedPolicy):
    """Naive heterogeneous PD of the paper's Table 6 (t = 0), on any deployment."""

    action_mode = "absolute"
    Parameters = NaiveParameters

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        least, _ = self.deployment.prefill_bounds
        return self.actions.encode(Control(least, 0.0), 0.0, least)
