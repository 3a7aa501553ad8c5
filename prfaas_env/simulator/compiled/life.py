"""The life of a request (model.md section 2), step by step as in the reference engine."""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.compiled import cache
from prfaas_env.simulator.compiled.accounts import count_arrival, count_finish, count_first_token
from prfaas_env.simulator.compiled.decode import (
    admit,
    drop_first_sequence,
    fill,
    grant,
    is_empty,
    next_token_goal,
    plan_milestone,
    ready,
    reserve,
    unbind,
    unreserve,
)
from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.laws import (
    expected_exposed_transfer_s,
    kv_bytes,
    prefers_remote_by_price,
    service_s,
)
from prfaas_env.simulator.compiled.link import backlog_bytes, begin_flow, close_flow, flow_produced, sent_by_now
from prfaas_env.simulator.compiled.prefill import (
    dispatch,
    expected_wait_s,
    fail_prefill,
    join_pool,
    offer,
    put_back,
    rebuild_schedule,
    stop_running,
    submit,
)
from prfaas_env.simulator.compiled.queues import pop, slot
from prfaas_env.simulator.compiled.roles import claim, drained, fail_local, repair_local
from prfaas_env.simulator.compiled.state import BOUND, FORWARD, LOCAL, REMOTE, REVERSE, Sim
from prfaas_env.simulator.compiled.timers import COPIED, KV_READY, set_timer, stop_timer, timer_a, timer_b
from prfaas_env.simulator.log import COMPLETED, IN_SYSTEM, REJECTED

__all__: list[str] = []

TOO_LONG, TOO_LARGE, QUEUE_FULL = 1, 2, 3  # indices into REJECT_REASONS

# --- 1. arrival and 2. routing -------------------------------------------------------------------------------------


@kernel
def _goes_remote(sim: Sim, uncached: int, local_s: float, remote_s: float, size_bytes: float) -> bool:
    g, c = sim.scalars[0], sim.constants[0]
    if c.pinned >= 0:
        return c.pinned == REMOTE
    if not g.by_price:
        return uncached > g.threshold_tokens
    remote_wait_s = expected_wait_s(sim, REMOTE)
    exposed_s = expected_exposed_transfer_s(
        remote_wait_s,
        remote_s,
        size_bytes,
        backlog_bytes(sim, FORWARD),
        sim.links[FORWARD].capacity_bps,
        c.flow_cap_bps,
        c.delay_s,
        c.pipelined,
    )
    return prefers_remote_by_price(expected_wait_s(sim, LOCAL), local_s, remote_wait_s, remote_s, exposed_s, g.price_s)


@kernel
def _reject(sim: Sim, number: int, reason: int) -> None:
    g = sim.scalars[0]
    g.arrived += 1
    g.rejected += 1
    sim.ring[slot(sim, number)].present = 0
    log_request(sim, number, REJECTED, reason)


@kernel
def arrive(sim: Sim, number: int) -> None:
    """Prefix match, routing by the law in force, and on to the queue of a pool; or a refusal, with its reason."""
    g, c = sim.scalars[0], sim.constants[0]
    g.arrived_next = number + 1
    request = sim.ring[slot(sim, number)]
    tokens = sim.input_tokens[number]
    output = sim.output_tokens[number]
    request.number = number
    request.next = -1
    request.arrival_s = g.now
    request.input_tokens = tokens
    request.output_tokens = output
    request.service_class = sim.service_class[number]
    request.cached_tokens = 0
    request.remote = 0
    request.prefill_instance = -1
    request.decode_instance = -1
    request.flow = -1
    request.copying = 0
    request.mark = 0
    request.bound = 0
    request.kv_here = 0
    request.in_memory_queue = 0
    request.present = 1
    request.prefill_start_s = np.nan
    request.prefill_end_s = np.nan
    request.kv_ready_s = np.nan
    request.decode_start_s = np.nan
    request.first_token_s = np.nan
    request.finish_s = np.nan
    request.ttft_s = np.nan
    request.bytes_sent = 0.0
    request.bytes_returned = 0.0

    whole = tokens + output
    request.reserved_bytes = c.fixed_bytes + c.bytes_per_token * whole
    if whole > c.context_limit_tokens or request.reserved_bytes > c.memory_bytes:
        _reject(sim, number, TOO_LONG if whole > c.context_limit_tokens else TOO_LARGE)
        return

    local_prefix = remote_prefix = own_local = own_remote = held_tokens = 0
    prompt = cache.prompt_blocks(sim, number, tokens)
    if prompt > 0:
        held = cache.held_blocks(sim, LOCAL, number, prompt)
        held_tokens = min(held * c.block_tokens, tokens)
        own_local = local_prefix = cache.usable_tokens(sim, LOCAL, number, held, tokens)
        held = cache.held_blocks(sim, REMOTE, number, prompt)
        own_remote = remote_prefix = cache.usable_tokens(sim, REMOTE, number, held, tokens)
        if g.abundant and c.pinned < 0:
            local_prefix = remote_prefix = max(local_prefix, remote_prefix)
    pieces = sim.cubic.shape[0] // 2
    local_s = service_s(sim.cubic[:pieces], tokens, local_prefix)
    remote_s = service_s(sim.cubic[pieces:], tokens, remote_prefix)
    size = kv_bytes(c.fixed_bytes, c.bytes_per_token, tokens, held_tokens)
    uncached = tokens - local_prefix
    remote = 1 if _goes_remote(sim, uncached, local_s, remote_s, size) else 0
    side = REMOTE if remote else LOCAL
    request.remote = remote
    request.cached_tokens = remote_prefix if remote else local_prefix
    request.service_s = remote_s if remote else local_s
    request.kv_bytes = size if remote else kv_bytes(c.fixed_bytes, c.bytes_per_token, tokens, 0)
    if sim.queues[side].length >= c.queue_limit:
        _reject(sim, number, QUEUE_FULL)
        return
    count_arrival(sim, remote, uncached)
    if request.cached_tokens > 0:
        cache.touch(sim, side, number, (request.cached_tokens + c.block_tokens - 1) // c.block_tokens)
    missing = request.cached_tokens - (own_remote if remote else own_local)
    if missing > 0:
        # Section 5, abundant rule: the missing part of the prefix, and its state, comes across the link first.
        request.copying = 1
        copy = kv_bytes(c.fixed_bytes, c.bytes_per_token, missing, 0)
        begin_flow(sim, REVERSE if remote else FORWARD, number, copy, g.now, g.now)
    else:
        submit(sim, side, number)


# --- 3. prefill and 4. KV transfer ---------------------------------------------------------------------------------


@kernel
def free_instance(sim: Sim, side: int, instance: int) -> None:
    """An instance has nothing to do: a conversion may claim it, else it takes the head of the queue."""
    stop_running(sim, side, instance)
    if side == LOCAL and claim(sim, instance):
        return
    offer(sim, side, instance)


@kernel
def sent(sim: Sim, direction: int, k: int) -> None:
    """The last byte of a flow has left: of KV, which is here one one-way delay later, or of a prefix copy."""
    c = sim.constants[0]
    flow = sim.flows[direction, k]
    number, size = flow.number, flow.size_bytes
    request = sim.ring[slot(sim, number)]
    close_flow(sim, direction, k)
    if direction == FORWARD:
        request.bytes_sent += size
    else:
        request.bytes_returned += size
    arrives_s = sim.scalars[0].now + c.delay_s
    if request.copying:
        request.copying = 0
        set_timer(sim, timer_a(sim, number), arrives_s, number * 16 + COPIED)
        return
    if not c.pipelined:
        free_instance(sim, REMOTE, request.prefill_instance)
    set_timer(sim, timer_b(sim, number), arrives_s, number * 16 + KV_READY)


@kernel
def copied(sim: Sim, number: int) -> None:
    submit(sim, REMOTE if sim.ring[slot(sim, number)].remote else LOCAL, number)


@kernel
def prefill_ended(sim: Sim, number: int) -> None:
    request = sim.ring[slot(sim, number)]
    side = REMOTE if request.remote else LOCAL
    if not sim.constants[0].pipelined:
        reserve(sim, number)  # the instance stays busy until the KV has left
        return
    instance = request.prefill_instance
    if request.remote and request.flow >= 0:
        if sim.flows[FORWARD, request.flow].caught_up:
            sent(sim, FORWARD, request.flow)
        else:
            flow_produced(sim, FORWARD, request.flow)
    free_instance(sim, side, instance)


@kernel
def kv_ready(sim: Sim, number: int) -> None:
    request = sim.ring[slot(sim, number)]
    if not request.remote and not sim.constants[0].pipelined:
        free_instance(sim, LOCAL, request.prefill_instance)
    ready(sim, number)


# --- 5. decode and 6. completion -----------------------------------------------------------------------------------


@kernel
def milestone(sim: Sim, number: int) -> None:
    """A sequence shows its first token, or its last."""
    g = sim.scalars[0]
    request = sim.ring[slot(sim, number)]
    instance = request.decode_instance
    decoder = sim.decoders[instance]
    decoder.clock = max(sim.sequences[instance, 0].goal, decoder.clock)
    decoder.since_s = g.now
    if np.isnan(request.first_token_s):
        ttft_s = g.now - request.arrival_s + sim.constants[0].ttft_overhead_s
        count_first_token(sim, number, ttft_s)
        request.first_token_s = g.now
        request.ttft_s = ttft_s
        if request.output_tokens > 1:
            next_token_goal(sim, instance, request.decode_from + request.output_tokens, number)
            return
    _finish(sim, number, instance)


@kernel
def _finish(sim: Sim, number: int, instance: int) -> None:
    g, c = sim.scalars[0], sim.constants[0]
    request = sim.ring[slot(sim, number)]
    request.finish_s = g.now
    drop_first_sequence(sim, instance)
    if c.limited:
        unbind(sim, number)
        if sim.queues[BOUND + instance].length > 0:
            g.waiting_bound -= 1
            admit(sim, pop(sim, BOUND + instance), instance)
    plan_milestone(sim, instance)

    steps = request.output_tokens - 1
    tpot_s = (request.finish_s - request.first_token_s) / steps if steps else 0.0
    count_finish(sim, request.output_tokens, request.service_class, request.ttft_s, tpot_s)
    known = cache.context_blocks(sim, number)
    if known > 0:
        # The local cluster keeps the whole context, the remote one the input that it prefilled.
        prompt = cache.prompt_blocks(sim, number, request.input_tokens)
        tokens = request.input_tokens + (request.output_tokens if known > prompt else 0)
        cache.insert(sim, LOCAL, number, min(tokens // c.block_tokens, known))
        if request.remote:
            cache.insert(sim, REMOTE, number, min(request.input_tokens // c.block_tokens, prompt))
    log_request(sim, number, COMPLETED, 0)
    request.present = 0
    while g.oldest < g.arrived_next and not sim.ring[slot(sim, g.oldest)].present:
        g.oldest += 1

    grant(sim)
    fill(sim)
    if not sim.decoders[instance].admitting and is_empty(sim, instance):
        drained(sim, instance)


# --- 6. faults -----------------------------------------------------------------------------------------------------


@kernel
def _throw_back(sim: Sim, number: int) -> None:
    """Work on a failed prefill instance is lost: what the request had sent is wasted, what it had reserved is free."""
    request = sim.ring[slot(sim, number)]
    if request.flow >= 0:
        wasted = sent_by_now(sim, FORWARD, request.flow)
        close_flow(sim, FORWARD, request.flow)
        request.bytes_sent += wasted
    stop_timer(sim, timer_a(sim, number))
    stop_timer(sim, timer_b(sim, number))
    if sim.constants[0].limited:
        unreserve(sim, number)


@kernel
def fail_remote(sim: Sim, instance: int) -> None:
    """Its running request, and those whose KV it still sends, go back to the head of the queue."""
    g = sim.scalars[0]
    if sim.instances[REMOTE, instance].failed:
        return
    sim.instances[REMOTE, instance].failed = 1
    g.failed_nodes += 1
    for k in range(sim.links[FORWARD].flows):
        flow = sim.flows[FORWARD, k]
        request = sim.ring[slot(sim, flow.number)]
        if request.remote and request.prefill_instance == instance and flow.end_s <= g.now:
            request.mark = 1
    running = fail_prefill(sim, REMOTE, instance)
    if running >= 0:
        sim.ring[slot(sim, running)].mark = 1
    _throw_back_marked(sim, REMOTE)


@kernel
def _throw_back_marked(sim: Sim, side: int) -> None:
    g = sim.scalars[0]
    for number in range(g.oldest, g.arrived_next):
        if sim.ring[slot(sim, number)].mark:
            _throw_back(sim, number)
    for number in range(g.arrived_next - 1, g.oldest - 1, -1):
        request = sim.ring[slot(sim, number)]
        if request.mark:
            request.mark = 0
            put_back(sim, side, number)
    rebuild_schedule(sim, side)
    dispatch(sim, side)


@kernel
def repair_remote(sim: Sim, instance: int) -> None:
    if sim.instances[REMOTE, instance].failed:
        sim.instances[REMOTE, instance].failed = 0
        sim.scalars[0].failed_nodes -= 1
        join_pool(sim, REMOTE, instance)


@kernel
def fault(sim: Sim, k: int) -> None:
    event = sim.faults[k]
    if event.remote:
        if event.up:
            repair_remote(sim, event.instance)
        else:
            fail_remote(sim, event.instance)
    elif event.up:
        repair_local(sim, event.instance)
    else:
        lost = fail_local(sim, event.instance)
        if lost >= 0:
            sim.ring[slot(sim, lost)].mark = 1
        _throw_back_marked(sim, LOCAL)


# --- the log -------------------------------------------------------------------------------------------------------


@kernel
def log_request(sim: Sim, number: int, status: int, reason: int) -> None:
    """Write a request's row, if a log is kept."""
    if len(sim.log) == 0:
        return
    request, row = sim.ring[slot(sim, number)], sim.log[number]
    row.cached_tokens = request.cached_tokens
    row.remote = request.remote
    row.prefill_instance = request.prefill_instance
    row.decode_instance = request.decode_instance
    row.prefill_start_s = request.prefill_start_s
    row.prefill_end_s = request.prefill_end_s
    row.kv_ready_s = request.kv_ready_s
    row.decode_start_s = request.decode_start_s
    row.first_token_s = request.first_token_s
    row.finish_s = request.finish_s
    row.ttft_s = request.ttft_s
    row.bytes_sent = request.bytes_sent
    row.bytes_returned = request.bytes_returned
    row.status = status
    row.reject_reason = reason


@kernel
def log_present(sim: Sim) -> None:
    """Rows of the requests that are still in the system."""
    g = sim.scalars[0]
    for number in range(g.oldest, g.arrived_next):
        if sim.ring[slot(sim, number)].present:
            log_request(sim, number, IN_SYSTEM, 0)
