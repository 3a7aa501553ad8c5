"""``sliding-window``: t and N_p solved anew once a period on the recent window, without converting on noise.

``windowed-closed-form`` follows the advice of the online closed form at every step, N_p* included, which with a noisy
histogram turns nodes to and fro. Here N_p moves only where N_p* would sustain more than the present split by the
hysteresis, and t is the optimum of Eq. 7 at the split that is there, also while nodes still convert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import Range, Record
from prfaas_env.profiles import Positive
from prfaas_env.simulator.control import Control

from .base import Observed, ScriptedPolicy, Span, elapsed

__all__ = ["SlidingWindow", "SlidingWindowParameters"]


@dataclass(frozen=True)
class SlidingWindowParameters(Record):
    """``hysteresis``: gain in Λ_max, as a share, below which N_p stays. The window is the environment's."""

    period_s: Positive = 30.0
    hysteresis: Annotated[float, Range(ge=0)] = 0.05


THRESHOLD, TARGET, CLOCK_S = range(3)  # places in the memory


class SlidingWindow(ScriptedPolicy):
    """The windowed closed form with hysteresis."""

    action_mode = "absolute"
    Parameters = SlidingWindowParameters
    tunable: ClassVar[Mapping[str, Span]] = {"period_s": Span(5.0, 600.0, log=True), "hysteresis": Span(0.0, 0.5)}

    def fresh_memory(self) -> np.ndarray:
        own = self.deployment
        return np.array([own.threshold_tokens, own.local.prefill, 0.0])

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:
        own = self.parameters
        if elapsed(memory[CLOCK_S], own.period_s, observed):
            memory[CLOCK_S] = 0.0
            memory[THRESHOLD] = observed["advised_threshold_present_split"]
            present = min(observed["prefill_present_split_rps"], observed["decode_present_split_rps"])
            if observed["lambda_max"] > (1.0 + own.hysteresis) * present:
                memory[TARGET] = round(observed["advised_prefill"])
        memory[CLOCK_S] += observed["control_step_s"]
        control = Control(round(memory[TARGET]), memory[THRESHOLD])
        return self.actions.encode(control, control.threshold_tokens, control.n_prefill)
