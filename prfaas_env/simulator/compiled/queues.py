"""Queues of requests, linked through the ring: a request stands in at most one.

Queue ``LOCAL`` and queue ``REMOTE`` are those of the prefill pools; ``READY`` waits for a decode slot anywhere,
``MEMORY`` for KV memory, and ``BOUND + i`` for a slot of decode instance i, which holds its memory.
"""

from __future__ import annotations

from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.state import Sim

__all__: list[str] = []


@kernel
def slot(sim: Sim, number: int) -> int:
    """Where a request is in the ring."""
    return number & (len(sim.ring) - 1)


@kernel
def append(sim: Sim, which: int, number: int) -> None:
    queue = sim.queues[which]
    sim.ring[slot(sim, number)].next = -1
    if queue.head < 0:
        queue.head = number
    else:
        sim.ring[slot(sim, queue.tail)].next = number
    queue.tail = number
    queue.length += 1


@kernel
def prepend(sim: Sim, which: int, number: int) -> None:
    """Put a request that a fault has thrown back at the head."""
    queue = sim.queues[which]
    sim.ring[slot(sim, number)].next = queue.head
    if queue.head < 0:
        queue.tail = number
    queue.head = number
    queue.length += 1


@kernel
def pop(sim: Sim, which: int) -> int:
    """Take the head of a queue that is not empty."""
    queue = sim.queues[which]
    number = queue.head
    queue.head = sim.ring[slot(sim, number)].next
    queue.length -= 1
    return number


@kernel
def remove(sim: Sim, which: int, number: int) -> None:
    """Take a request out of the middle of the queue that it stands in."""
    queue = sim.queues[which]
    before, here = -1, queue.head
    while here != number:
        before, here = here, sim.ring[slot(sim, here)].next
    after = sim.ring[slot(sim, number)].next
    if before < 0:
        queue.head = after
    else:
        sim.ring[slot(sim, before)].next = after
    if after < 0:
        queue.tail = before
    queue.length -= 1


@kernel
def oldest_queued_s(sim: Sim, which: int) -> float:
    """When the longest waiting request of a queue joined it (its head, but for those that a fault has put back)."""
    oldest_s = sim.scalars[0].now
    number = sim.queues[which].head
    while number >= 0:
        request = sim.ring[slot(sim, number)]
        oldest_s = min(oldest_s, request.queued_s)
        number = request.next
    return oldest_s
