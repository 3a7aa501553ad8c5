"""``load-aware``: the threshold and the split of the least predicted mean TTFT at the load of the moment.

The paper's Eqs. 7 and 8 maximise throughput, whatever the load. Far below Λ_max that sends too much to the slower local
pool; here nearly everything goes remote while that pool has room, and near Λ_max t rises to the value of Eq. 7. In an
overload it fills the local pool with the shortest prompts (``predicting.py``).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.simulator.control import Control

from .base import Observed
from .predicting import Predicting

__all__ = ["LoadAware"]


class LoadAware(Predicting):
    """Least predicted mean TTFT instead of most throughput."""

    action_mode: ClassVar[ActionName] = "absolute"

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        predicted = self.predicted(observed)
        target = self.split(predicted, observed["target_prefill_nodes"])
        if self.overloaded(predicted, observed):
            threshold_tokens = observed["filling_threshold"]
        else:
            ttft_s = predicted.prefill_s[self.column(observed["prefill_nodes"])]
            threshold_tokens = float(self.model.thresholds_tokens[int(np.argmin(ttft_s))])
        control = Control(target, threshold_tokens)
        return self.actions.encode(control, control.threshold_tokens, control.n_prefill)
