"""``load-aware``: the threshold and the split of the least predicted mean TTFT at the load of the moment.

The paper's Eqs. 7 and 8 maximise throughput, whatever the load. Far below Λ_max that sends too much to the slower local
pool; here nearly everything goes remote while that pool has room, and near Λ_max t rises to the value of Eq. 7
(``predicting.py``).

Where no threshold can keep up, somebody has to wait. Least mean TTFT then asks for the shortest prompts to be served
first, and a threshold can do that: the local pool takes as many of them as keep it busy and no more, so that its queue
stays short, and the longer ones queue for the remote pool. When arrivals cease before that queue is gone, t rises and
the local pool helps with all that still comes. P99 pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.simulator.control import Control
from prfaas_env.theory.latency import Prediction

from .base import Observed, Span
from .predicting import Predicting, PredictingParameters

__all__ = ["LoadAware", "LoadAwareParameters"]

LEAST_RPS = 1e-3


@dataclass(frozen=True)
class LoadAwareParameters(PredictingParameters):
    """Where no threshold keeps up, the local wait is brought to ``local_wait_s`` within ``steer_s``."""

    local_wait_s: NonNegative = 7.0
    steer_s: Positive = 30.0


class LoadAware(Predicting):
    """Least predicted mean TTFT instead of most throughput."""

    action_mode: ClassVar[ActionName] = "absolute"
    Parameters = LoadAwareParameters
    tunable: ClassVar[Mapping[str, Span]] = {
        **Predicting.tunable,
        "local_wait_s": Span(1.0, 40.0, log=True),
        "steer_s": Span(10.0, 120.0, log=True),
    }

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        predicted = self.predicted(observed)
        target = self.split(predicted, observed["target_prefill_nodes"])
        ttft_s = predicted.prefill_s[self.column(observed["prefill_nodes"])]
        if np.isfinite(ttft_s).any():
            threshold_tokens = float(self.model.thresholds_tokens[int(np.argmin(ttft_s))])
        else:
            threshold_tokens = self._filling(predicted, observed)
        control = Control(target, threshold_tokens)
        return self.actions.encode(control, control.threshold_tokens, control.n_prefill)

    def _filling(self, predicted: Prediction, observed: Observed) -> float:
        """The threshold that gives the local pool just enough to do, between those that were tried."""
        own = self.parameters
        spare = 1.0 - (observed["local_expected_wait_s"] - own.local_wait_s) / own.steer_s
        room = max(observed["prefill_nodes"], 1.0) * max(spare, 0.0) / max(observed["arrivals"], LEAST_RPS)
        work_s, thresholds = predicted.local_work_s, self.model.thresholds_tokens
        if room >= work_s[-1]:
            return np.inf
        return float(np.interp(room, work_s[:-1], thresholds[:-1]))
