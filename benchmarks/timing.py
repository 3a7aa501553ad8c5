"""How everything is timed: rivals take turns, and the median of the turns counts."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["Rate", "interleaved", "seconds"]

Rate = Callable[[], float]
"""One repetition; returns units a second."""


def interleaved(subjects: Mapping[str, Rate], repeats: int) -> dict[str, float]:
    """The median rate of every subject over ``repeats`` rounds, in each of which all take their turn.

    A neighbour on the machine that comes and goes then slows all of them, and ratios stay what they are.
    """
    rates: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(repeats):
        for name, subject in subjects.items():
            gc.collect()
            rates[name].append(subject())
    return {name: statistics.median(values) for name, values in rates.items()}


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin
