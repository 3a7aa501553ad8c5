"""Prefill pools (model.md section 2.3): one FCFS queue each, the first idle instance takes its head."""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.compiled.accounts import integrate_pool
from prfaas_env.simulator.compiled.decode import reserve
from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.queues import append, pop, prepend, slot
from prfaas_env.simulator.compiled.state import Sim
from prfaas_env.simulator.compiled.timers import PREFILL_END, set_timer, stop_timer, timer_a

__all__: list[str] = []

# --- idle instances, a heap of their numbers -----------------------------------------------------------------------


@kernel
def _push_idle(sim: Sim, side: int, instance: int) -> None:
    heap = sim.instances[side]
    place = sim.pools[side].idle
    sim.pools[side].idle = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent].idle <= instance:
            break
        heap[place].idle = heap[parent].idle
        place = parent
    heap[place].idle = instance


@kernel
def _sink_idle(sim: Sim, side: int, place: int, instance: int) -> None:
    heap = sim.instances[side]
    count = sim.pools[side].idle
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1].idle < heap[child].idle:
            child += 1
        if instance <= heap[child].idle:
            break
        heap[place].idle = heap[child].idle
        place = child
    heap[place].idle = instance


@kernel
def _pop_idle(sim: Sim, side: int) -> int:
    first = sim.instances[side, 0].idle
    last = sim.pools[side].idle - 1
    sim.pools[side].idle = last
    if last > 0:
        _sink_idle(sim, side, 0, sim.instances[side, last].idle)
    return first


@kernel
def _remove_idle(sim: Sim, side: int, instance: int) -> None:
    """Take an instance that may be idle out of the heap; rare, so the heap is built anew."""
    count = sim.pools[side].idle
    kept = 0
    for k in range(count):
        idle = sim.instances[side, k].idle
        if idle != instance:
            sim.instances[side, kept].idle = idle
            kept += 1
    sim.pools[side].idle = kept
    for place in range(kept // 2 - 1, -1, -1):
        _sink_idle(sim, side, place, sim.instances[side, place].idle)


# --- what a router can foresee: when instances will be free, a heap of times ----------------------------------------


@kernel
def _replace_earliest(sim: Sim, side: int, free_at_s: float) -> None:
    heap = sim.instances[side]
    count = sim.pools[side].members
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1].free_at_s < heap[child].free_at_s:
            child += 1
        if free_at_s <= heap[child].free_at_s:
            break
        heap[place].free_at_s = heap[child].free_at_s
        place = child
    heap[place].free_at_s = free_at_s


@kernel
def expected_wait_s(sim: Sim, side: int) -> float:
    """Wait of a request that came now (Kiefer and Wolfowitz); infinite in a pool without instances."""
    if sim.pools[side].members == 0:
        return np.inf
    return max(0.0, sim.instances[side, 0].free_at_s - sim.scalars[0].now)


@kernel
def _extend_schedule(sim: Sim, side: int, service_s: float) -> None:
    if sim.pools[side].members > 0:
        start_s = max(sim.scalars[0].now, sim.instances[side, 0].free_at_s)
        _replace_earliest(sim, side, start_s + service_s)


@kernel
def rebuild_schedule(sim: Sim, side: int) -> None:
    """After the pool's membership has changed."""
    now = sim.scalars[0].now
    count = 0
    row = sim.instances[side]
    for i in range(len(row)):
        if row[i].member:
            free_at_s = now
            if row[i].running >= 0:
                free_at_s = max(now, sim.ring[slot(sim, row[i].running)].prefill_end_s)
            place = count
            while place > 0 and row[(place - 1) >> 1].free_at_s > free_at_s:
                row[place].free_at_s = row[(place - 1) >> 1].free_at_s
                place = (place - 1) >> 1
            row[place].free_at_s = free_at_s
            count += 1
    number = sim.queues[side].head
    for _ in range(sim.queues[side].length):
        request = sim.ring[slot(sim, number)]
        _extend_schedule(sim, side, request.service_s)
        number = request.next


# --- requests ------------------------------------------------------------------------------------------------------


@kernel
def start_prefill(sim: Sim, side: int, number: int, instance: int) -> None:
    integrate_pool(sim, side)
    now = sim.scalars[0].now
    request = sim.ring[slot(sim, number)]
    sim.instances[side, instance].running = number
    sim.pools[side].running += 1
    request.prefill_instance = instance
    request.prefill_start_s = now
    request.prefill_end_s = now + request.service_s
    set_timer(sim, timer_a(sim, number), request.prefill_end_s, number * 16 + PREFILL_END)
    if sim.constants[0].pipelined:
        reserve(sim, number)


@kernel
def dispatch(sim: Sim, side: int) -> None:
    while sim.queues[side].length > 0 and sim.pools[side].idle > 0:
        number = pop(sim, side)
        start_prefill(sim, side, number, _pop_idle(sim, side))


@kernel
def submit(sim: Sim, side: int, number: int) -> None:
    """A routed request joins the queue, or starts at once."""
    request = sim.ring[slot(sim, number)]
    request.queued_s = sim.scalars[0].now
    _extend_schedule(sim, side, request.service_s)
    if sim.queues[side].length == 0 and sim.pools[side].idle > 0:
        start_prefill(sim, side, number, _pop_idle(sim, side))
    else:
        append(sim, side, number)


@kernel
def offer(sim: Sim, side: int, instance: int) -> None:
    """An instance is free for the head of the queue."""
    if sim.queues[side].length > 0 and sim.pools[side].idle == 0:
        start_prefill(sim, side, pop(sim, side), instance)
    else:
        _push_idle(sim, side, instance)
        dispatch(sim, side)


@kernel
def stop_running(sim: Sim, side: int, instance: int) -> None:
    integrate_pool(sim, side)
    sim.instances[side, instance].running = -1
    sim.pools[side].running -= 1


# --- membership ----------------------------------------------------------------------------------------------------


@kernel
def join_pool(sim: Sim, side: int, instance: int) -> None:
    integrate_pool(sim, side)
    sim.instances[side, instance].member = 1
    sim.pools[side].members += 1
    offer(sim, side, instance)
    rebuild_schedule(sim, side)


@kernel
def leave_pool(sim: Sim, side: int, instance: int) -> None:
    """An instance stops being a prefill node: it is idle, has just become free, or has failed."""
    integrate_pool(sim, side)
    sim.instances[side, instance].member = 0
    sim.pools[side].members -= 1
    _remove_idle(sim, side, instance)
    rebuild_schedule(sim, side)


@kernel
def fail_prefill(sim: Sim, side: int, instance: int) -> int:
    """An instance fails; its request, if it has one, is returned with its work lost (−1: none)."""
    number = sim.instances[side, instance].running
    if number >= 0:
        stop_timer(sim, timer_a(sim, number))
        stop_running(sim, side, instance)
    leave_pool(sim, side, instance)
    return number


@kernel
def put_back(sim: Sim, side: int, number: int) -> None:
    """A request that a fault has sent back takes the head of the queue; the caller goes from newest to oldest."""
    sim.ring[slot(sim, number)].queued_s = sim.scalars[0].now
    prepend(sim, side, number)
