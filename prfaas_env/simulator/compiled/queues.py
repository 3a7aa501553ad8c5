"""Queues of requests, linked through the ring: a request stands in at most one."""

from __future__ import annotations

from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.state import Sim

__all__: list[str] = []


@kernel
def slot(sim: Sim, number: int) -> int:
    """Where a request is in the ring."""
    return number & (len(sim.ring) - 1)


@kernel
def append_ready(sim: Sim, number: int) -> None:
    g = sim.scalars[0]
    sim.ring[slot(sim, number)].next = -1
    if g.ready_head < 0:
        g.ready_head = number
    else:
        sim.ring[slot(sim, g.ready_tail)].next = number
    g.ready_tail = number
    g.ready_queue += 1


@kernel
def prepend_ready(sim: Sim, number: int) -> None:
    g = sim.scalars[0]
    sim.ring[slot(sim, number)].next = g.ready_head
    if g.ready_head < 0:
        g.ready_tail = number
    g.ready_head = number
    g.ready_queue += 1


@kernel
def pop_ready(sim: Sim) -> int:
    g = sim.scalars[0]
    number = g.ready_head
    g.ready_head = sim.ring[slot(sim, number)].next
    g.ready_queue -= 1
    return number


@kernel
def append_memory(sim: Sim, number: int) -> None:
    g = sim.scalars[0]
    request = sim.ring[slot(sim, number)]
    request.next = -1
    request.in_memory_queue = 1
    if g.memory_head < 0:
        g.memory_head = number
    else:
        sim.ring[slot(sim, g.memory_tail)].next = number
    g.memory_tail = number


@kernel
def prepend_memory(sim: Sim, number: int) -> None:
    g = sim.scalars[0]
    request = sim.ring[slot(sim, number)]
    request.next = g.memory_head
    request.in_memory_queue = 1
    if g.memory_head < 0:
        g.memory_tail = number
    g.memory_head = number


@kernel
def pop_memory(sim: Sim) -> int:
    g = sim.scalars[0]
    number = g.memory_head
    request = sim.ring[slot(sim, number)]
    request.in_memory_queue = 0
    g.memory_head = request.next
    return number


@kernel
def remove_memory(sim: Sim, number: int) -> None:
    """Take a request out of the middle of the memory queue (a fault has thrown it back)."""
    g = sim.scalars[0]
    before, here = -1, g.memory_head
    while here != number:
        before, here = here, sim.ring[slot(sim, here)].next
    after = sim.ring[slot(sim, number)].next
    if before < 0:
        g.memory_head = after
    else:
        sim.ring[slot(sim, before)].next = after
    if after < 0:
        g.memory_tail = before
    sim.ring[slot(sim, number)].in_memory_queue = 0


@kernel
def append_bound(sim: Sim, instance: int, number: int) -> None:
    """A request whose KV has come waits for a slot of the instance that holds its memory."""
    decoder = sim.decoders[instance]
    sim.ring[slot(sim, number)].next = -1
    if decoder.waiting_head < 0:
        decoder.waiting_head = number
    else:
        sim.ring[slot(sim, decoder.waiting_tail)].next = number
    decoder.waiting_tail = number
    sim.scalars[0].waiting_bound += 1


@kernel
def pop_bound(sim: Sim, instance: int) -> int:
    decoder = sim.decoders[instance]
    number = decoder.waiting_head
    decoder.waiting_head = sim.ring[slot(sim, number)].next
    sim.scalars[0].waiting_bound -= 1
    return number


@kernel
def append_pool(sim: Sim, side: int, number: int) -> None:
    pool = sim.pools[side]
    sim.ring[slot(sim, number)].next = -1
    if pool.head < 0:
        pool.head = number
    else:
        sim.ring[slot(sim, pool.tail)].next = number
    pool.tail = number
    pool.queue += 1


@kernel
def prepend_pool(sim: Sim, side: int, number: int) -> None:
    pool = sim.pools[side]
    sim.ring[slot(sim, number)].next = pool.head
    if pool.head < 0:
        pool.tail = number
    pool.head = number
    pool.queue += 1


@kernel
def pop_pool(sim: Sim, side: int) -> int:
    pool = sim.pools[side]
    number = pool.head
    pool.head = sim.ring[slot(sim, number)].next
    pool.queue -= 1
    return number
