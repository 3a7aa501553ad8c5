"""``static``: one threshold and one split for the whole episode, the deployment's own unless given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from prfaas_env.config import Range, Record
from prfaas_env.profiles import NonNegative
from prfaas_env.simulator.control import Control

from .base import Observed, ScriptedPolicy

__all__ = ["Static"]


@dataclass(frozen=True)
class StaticParameters(Record):
    """``None`` stands for the deployment's own value (t = 19.4K, N_p = 3 in the paper's case study)."""

    threshold_tokens: NonNegative | None = None
    n_prefill: Annotated[int, Range(ge=0)] | None = None


class Static(ScriptedPolicy):
    """Never moves a knob."""

    action_mode = "absolute"
    Parameters = StaticParameters

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        own, given = self.deployment, self.parameters
        threshold = own.threshold_tokens if given.threshold_tokens is None else given.threshold_tokens
        n_prefill = own.local.prefill if given.n_prefill is None else given.n_prefill
        return self.actions.encode(Control(n_prefill, threshold), threshold, n_prefill)
