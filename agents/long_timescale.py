"""``long-timescale``: only the long loop of the paper's scheduler; t is never adjusted.

The deployment's own threshold stays in force for the whole episode and N_p alone moves, by the long loop of
``dual-timescale`` (whose rule :func:`turned_over` is). So read, PrfaaS has a static threshold: what that costs beside
``dual-timescale`` is what adjusting t is worth, and beside ``static``, what role conversion is worth. The long loop
compares the stages at the threshold that would be best at the present split, as the observation gives them.
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

__all__ = ["LONG_LOOP_SPANS", "LongTimescale", "LongTimescaleParameters", "turned_over"]

LONG_LOOP_SPANS: Mapping[str, Span] = {"long_period_s": Span(20.0, 1800.0, log=True), "hysteresis": Span(0.0, 0.5)}


def turned_over(observed: Observed, target: int, hysteresis: float) -> int:
    """The next N_p: one node more where prefill is the bottleneck, one fewer where decode is, else ``target``.

    Θ_prfaas + Θ_pd-p and Θ_pd-d are far apart when another split would sustain more than the present one by
    ``hysteresis``: with a handful of nodes the stages never meet, and a rule on their ratio would turn the same node to
    and fro. The queues must not say the opposite.
    """
    prefill, decode = observed["prefill_present_split_rps"], observed["decode_present_split_rps"]
    if observed["lambda_max"] <= (1.0 + hysteresis) * min(prefill, decode):
        return target
    nodes, best = round(observed["prefill_nodes"]), round(observed["advised_prefill"])
    prefill_queue = observed["remote_queue"] + observed["local_queue"]
    if prefill < decode and best > nodes and prefill_queue >= observed["decode_queue"]:
        return nodes + 1
    if decode < prefill and best < nodes and observed["decode_queue"] >= prefill_queue:
        return nodes - 1
    return target


@dataclass(frozen=True)
class LongTimescaleParameters(Record):
    """The two constants of the long loop: its period, and the gain in Λ_max below which no node is turned over."""

    long_period_s: Positive = 60.0
    hysteresis: Annotated[float, Range(ge=0)] = 0.05


TARGET, LONG_S = range(2)  # places in the memory


class LongTimescale(ScriptedPolicy):
    """The paper's scheduler as its critics read it."""

    action_mode = "absolute"
    Parameters = LongTimescaleParameters
    tunable: ClassVar[Mapping[str, Span]] = LONG_LOOP_SPANS

    def fresh_memory(self) -> np.ndarray:
        return np.array([self.deployment.local.prefill, 0.0])

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:
        own, threshold = self.parameters, self.deployment.threshold_tokens
        if elapsed(memory[LONG_S], own.long_period_s, observed) and observed["converting_share"] <= 0.0:
            memory[LONG_S] = 0.0
            memory[TARGET] = turned_over(observed, round(memory[TARGET]), own.hysteresis)
        memory[LONG_S] += observed["control_step_s"]
        n_prefill = round(memory[TARGET])
        return self.actions.encode(Control(n_prefill, threshold), threshold, n_prefill)
