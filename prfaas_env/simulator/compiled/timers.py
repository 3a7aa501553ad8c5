"""The calendar: a binary heap of timers, in the order that model.md section 2 gives to one instant.

A timer belongs to a decode instance (its next milestone), to the conversion, or to a request (two each: *A* for its
copy and its prefill, *B* for its transfer and the arrival of its KV). A timer that is set anew moves in the heap; there
are no void events.
"""

from __future__ import annotations

from prfaas_env.simulator.compiled.jit import kernel, small
from prfaas_env.simulator.compiled.state import Sim

__all__ = ["AFTER_REQUESTS", "CATCH_UP", "CONVERTED", "COPIED", "KV_READY", "PREFILL_END", "SENT", "TOKEN"]

# Stages, as in the reference engine's calendar; a timer's order is request number × 16 + stage.
COPIED, PREFILL_END, CATCH_UP, SENT, KV_READY, TOKEN, CONVERTED = range(7)
AFTER_REQUESTS = 1 << 40


@small
def timer_a(sim: Sim, number: int) -> int:
    return len(sim.decoders) + 1 + 2 * (number & (len(sim.ring) - 1))


@small
def timer_b(sim: Sim, number: int) -> int:
    return timer_a(sim, number) + 1


@small
def _put(sim: Sim, place: int, time_s: float, order: int, timer: int) -> None:
    entry = sim.timers[place]
    entry.time_s = time_s
    entry.order = order
    entry.id = timer
    sim.timer_place[timer] = place


@small
def _rise(sim: Sim, place: int, time_s: float, order: int, timer: int) -> None:
    while place > 0:
        parent = (place - 1) >> 1
        above = sim.timers[parent]
        if above.time_s < time_s or (above.time_s == time_s and above.order <= order):
            break
        _put(sim, place, above.time_s, above.order, above.id)
        place = parent
    _put(sim, place, time_s, order, timer)


@small
def _sink(sim: Sim, place: int, time_s: float, order: int, timer: int) -> None:
    count = sim.scalars[0].timers
    timers = sim.timers
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        below = timers[child]
        if child + 1 < count:
            other = timers[child + 1]
            if other.time_s < below.time_s or (other.time_s == below.time_s and other.order < below.order):
                child += 1
                below = other
        if time_s < below.time_s or (time_s == below.time_s and order <= below.order):
            break
        _put(sim, place, below.time_s, below.order, below.id)
        place = child
    _put(sim, place, time_s, order, timer)


@kernel
def set_timer(sim: Sim, timer: int, time_s: float, order: int) -> None:
    """Let ``timer`` fire at ``time_s``, whether it runs already or not."""
    place = sim.timer_place[timer]
    if place < 0:
        place = sim.scalars[0].timers
        sim.scalars[0].timers += 1
        _rise(sim, place, time_s, order, timer)
        return
    present = sim.timers[place]
    if time_s < present.time_s or (time_s == present.time_s and order < present.order):
        _rise(sim, place, time_s, order, timer)
    else:
        _sink(sim, place, time_s, order, timer)


@kernel
def stop_timer(sim: Sim, timer: int) -> None:
    """Let ``timer`` not fire."""
    place = sim.timer_place[timer]
    if place < 0:
        return
    sim.timer_place[timer] = -1
    last = sim.scalars[0].timers - 1
    sim.scalars[0].timers = last
    if place == last:
        return
    time_s, order, moved = sim.timers[last].time_s, sim.timers[last].order, sim.timers[last].id
    if place > 0:
        above = sim.timers[(place - 1) >> 1]
        if time_s < above.time_s or (time_s == above.time_s and order < above.order):
            _rise(sim, place, time_s, order, moved)
            return
    _sink(sim, place, time_s, order, moved)
