"""The event calendar of the reference engine: SimPy's, with absolute times and model.md's order within one instant.

At one instant: completions, then capacity changes and faults, then control, then arrivals; completions in order of
request number, and of stage within a request.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum

import simpy

__all__ = ["Calendar", "Stage", "When"]


class When(IntEnum):
    """The classes of events that may fall on one instant, in their order."""

    COMPLETION = 1
    CONDITION = 2
    CONTROL = 3
    ARRIVAL = 4


class Stage(IntEnum):
    """The order of a request's own events within one instant."""

    COPIED = 0
    PREFILL_END = 1
    CATCH_UP = 2
    SENT = 3
    KV_READY = 4
    TOKEN = 5
    CONVERTED = 6


def order(when: When, number: int = 0, stage: int = 0) -> int:
    """SimPy's priority number for a class, a request number and a stage."""
    return (when << 60) | (number << 4) | stage


class Calendar(simpy.Environment):
    """SimPy's environment with events at absolute times.

    SimPy schedules by delay, and ``now + (t - now)`` is not always ``t``: two events meant for one instant would then
    fall on two.
    """

    def at(self, time_s: float, priority: int, action: Callable[[], None] | None = None) -> simpy.Event:
        """An event at ``time_s``; ``action`` runs when it fires."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        if action is not None:
            event.callbacks.append(lambda _: action())
        heapq.heappush(self._queue, (time_s, priority, next(self._eid), event))  # type: ignore[misc]
        return event
