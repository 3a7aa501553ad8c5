"""The engines that every physics test runs, and how a test plays a :class:`tests.strategies.Case` on one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prfaas_env.simulator.engine import Engine, make_engine
from prfaas_env.simulator.signals import SIGNAL
from tests.strategies import Case

__all__ = ["ENGINES", "Run", "play"]

ENGINES = ("reference",)


class Run(NamedTuple):
    """What an engine has said: the log, the signals of each interval (intervals, SIGNALS), and its length bins."""

    log: np.ndarray
    signals: np.ndarray
    bins: np.ndarray
    engine: Engine

    def signal(self, name: str) -> np.ndarray:
        """One signal over the intervals."""
        return self.signals[:, SIGNAL[name]]


def play(engine_name: str, case: Case, step_s: float | None = None) -> Run:
    """Apply the controls at their times, measuring at each; then drain.

    ``step_s`` also stops (without measuring) at every multiple of it up to the last control: it must change nothing.
    """
    engine = make_engine(
        engine_name,
        case.deployment,
        case.stream,
        capacity=case.capacity,
        objectives=case.objectives,
        control=case.start,
    )
    measured = []
    for time_s, control in case.controls:
        while step_s is not None and engine.now_s + step_s < time_s:
            engine.advance(engine.now_s + step_s)
        engine.advance(time_s)
        measured.append(engine.measure())
        engine.apply(control)
    engine.drain()
    measured.append(engine.measure())
    signals, bins = zip(*measured, strict=True)
    return Run(engine.log(), np.array(signals), np.array(bins), engine)
