"""Which event is next: completions, capacity changes and faults, control, arrivals (model.md section 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from prfaas_env.simulator.compiled.accounts import integrate_decode, integrate_link, integrate_pool, integrate_waiting
from prfaas_env.simulator.compiled.jit import c_entry, kernel
from prfaas_env.simulator.compiled.life import (
    arrive,
    copied,
    fault,
    kv_ready,
    log_present,
    milestone,
    prefill_ended,
    sent,
)
from prfaas_env.simulator.compiled.link import backlog_bytes, caught_up, set_capacity
from prfaas_env.simulator.compiled.prefill import expected_wait_s
from prfaas_env.simulator.compiled.queues import oldest_queued_s, slot
from prfaas_env.simulator.compiled.roles import converted, steer
from prfaas_env.simulator.compiled.state import BOUND, FORWARD, LOCAL, READY, REMOTE, REVERSE, SIM, Sim
from prfaas_env.simulator.compiled.timers import (
    CATCH_UP,
    CONVERTED,
    COPIED,
    KV_READY,
    PREFILL_END,
    SENT,
    TOKEN,
    stop_timer,
)
from prfaas_env.simulator.signals import SIGNAL

__all__ = ["ADVANCE", "APPLY", "DONE", "DRAIN", "LOG", "MEASURE", "RING_FULL", "operate"]

DONE, RING_FULL = 0, 1

SIM_OF = SIM.of


@kernel
def _complete(sim: Sim) -> None:
    """Handle the first timer of the calendar."""
    g = sim.scalars[0]
    first = sim.timers[0]
    g.now = first.time_s
    order = first.order
    stop_timer(sim, first.id)
    number, stage = order >> 4, order & 15
    if stage == TOKEN:
        milestone(sim, number)
    elif stage == PREFILL_END:
        prefill_ended(sim, number)
    elif stage == KV_READY:
        kv_ready(sim, number)
    elif stage == CONVERTED:
        converted(sim)
    elif stage == COPIED:
        copied(sim, number)
    else:
        request = sim.ring[slot(sim, number)]
        if stage == CATCH_UP:
            caught_up(sim, request.link, request.flow)
        elif stage == SENT:
            sent(sim, request.link, request.flow)


@kernel
def advance(sim: Sim, until_s: float, drain: bool) -> int:
    """Run to ``until_s``: its completions, capacity changes and faults included, its arrivals not yet.

    With ``drain``, run until every request of the stream has left, or nothing can move any more. Returns ``DONE``, or
    ``RING_FULL`` if the ring must grow before the next arrival: call again after that.
    """
    g = sim.scalars[0]
    requests = sim.constants[0].requests
    while True:
        if drain and g.in_system == 0 and g.arrived_next >= requests:
            return DONE
        completion_s = sim.timers[0].time_s if g.timers > 0 else np.inf
        condition_s = np.inf
        if g.capacity_next < len(sim.capacity_times_s):
            condition_s = sim.capacity_times_s[g.capacity_next]
        is_fault = False
        if g.fault_next < len(sim.faults) and sim.faults[g.fault_next].time_s < condition_s:
            condition_s = sim.faults[g.fault_next].time_s
            is_fault = True
        arrival_s = sim.arrival_s[g.arrived_next] if g.arrived_next < requests else np.inf
        if completion_s <= condition_s and completion_s <= arrival_s:
            if completion_s > until_s or completion_s == np.inf:
                break
            _complete(sim)
        elif condition_s <= arrival_s:
            if condition_s > until_s:
                break
            g.now = condition_s
            if is_fault:
                g.fault_next += 1
                fault(sim, g.fault_next - 1)
            else:
                g.capacity_next += 1
                bps = sim.capacity_gbps[g.capacity_next - 1] * 1e9
                set_capacity(sim, FORWARD, bps)
                set_capacity(sim, REVERSE, bps)
        else:
            if arrival_s >= until_s:
                break
            if g.arrived_next - g.oldest >= len(sim.ring):
                return RING_FULL
            g.now = arrival_s
            if g.in_system == 0:
                g.oldest = g.arrived_next
            arrive(sim, g.arrived_next)
    if not drain:
        g.now = until_s
    return DONE


@kernel
def apply(sim: Sim, n_prefill: int, by_price: int, threshold_tokens: float, price_s: float, abundant: int) -> None:
    """Put a control in force, now."""
    g, c = sim.scalars[0], sim.constants[0]
    g.by_price = by_price
    g.threshold_tokens = threshold_tokens
    g.price_s = price_s
    g.abundant = abundant
    g.target = min(max(n_prefill, c.bound_low), c.bound_high)
    steer(sim)


@kernel
def measure(sim: Sim) -> None:
    """Write what happened since the last call into ``sim.signals`` (order of ``SIGNALS``) and ``sim.counts``."""
    signals = sim.signals
    integrate_waiting(sim)
    integrate_decode(sim)
    g = sim.scalars[0]
    now = g.now
    interval_s = now - g.interval_start_s
    signals[TIME_S] = now
    signals[INTERVAL_S] = interval_s
    signals[ARRIVED] = g.arrived
    signals[REJECTED] = g.rejected
    signals[ROUTED_REMOTE] = g.routed_remote
    signals[FIRST_TOKENS] = g.first_tokens
    signals[COMPLETED] = g.completed
    signals[COMPLETED_GOOD] = g.completed_good
    signals[COMPLETED_OUTPUT_TOKENS] = g.completed_output_tokens
    signals[TTFT_SUM_S] = g.ttft_sum_s
    signals[WAITING] = g.waiting
    signals[WAITING_INTEGRAL_S] = g.waiting_integral_s
    signals[WAITING_YOUNG_INTEGRAL_S] = g.young_integral_s
    _measure_pool(sim, REMOTE, signals, REMOTE_QUEUE)
    _measure_pool(sim, LOCAL, signals, LOCAL_QUEUE)

    integrate_link(sim, FORWARD)
    integrate_link(sim, REVERSE)
    link, back = sim.links[FORWARD], sim.links[REVERSE]
    signals[LINK_CAPACITY_GBPS] = link.capacity_bps / 1e9
    signals[LINK_CAPACITY_BYTES] = link.capacity_bytes
    signals[LINK_SENT_BYTES] = link.sent_bytes
    signals[LINK_RETURNED_BYTES] = back.sent_bytes
    signals[LINK_BACKLOG_BYTES] = backlog_bytes(sim, FORWARD)
    signals[LINK_FLOWS] = link.flows
    signals[LINK_CONGESTED_SHARE] = link.congested_s / interval_s if interval_s > 0 else 0.0
    link.sent_bytes = link.capacity_bytes = link.congested_s = 0.0
    back.sent_bytes = back.capacity_bytes = back.congested_s = 0.0

    oldest_s = oldest_queued_s(sim, READY)
    for i in range(len(sim.decoders) if g.waiting_bound > 0 else 0):
        oldest_s = min(oldest_s, oldest_queued_s(sim, BOUND + i))
    signals[DECODE_QUEUE] = sim.queues[READY].length + g.waiting_bound
    signals[DECODE_OLDEST_WAIT_S] = now - oldest_s
    signals[DECODE_ACTIVE] = g.active
    signals[DECODE_BUSY_SHARE] = g.active_integral_s / g.slot_integral_s if g.slot_integral_s > 0 else 0.0
    g.active_integral_s = g.slot_integral_s = 0.0

    signals[PREFILL_NODES] = sim.pools[LOCAL].members
    signals[DECODE_NODES] = g.admitting
    signals[CONVERTING_NODES] = (1 if g.draining >= 0 else 0) + (1 if g.converting >= 0 else 0)
    signals[CONVERSIONS] = g.conversions
    signals[FAILED_NODES] = g.failed_nodes
    signals[THRESHOLD_TOKENS] = 0.0 if g.by_price else g.threshold_tokens
    signals[PRICE_S] = g.price_s if g.by_price else 0.0
    signals[TARGET_PREFILL_NODES] = g.target

    g.arrived = g.rejected = g.routed_remote = g.first_tokens = 0
    g.completed = g.completed_good = g.completed_output_tokens = g.conversions = 0
    g.ttft_sum_s = g.waiting_integral_s = g.young_integral_s = 0.0
    g.interval_start_s = now
    for k in range(len(sim.bins)):
        sim.counts[k] = sim.bins[k]
        sim.bins[k] = 0


@kernel
def _measure_pool(sim: Sim, side: int, signals: np.ndarray, first: int) -> None:
    """Four signals of a prefill pool, in the order of ``SIGNALS``: queue, oldest wait, expected wait, busy share."""
    integrate_pool(sim, side)
    pool, queue = sim.pools[side], sim.queues[side]
    signals[first] = queue.length
    signals[first + 1] = sim.scalars[0].now - sim.ring[slot(sim, queue.head)].queued_s if queue.length > 0 else 0.0
    signals[first + 2] = expected_wait_s(sim, side) if pool.members > 0 else 0.0
    signals[first + 3] = pool.busy_integral_s / pool.member_integral_s if pool.member_integral_s > 0 else 0.0
    pool.busy_integral_s = pool.member_integral_s = 0.0


# The places of the signals, by name, as constants that the compiled code can hold.
TIME_S = SIGNAL["time_s"]
INTERVAL_S = SIGNAL["interval_s"]
ARRIVED = SIGNAL["arrived"]
REJECTED = SIGNAL["rejected"]
ROUTED_REMOTE = SIGNAL["routed_remote"]
FIRST_TOKENS = SIGNAL["first_tokens"]
COMPLETED = SIGNAL["completed"]
COMPLETED_GOOD = SIGNAL["completed_good"]
COMPLETED_OUTPUT_TOKENS = SIGNAL["completed_output_tokens"]
TTFT_SUM_S = SIGNAL["ttft_sum_s"]
WAITING = SIGNAL["waiting"]
WAITING_INTEGRAL_S = SIGNAL["waiting_integral_s"]
WAITING_YOUNG_INTEGRAL_S = SIGNAL["waiting_young_integral_s"]
REMOTE_QUEUE = SIGNAL["remote_queue"]
LOCAL_QUEUE = SIGNAL["local_queue"]
LINK_CAPACITY_GBPS = SIGNAL["link_capacity_gbps"]
LINK_CAPACITY_BYTES = SIGNAL["link_capacity_bytes"]
LINK_SENT_BYTES = SIGNAL["link_sent_bytes"]
LINK_RETURNED_BYTES = SIGNAL["link_returned_bytes"]
LINK_BACKLOG_BYTES = SIGNAL["link_backlog_bytes"]
LINK_FLOWS = SIGNAL["link_flows"]
LINK_CONGESTED_SHARE = SIGNAL["link_congested_share"]
DECODE_QUEUE = SIGNAL["decode_queue"]
DECODE_OLDEST_WAIT_S = SIGNAL["decode_oldest_wait_s"]
DECODE_ACTIVE = SIGNAL["decode_active"]
DECODE_BUSY_SHARE = SIGNAL["decode_busy_share"]
PREFILL_NODES = SIGNAL["prefill_nodes"]
DECODE_NODES = SIGNAL["decode_nodes"]
CONVERTING_NODES = SIGNAL["converting_nodes"]
CONVERSIONS = SIGNAL["conversions"]
FAILED_NODES = SIGNAL["failed_nodes"]
THRESHOLD_TOKENS = SIGNAL["threshold_tokens"]
PRICE_S = SIGNAL["price_s"]
TARGET_PREFILL_NODES = SIGNAL["target_prefill_nodes"]


# --- the one way in ---------------------------------------------------------------------------------------------------

APPLY, ADVANCE, DRAIN, MEASURE, LOG = range(5)


@c_entry("int64(CPointer(int64), int64, int64, int64, int64, float64, float64)")
def operate(table: Any, operation: int, i: int, j: int, k: int, x: float, y: float) -> int:
    """Do one thing on the run whose address table is ``table``.

    ``APPLY``: i, j, k = N_p, by price, abundant; x, y = threshold, price. ``ADVANCE``: x = until. It and ``DRAIN``
    return ``DONE`` or ``RING_FULL``. ``MEASURE`` writes ``sim.signals`` and ``sim.counts``, ``LOG`` the rows of the
    requests that are still in the system (those that have left are in the log already).
    """
    sim = SIM_OF(table)
    if operation == APPLY:
        apply(sim, i, j, x, y, k)
    elif operation == ADVANCE:
        return advance(sim, x, False)
    elif operation == DRAIN:
        return advance(sim, np.inf, True)
    elif operation == MEASURE:
        measure(sim)
    elif operation == LOG:
        log_present(sim)
    return DONE
