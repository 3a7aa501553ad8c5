"""How a test plays a :class:`tests.strategies.Case` on an engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prfaas_env.simulator.engine import make_engine
from prfaas_env.simulator.signals import SIGNAL
from tests.strategies import Case

__all__ = ["Run", "play"]


class Run(NamedTuple):
    """What an engine has said at the end of each interval: log, signals (intervals, SIGNALS) and length bins."""

    cuts: list[np.ndarray]
    signals: np.ndarray
    bins: np.ndarray

    @property
    def log(self) -> np.ndarray:
        """The log at the end of the run."""
        return self.cuts[-1]

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
        faults=case.faults,
        objectives=case.objectives,
        control=case.start,
        patience_s=case.patience_s,
    )
    cuts, measured = [], []

    def look() -> None:
        measured.append(engine.measure())
        cuts.append(engine.log())

    for time_s, control in case.controls:
        while step_s is not None and engine.now_s + step_s < time_s:
            engine.advance(engine.now_s + step_s)
        engine.advance(time_s)
        look()
        engine.apply(control)
    engine.drain()
    look()
    signals, bins = zip(*measured, strict=True)
    return Run(cuts, np.array(signals), np.array(bins))
