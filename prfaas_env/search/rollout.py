"""A sequence of controls played on the compiled engine, from where a run stands to its end.

The intervals are those of the control loop, with its rule for the cache, so that a sequence gives here exactly what it
gives when a policy puts it in force step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np

from prfaas_env.environment import cache_rule
from prfaas_env.environment.cache_rule import CACHE_RULES, is_abundant
from prfaas_env.simulator.compiled import loop
from prfaas_env.simulator.compiled.engine import CompiledEngine, Snapshot
from prfaas_env.simulator.compiled.handle import call, pointer_at
from prfaas_env.simulator.compiled.jit import entry
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import SIGNAL

__all__ = ["BY_PRICE", "N_PREFILL", "PRICE", "THRESHOLD", "Cost", "Rollouts", "as_control", "as_knobs"]

N_PREFILL, BY_PRICE, THRESHOLD, PRICE = range(4)
"""Columns of a sequence of controls, float64 (steps, 4): N_p, whether by price, tokens, seconds."""


class Cost(NamedTuple):
    """What a sequence costs, the less the better: first requests that are never served, so that all compare at equal
    work, then the sum of TTFT in seconds over all others.

    Never served are those that are refused and those that wait for ever, behind a link or a pool that stays down.
    """

    unserved: float
    ttft_s: float


def as_knobs(control: Control) -> np.ndarray:
    """A control as a row of a sequence."""
    return np.array([control.n_prefill, control.law == "price", control.threshold_tokens, control.price_s])


def as_control(knobs: np.ndarray) -> Control:
    """A row of a sequence as a control; the rule for the cache is the loop's."""
    n_prefill, by_price, threshold_tokens, price_s = knobs.tolist()
    return Control(int(n_prefill), threshold_tokens, "price" if by_price else "threshold", price_s)


@dataclass
class Rollouts:
    """Plays sequences on one run, which stands at ``start_s``: row k lasts until ``start_s + (k + 1) control_step_s``,
    at most ``end_s``. ``cache_rule`` is that of its control loop. What is in the system at the end is drained.
    """

    engine: CompiledEngine
    control_step_s: float
    end_s: float
    start_s: float = 0.0
    cache_rule: str = "auto"

    def advance(self, knobs: np.ndarray, first: int, last: int) -> Cost:
        """Play rows ``first`` to ``last`` (exclusive), stay there, and say what they cost."""
        return self._play(knobs, first, last, drain=False)

    def cost(self, start: Snapshot, knobs: np.ndarray, first: int) -> Cost:
        """What the rows from ``first`` on cost after ``start``, where the engine is after the rows before."""
        self.engine.restore(start)
        return self._play(knobs, first, len(knobs), drain=True)

    def _play(self, knobs: np.ndarray, first: int, last: int, drain: bool) -> Cost:
        progress = np.array([float(first), 0.0, 0.0, 0.0])
        rule = CACHE_RULES.index(self.cache_rule)
        times = (self.start_s, self.control_step_s, self.end_s)
        while _play(OPERATE, self.engine.table, self.engine.sim.signals, knobs, progress, last, rule, *times, drain):
            self.engine.grow()
        return Cost(float(progress[UNSERVED]), float(progress[TTFT_SUM]))


OPERATE = loop.operate.address
APPLY, ADVANCE, DRAIN, MEASURE, RING_FULL = loop.APPLY, loop.ADVANCE, loop.DRAIN, loop.MEASURE, loop.RING_FULL
AUTO, ABUNDANT = CACHE_RULES.index("auto"), CACHE_RULES.index("abundant")
REJECTED, WAITING, TTFT_SUM_S = SIGNAL["rejected"], SIGNAL["waiting"], SIGNAL["ttft_sum_s"]
STEP, RUNNING, UNSERVED, TTFT_SUM = range(4)  # of `progress`

_is_abundant = numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(is_abundant)


@partial(entry, sources=(Path(str(cache_rule.__file__)).resolve().parent, Path(__file__).resolve().parent))
def _play(
    operate: int,
    table: np.ndarray,
    signals: np.ndarray,
    knobs: np.ndarray,
    progress: np.ndarray,
    last: int,
    rule: int,
    start_s: float,
    control_step_s: float,
    end_s: float,
    drain: bool,
) -> bool:
    """Play on; true where the ring must grow first, and the call be made again with the same ``progress``."""
    sim = pointer_at(table, 0)
    while progress[STEP] < last:
        k = int(progress[STEP])
        if progress[RUNNING] == 0.0:
            abundant = rule == ABUNDANT or (rule == AUTO and _is_abundant(signals))
            row = knobs[k]
            call(operate, sim, APPLY, int(row[N_PREFILL]), int(row[BY_PRICE]), abundant, row[THRESHOLD], row[PRICE])
            progress[RUNNING] = 1.0
        if call(operate, sim, ADVANCE, 0, 0, 0, min(start_s + (k + 1) * control_step_s, end_s), 0.0) == RING_FULL:
            return True
        call(operate, sim, MEASURE, 0, 0, 0, 0.0, 0.0)
        progress[UNSERVED] += signals[REJECTED]
        progress[TTFT_SUM] += signals[TTFT_SUM_S]
        progress[RUNNING] = 0.0
        progress[STEP] += 1.0
    if drain:
        if call(operate, sim, DRAIN, 0, 0, 0, 0.0, 0.0) == RING_FULL:
            return True
        call(operate, sim, MEASURE, 0, 0, 0, 0.0, 0.0)
        progress[UNSERVED] += signals[REJECTED] + signals[WAITING]
        progress[TTFT_SUM] += signals[TTFT_SUM_S]
    return False
