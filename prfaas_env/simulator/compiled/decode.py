"""Continuous-batching decode (model.md section 2.5); the reference engine's ``decode.py`` explains the token clock."""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.compiled.accounts import integrate_decode
from prfaas_env.simulator.compiled.jit import kernel, small
from prfaas_env.simulator.compiled.laws import fabric_ready_s
from prfaas_env.simulator.compiled.link import begin_flow
from prfaas_env.simulator.compiled.queues import append, pop, prepend, remove, slot
from prfaas_env.simulator.compiled.state import BOUND, FORWARD, MEMORY, READY, Sim
from prfaas_env.simulator.compiled.timers import KV_READY, TOKEN, set_timer, stop_timer, timer_b

__all__: list[str] = []

# --- the heap of admitting instances, fewest active sequences first, ties by number -------------------------------


@small
def _lighter(sim: Sim, a: int, b: int) -> bool:
    active_a, active_b = sim.decoders[a].active, sim.decoders[b].active
    return active_a < active_b or (active_a == active_b and a < b)


@kernel
def _settle(sim: Sim, instance: int) -> None:
    """Move an instance of the heap to where its load belongs."""
    decoders = sim.decoders
    count = sim.scalars[0].admitting
    place = decoders[instance].heap_place
    while place > 0:
        parent = (place - 1) >> 1
        above = decoders[parent].by_load
        if not _lighter(sim, instance, above):
            break
        decoders[place].by_load = above
        decoders[above].heap_place = place
        place = parent
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and _lighter(sim, decoders[child + 1].by_load, decoders[child].by_load):
            child += 1
        below = decoders[child].by_load
        if not _lighter(sim, below, instance):
            break
        decoders[place].by_load = below
        decoders[below].heap_place = place
        place = child
    decoders[place].by_load = instance
    decoders[instance].heap_place = place


@kernel
def _join_heap(sim: Sim, instance: int) -> None:
    sim.decoders[instance].heap_place = sim.scalars[0].admitting
    sim.scalars[0].admitting += 1
    _settle(sim, instance)


@kernel
def _leave_heap(sim: Sim, instance: int) -> None:
    place = sim.decoders[instance].heap_place
    sim.decoders[instance].heap_place = -1
    last = sim.scalars[0].admitting - 1
    sim.scalars[0].admitting = last
    if place != last:
        moved = sim.decoders[last].by_load
        sim.decoders[moved].heap_place = place
        _settle(sim, moved)


# --- the heap of an instance's sequences by their next milestone, ties by number -----------------------------------


@small
def _sooner(goal_a: float, number_a: int, goal_b: float, number_b: int) -> bool:
    return goal_a < goal_b or (goal_a == goal_b and number_a < number_b)


@small
def _push_sequence(sim: Sim, instance: int, goal: float, number: int) -> None:
    heap = sim.sequences[instance]
    place = sim.decoders[instance].active
    while place > 0:
        parent = (place - 1) >> 1
        if not _sooner(goal, number, heap[parent].goal, heap[parent].number):
            break
        heap[place].goal = heap[parent].goal
        heap[place].number = heap[parent].number
        place = parent
    heap[place].goal = goal
    heap[place].number = number


@small
def _replace_top(sim: Sim, instance: int, count: int, goal: float, number: int) -> None:
    """Put a milestone in the place of the first, in a heap of ``count``."""
    heap = sim.sequences[instance]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and _sooner(
            heap[child + 1].goal, heap[child + 1].number, heap[child].goal, heap[child].number
        ):
            child += 1
        if not _sooner(heap[child].goal, heap[child].number, goal, number):
            break
        heap[place].goal = heap[child].goal
        heap[place].number = heap[child].number
        place = child
    heap[place].goal = goal
    heap[place].number = number


# --- decoding ------------------------------------------------------------------------------------------------------


@small
def retime(sim: Sim, instance: int) -> None:
    """Bring the token clock to now, at the speed of the batch so far."""
    decoder = sim.decoders[instance]
    now = sim.scalars[0].now
    if decoder.active:
        decoder.clock += (now - decoder.since_s) / sim.step_s[decoder.active]
    else:
        decoder.clock = 0.0
    decoder.since_s = now


@small
def plan_milestone(sim: Sim, instance: int) -> None:
    decoder = sim.decoders[instance]
    if decoder.active == 0:
        stop_timer(sim, instance)
        return
    first = sim.sequences[instance, 0]
    left = max(0.0, first.goal - decoder.clock)
    set_timer(sim, instance, decoder.since_s + left * sim.step_s[decoder.active], first.number * 16 + TOKEN)


@kernel
def admit(sim: Sim, number: int, instance: int) -> None:
    """A request takes a batch slot."""
    retime(sim, instance)
    integrate_decode(sim)
    g = sim.scalars[0]
    decoder = sim.decoders[instance]
    request = sim.ring[slot(sim, number)]
    request.decode_instance = instance
    request.decode_start_s = g.now
    request.decode_from = decoder.clock
    steps = 1 if np.isnan(request.first_token_s) else request.output_tokens
    _push_sequence(sim, instance, request.decode_from + steps, number)
    if decoder.active == 0 and not decoder.admitting:
        g.decoding += 1
    decoder.active += 1
    g.active += 1
    if decoder.heap_place >= 0:
        _settle(sim, instance)
    plan_milestone(sim, instance)


@kernel
def next_token_goal(sim: Sim, instance: int, goal: float, number: int) -> None:
    """The sequence at the head has shown its first token; its next milestone is its last."""
    _replace_top(sim, instance, sim.decoders[instance].active, goal, number)
    plan_milestone(sim, instance)


@kernel
def drop_first_sequence(sim: Sim, instance: int) -> None:
    """The sequence at the head has ended and gives its slot back."""
    integrate_decode(sim)
    g = sim.scalars[0]
    decoder = sim.decoders[instance]
    last = decoder.active - 1
    if last > 0:
        moved = sim.sequences[instance, last]
        _replace_top(sim, instance, last, moved.goal, moved.number)
    decoder.active = last
    g.active -= 1
    if last == 0 and not decoder.admitting:
        g.decoding -= 1
    if decoder.heap_place >= 0:
        _settle(sim, instance)


# --- hand-off ------------------------------------------------------------------------------------------------------


@kernel
def seat(sim: Sim, number: int) -> None:
    """A request whose memory is on an instance takes a slot there, or waits for one."""
    instance = sim.ring[slot(sim, number)].decode_instance
    if sim.decoders[instance].active < sim.constants[0].slots:
        admit(sim, number, instance)
    else:
        append(sim, BOUND + instance, number)
        sim.scalars[0].waiting_bound += 1


@kernel
def transfer_may_begin(sim: Sim, number: int) -> None:
    """Section 2.4: the remote cluster's KV takes the link, local KV the fabric of its instance."""
    c = sim.constants[0]
    request = sim.ring[slot(sim, number)]
    if request.remote:
        start_s = request.prefill_start_s if c.pipelined else request.prefill_end_s
        begin_flow(sim, FORWARD, number, request.kv_bytes, start_s, request.prefill_end_s)
        return
    now = sim.scalars[0].now
    ready_s = fabric_ready_s(now, request.prefill_end_s, request.kv_bytes, c.fabric_bps, c.pipelined)
    set_timer(sim, timer_b(sim, number), ready_s, number * 16 + KV_READY)


@kernel
def grant(sim: Sim) -> None:
    """Give memory to those that wait for it, FCFS, on the instance with the most of it."""
    while sim.queues[MEMORY].length > 0:
        number = sim.queues[MEMORY].head
        request = sim.ring[slot(sim, number)]
        best = -1
        for i in range(len(sim.decoders)):
            decoder = sim.decoders[i]
            fits = decoder.admitting and decoder.free_bytes >= request.reserved_bytes
            if fits and (best < 0 or decoder.free_bytes > sim.decoders[best].free_bytes):
                best = i
        if best < 0:
            return
        pop(sim, MEMORY)
        request.in_memory_queue = 0
        sim.decoders[best].free_bytes -= request.reserved_bytes
        sim.decoders[best].bound += 1
        request.bound = 1
        request.decode_instance = best
        if request.kv_here:
            seat(sim, number)
        else:
            transfer_may_begin(sim, number)


@kernel
def fill(sim: Sim) -> None:
    """Give slots to those whose KV has come, FCFS, on the instance with the most of them free."""
    g = sim.scalars[0]
    while sim.queues[READY].length > 0 and g.admitting > 0:
        lightest = sim.decoders[0].by_load
        if sim.decoders[lightest].active >= sim.constants[0].slots:
            return
        admit(sim, pop(sim, READY), lightest)


@kernel
def _ask_for_memory(sim: Sim, number: int) -> None:
    append(sim, MEMORY, number)
    sim.ring[slot(sim, number)].in_memory_queue = 1


@kernel
def reserve(sim: Sim, number: int) -> None:
    """Memory for a request whose transfer is about to begin."""
    if sim.constants[0].limited:
        _ask_for_memory(sim, number)
        grant(sim)
    else:
        transfer_may_begin(sim, number)


@small
def unbind(sim: Sim, number: int) -> None:
    request = sim.ring[slot(sim, number)]
    decoder = sim.decoders[request.decode_instance]
    decoder.bound -= 1
    decoder.free_bytes += request.reserved_bytes
    request.bound = 0


@kernel
def unreserve(sim: Sim, number: int) -> None:
    """A fault has thrown a request back before its KV came: it gives up its memory, or its place in the queue."""
    request = sim.ring[slot(sim, number)]
    if request.in_memory_queue:
        remove(sim, MEMORY, number)
        request.in_memory_queue = 0
    elif request.bound:
        unbind(sim, number)
        request.decode_instance = -1
        grant(sim)


@kernel
def ready(sim: Sim, number: int) -> None:
    """The KV of a request is at the decode side."""
    request = sim.ring[slot(sim, number)]
    request.kv_ready_s = request.queued_s = sim.scalars[0].now
    request.kv_here = 1
    if not sim.constants[0].limited:
        append(sim, READY, number)
        fill(sim)
    elif request.bound:
        seat(sim, number)
    else:
        _ask_for_memory(sim, number)
        grant(sim)


# --- roles and faults ----------------------------------------------------------------------------------------------


@kernel
def set_admitting(sim: Sim, instance: int, admitting: int) -> None:
    integrate_decode(sim)
    decoder = sim.decoders[instance]
    if decoder.active == 0:
        sim.scalars[0].decoding += admitting - decoder.admitting
    if admitting and not decoder.admitting:
        decoder.admitting = 1
        _join_heap(sim, instance)
    elif decoder.admitting and not admitting:
        decoder.admitting = 0
        _leave_heap(sim, instance)
    if admitting:
        grant(sim)
        fill(sim)


@small
def is_empty(sim: Sim, instance: int) -> bool:
    return sim.decoders[instance].active == 0 and sim.decoders[instance].bound == 0


@kernel
def least_loaded(sim: Sim) -> int:
    """The admitting instance with the least remaining work (section 4), ties by number."""
    now = sim.scalars[0].now
    best, least = -1, np.inf
    for i in range(len(sim.decoders)):
        decoder = sim.decoders[i]
        if not decoder.admitting:
            continue
        work = 0.0
        if decoder.active:
            clock = decoder.clock + (now - decoder.since_s) / sim.step_s[decoder.active]
            for k in range(decoder.active):
                request = sim.ring[slot(sim, sim.sequences[i, k].number)]
                work += request.decode_from + request.output_tokens - clock
        if best < 0 or work < least:
            best, least = i, work
    return best


@kernel
def fail_decoder(sim: Sim, instance: int) -> None:
    """Section 6: its sequences lose their tokens and go back to the head of the queue, their KV is kept."""
    g = sim.scalars[0]
    set_admitting(sim, instance, 0)
    integrate_decode(sim)
    decoder = sim.decoders[instance]
    if decoder.active > 0:
        g.decoding -= 1
    g.active -= decoder.active
    stop_timer(sim, instance)
    limited = sim.constants[0].limited
    # From the newest to the oldest, so that the oldest ends up at the head.
    number = g.arrived_next - 1
    left = decoder.active
    for k in range(decoder.active):
        sim.ring[slot(sim, sim.sequences[instance, k].number)].mark = 1
    while sim.queues[BOUND + instance].length > 0:
        sim.ring[slot(sim, pop(sim, BOUND + instance))].mark = 1
        g.waiting_bound -= 1
        left += 1
    decoder.active = 0
    if limited:
        for other in range(g.oldest, g.arrived_next):
            request = sim.ring[slot(sim, other)]
            if request.present and request.bound and request.decode_instance == instance:
                request.bound = 0
                request.decode_instance = -1
        decoder.bound = 0
        decoder.free_bytes = sim.constants[0].memory_bytes
    while left > 0:
        request = sim.ring[slot(sim, number)]
        if request.mark:
            request.mark = 0
            request.queued_s = g.now
            left -= 1
            prepend(sim, MEMORY if limited else READY, number)
            request.in_memory_queue = 1 if limited else 0
        number -= 1
    grant(sim)
    fill(sim)
