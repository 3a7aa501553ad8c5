"""``least-completion``: each request goes where its expected completion is earlier; N_p as the window advises.

The comparison needs the request, which no interval policy sees: the ``price`` law inside the engine makes it. The
policy only names the price, 0 unless given; ``priced-completion`` is the one whose parameters are tuned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prfaas_env.config import Record
from prfaas_env.profiles import NonNegative
from prfaas_env.simulator.control import Control

from .base import Observed, ScriptedPolicy

__all__ = ["LeastCompletion"]


@dataclass(frozen=True)
class LeastCompletionParameters(Record):
    """``price_s``: seconds by which remote must be sooner to be taken."""

    price_s: NonNegative = 0.0


class LeastCompletion(ScriptedPolicy):
    """The price law at a constant price; price 0 is the zero action."""

    action_mode = "price"
    Parameters = LeastCompletionParameters

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        advised = round(observed["advised_prefill"])
        return self.actions.encode(Control(advised, law="price", price_s=self.parameters.price_s), 0.0, advised)
