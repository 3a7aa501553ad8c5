"""The whole state of a run as flat arrays: what a kernel works on, what a snapshot copies.

One :class:`Sim` holds everything. Its first fields are the *state*, which changes and which a snapshot copies; the rest
are the *inputs*, which do not. Requests in the system live in a ring, request k in slot ``k & (len(ring) - 1)``: the
ring is as long as the span from the oldest to the newest of them, and grows when that does. Nothing is ever allocated
inside a kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prfaas_env.deployment import Deployment, PrefixCache
from prfaas_env.profiles import GIB
from prfaas_env.simulator.compiled.handle import Field, HandleKind
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNALS
from prfaas_env.workload.stream import RequestStream

__all__ = ["LOCAL", "REMOTE", "SIM", "STATE_FIELDS", "Sim", "allocate", "grown", "timer_count"]

LOCAL, REMOTE = 0, 1  # rows of the per-cluster arrays; as links: LOCAL → REMOTE is the reverse direction
FORWARD, REVERSE = 0, 1
READY, MEMORY, BOUND = 2, 3, 4  # queues after those of the pools


def _record(**fields: str) -> np.dtype:
    return np.dtype(list(fields.items()), align=True)


SCALARS = _record(
    now="f8",
    arrived_next="i8",  # requests of the stream that have arrived = number of the next
    capacity_next="i8",
    fault_next="i8",
    timers="i8",  # pending events
    oldest="i8",  # no request below this number is in the system
    in_system="i8",
    # control in force
    by_price="i8",
    threshold_tokens="f8",
    price_s="f8",
    abundant="i8",
    # roles
    target="i8",
    awaiting_prefill_node="i8",
    draining="i8",
    converting="i8",
    converting_to_prefill="i8",
    failed_prefill="i8",  # failed nodes that come back as prefill nodes
    failed_nodes="i8",
    # decode
    active="i8",
    admitting="i8",  # instances that admit
    decoding="i8",  # instances that admit or have sequences
    waiting_bound="i8",  # requests that wait for a slot of the instance that holds their memory
    decode_since_s="f8",
    active_integral_s="f8",
    slot_integral_s="f8",
    # accounts
    interval_start_s="f8",
    waiting="i8",
    waiting_since_s="f8",
    waiting_integral_s="f8",
    young="i8",
    young_next="i8",  # requests below this number have lost their patience
    young_integral_s="f8",
    arrived="i8",
    rejected="i8",
    routed_remote="i8",
    first_tokens="i8",
    completed="i8",
    completed_good="i8",
    completed_output_tokens="i8",
    conversions="i8",
    ttft_sum_s="f8",
)

REQUEST = _record(
    number="i8",
    next="i8",  # the request behind it in the one queue that it stands in
    arrival_s="f8",
    input_tokens="i8",
    output_tokens="i8",
    service_class="i8",
    cached_tokens="i8",
    remote="i8",
    prefill_instance="i8",
    decode_instance="i8",
    flow="i8",  # its place among the flows of its link, −1 without one
    link="i8",
    copying="i8",
    mark="i8",
    bound="i8",
    kv_here="i8",
    in_memory_queue="i8",
    present="i8",
    prefill_start_s="f8",
    prefill_end_s="f8",
    kv_ready_s="f8",
    decode_start_s="f8",
    first_token_s="f8",
    finish_s="f8",
    ttft_s="f8",
    bytes_sent="f8",
    bytes_returned="f8",
    service_s="f8",
    kv_bytes="f8",
    reserved_bytes="f8",
    queued_s="f8",
    decode_from="f8",
)

TIMER = _record(time_s="f8", order="i8", id="i8")
QUEUE = _record(head="i8", tail="i8", length="i8")
POOL = _record(
    members="i8",
    running="i8",
    idle="i8",
    since_s="f8",
    busy_integral_s="f8",
    member_integral_s="f8",
)
# Three things that a pool has one of per instance; `idle` and `free_at_s` are heaps of their own length.
INSTANCE = _record(running="i8", member="i8", failed="i8", back_to_prefill="i8", idle="i8", free_at_s="f8")
DECODER = _record(
    clock="f8",
    since_s="f8",
    active="i8",
    admitting="i8",
    bound="i8",
    free_bytes="f8",
    heap_place="i8",  # place in the heap of instances by load, −1 if it does not admit
    by_load="i8",  # that heap: instance numbers, fewest active first
)
SEQUENCE = _record(goal="f8", number="i8")
LINK = _record(
    flows="i8",
    behind="i8",
    capacity_bps="f8",
    total_rate_bps="f8",
    congested="i8",
    since_s="f8",
    sent_bytes="f8",
    capacity_bytes="f8",
    congested_s="f8",
)
FLOW = _record(
    number="i8",
    caught_up="i8",
    planned="i8",
    size_bytes="f8",
    start_s="f8",
    end_s="f8",
    production_bps="f8",
    sent_bytes="f8",
    since_s="f8",
    rate_bps="f8",
)
# A doubly linked list; the last entry is its anchor. Small, since there is one a block of the stream.
CACHE = _record(newer="i4", older="i4", held="i1", state="i1")
CACHE_TOTALS = _record(used_bytes="f8")

CONSTANTS = _record(
    requests="i8",
    pinned="i8",  # −1 free, else the cluster that every request goes to
    pipelined="i8",
    limited="i8",
    queue_limit="i8",
    context_limit_tokens="i8",
    slots="i8",
    bound_low="i8",
    bound_high="i8",
    block_tokens="i8",
    delay_s="f8",
    flow_cap_bps="f8",
    fabric_bps="f8",
    conversion_s="f8",
    ttft_overhead_s="f8",
    patience_s="f8",
    memory_bytes="f8",
    fixed_bytes="f8",
    bytes_per_token="f8",
)
FAULT = _record(time_s="f8", remote="i8", instance="i8", up="i8")
CACHE_CONSTANTS = _record(capacity_bytes="f8", block_bytes="f8", state_bytes="f8")


class Sim(NamedTuple):
    """Arrays of one run; shapes in brackets."""

    # state
    scalars: np.ndarray  # (1,) SCALARS
    ring: np.ndarray  # (2^k,) REQUEST
    timers: np.ndarray  # (timer_count,) TIMER: a binary heap
    timer_place: np.ndarray  # (timer_count,) where a timer is in the heap, −1 if it does not run
    queues: np.ndarray  # (4 + local instances,) QUEUE, see queues.py
    pools: np.ndarray  # (2,) POOL
    instances: np.ndarray  # (2, most instances) INSTANCE
    decoders: np.ndarray  # (local instances,) DECODER
    sequences: np.ndarray  # (local instances, slots) SEQUENCE: a heap an instance
    links: np.ndarray  # (2,) LINK
    flows: np.ndarray  # (2, ring) FLOW
    bins: np.ndarray  # (bins,) int64
    cache: np.ndarray  # (2, blocks + 1) CACHE
    cache_totals: np.ndarray  # (2,) CACHE_TOTALS
    caps: np.ndarray  # (ring,) scratch of the link
    signals: np.ndarray  # (signals,) what the last measurement gave
    counts: np.ndarray  # (bins,) its length counts, int64
    # inputs
    constants: np.ndarray  # (1,) CONSTANTS
    cubic: np.ndarray  # (2 × pieces, 5) prefill tables, local then remote, padded with pieces that begin at infinity
    step_s: np.ndarray  # (slots + 1,)
    cache_constants: np.ndarray  # (2,) CACHE_CONSTANTS
    objectives: np.ndarray  # (2, classes): TTFT, TPOT
    arrival_s: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    service_class: np.ndarray
    hash_offsets: np.ndarray
    block_hashes: np.ndarray
    capacity_times_s: np.ndarray
    capacity_gbps: np.ndarray
    faults: np.ndarray
    log: np.ndarray  # (requests,) LOG, or (0,)


# What the kernel writes of a request when it leaves; the rest of REQUEST_DTYPE follows from the stream.
LOG = _record(
    cached_tokens="i8",
    remote="i8",
    prefill_instance="i8",
    decode_instance="i8",
    prefill_start_s="f8",
    prefill_end_s="f8",
    kv_ready_s="f8",
    decode_start_s="f8",
    first_token_s="f8",
    finish_s="f8",
    ttft_s="f8",
    bytes_sent="f8",
    bytes_returned="f8",
    status="i8",
    reject_reason="i8",
)


FLOAT, INT = np.dtype(np.float64), np.dtype(np.int64)
FIELDS: tuple[Field, ...] = (
    Field("scalars", SCALARS, 1),
    Field("ring", REQUEST, 1),
    Field("timers", TIMER, 1),
    Field("timer_place", INT, 1),
    Field("queues", QUEUE, 1),
    Field("pools", POOL, 1),
    Field("instances", INSTANCE, 2),
    Field("decoders", DECODER, 1),
    Field("sequences", SEQUENCE, 2),
    Field("links", LINK, 1),
    Field("flows", FLOW, 2),
    Field("bins", INT, 1),
    Field("cache", CACHE, 2),
    Field("cache_totals", CACHE_TOTALS, 1),
    Field("caps", FLOAT, 1),
    Field("signals", FLOAT, 1),
    Field("counts", INT, 1),
    Field("constants", CONSTANTS, 1),
    Field("cubic", FLOAT, 2),
    Field("step_s", FLOAT, 1),
    Field("cache_constants", CACHE_CONSTANTS, 1),
    Field("objectives", FLOAT, 2),
    Field("arrival_s", FLOAT, 1),
    Field("input_tokens", INT, 1),
    Field("output_tokens", INT, 1),
    Field("service_class", INT, 1),
    Field("hash_offsets", INT, 1),
    Field("block_hashes", INT, 1),
    Field("capacity_times_s", FLOAT, 1),
    Field("capacity_gbps", FLOAT, 1),
    Field("faults", FAULT, 1),
    Field("log", LOG, 1),
)
STATE_FIELDS = Sim._fields[: Sim._fields.index("constants")]
SIM = HandleKind("SimHandle", FIELDS)


def timer_count(local_instances: int, ring: int) -> int:
    """Timers: one a decode instance, one for the conversion, two a request."""
    return local_instances + 1 + 2 * ring


def _padded_cubics(tables: list[np.ndarray]) -> np.ndarray:
    pieces = max(len(t) for t in tables)
    padded = np.zeros((len(tables) * pieces, 5))
    padded[:, 0] = np.inf
    for k, table in enumerate(tables):
        padded[k * pieces : k * pieces + len(table)] = table
    return padded


def allocate(
    deployment: Deployment,
    stream: RequestStream,
    capacity: CapacityTimeline,
    faults: FaultTimeline,
    objectives: Objectives,
    patience_s: float,
    keep_log: bool,
    ring: int = 256,
) -> Sim:
    """Arrays for a run at time 0, nothing in force yet."""
    local, remote, link = deployment.local, deployment.remote, deployment.link
    remote_profile = remote.profile if remote else local.profile
    remote_instances = remote.instances if remote else 0
    most = max(local.instances, remote_instances)
    n = len(stream)

    constants = np.zeros(1, dtype=CONSTANTS)
    row = constants[0]
    row["requests"] = n
    row["pinned"] = {None: -1, "local": LOCAL, "remote": REMOTE}[deployment.route_pinned]
    row["pipelined"] = deployment.layerwise_pipelining
    row["limited"] = np.isfinite(local.profile.hbm_for_kv_bytes)
    row["queue_limit"] = deployment.queue_limit_requests or np.iinfo(np.int64).max
    row["context_limit_tokens"] = min(local.profile.context_limit_tokens, remote_profile.context_limit_tokens)
    row["slots"] = local.profile.decode.slots
    row["bound_low"], row["bound_high"] = deployment.prefill_bounds
    row["block_tokens"] = stream.block_tokens
    row["delay_s"] = link.one_way_delay_s if link else 0.0
    row["flow_cap_bps"] = link.flow_cap_gbps * 1e9 if link else 0.0
    row["fabric_bps"] = deployment.fabric_gbps * 1e9
    row["conversion_s"] = deployment.conversion_s
    row["ttft_overhead_s"] = deployment.ttft_overhead_s
    row["patience_s"] = patience_s
    row["memory_bytes"] = local.profile.hbm_for_kv_bytes
    row["fixed_bytes"] = local.profile.kv.fixed_bytes
    row["bytes_per_token"] = local.profile.kv.bytes_per_token

    cache_constants = np.zeros(2, dtype=CACHE_CONSTANTS)
    caches = {LOCAL: (local.profile, local.cache), REMOTE: (remote_profile, remote.cache if remote else PrefixCache())}
    for side, (profile, cache) in caches.items():
        cache_constants[side]["capacity_bytes"] = cache.capacity_gib * GIB
        cache_constants[side]["block_bytes"] = profile.kv.bytes_per_token * stream.block_tokens
        cache_constants[side]["state_bytes"] = profile.kv.fixed_bytes if profile.attention == "hybrid" else 0.0

    timeline = np.zeros(len(faults.times_s), dtype=FAULT)
    for name in ("time_s", "remote", "instance", "up"):
        timeline[name] = getattr(faults, "times_s" if name == "time_s" else name)

    cached = bool((cache_constants["capacity_bytes"] > 0).any()) and len(stream.block_hashes) > 0
    blocks = int(stream.block_hashes.max()) + 1 if cached else 0

    scalars = np.zeros(1, dtype=SCALARS)
    scalars[0]["draining"] = scalars[0]["converting"] = -1
    timers = timer_count(local.instances, ring)
    pools = np.zeros(2, dtype=POOL)
    queues = np.zeros(BOUND + local.instances, dtype=QUEUE)
    queues["head"] = queues["tail"] = -1
    instances = np.zeros((2, most), dtype=INSTANCE)
    instances["running"] = -1
    for side, count in ((LOCAL, local.prefill), (REMOTE, remote_instances)):
        pools[side]["members"] = pools[side]["idle"] = count
        instances[side, :count]["member"] = 1
        instances[side, :count]["idle"] = np.arange(count)
    decoders = np.zeros(local.instances, dtype=DECODER)
    decoders["heap_place"] = -1
    decoders["free_bytes"] = local.profile.hbm_for_kv_bytes
    decoders["admitting"][local.prefill :] = 1
    decoders["heap_place"][local.prefill :] = np.arange(local.decode)
    decoders["by_load"][: local.decode] = np.arange(local.prefill, local.instances)
    scalars[0]["admitting"] = scalars[0]["decoding"] = local.decode
    links = np.zeros(2, dtype=LINK)
    links["capacity_bps"] = link.capacity_gbps * 1e9 if link else 0.0
    cache_list = np.zeros((2, blocks + 1), dtype=CACHE)
    cache_list[:, blocks] = (blocks, blocks, 0, 0)  # an empty ring of the anchor alone

    if link:
        links["capacity_bps"] = capacity.gbps[0] * 1e9
    classes = np.array([objectives.ttft_s, objectives.tpot_s], dtype=np.float64)
    return Sim(
        scalars=scalars,
        ring=np.zeros(ring, dtype=REQUEST),
        timers=np.zeros(timers, dtype=TIMER),
        timer_place=np.full(timers, -1, dtype=np.int64),
        queues=queues,
        pools=pools,
        instances=instances,
        decoders=decoders,
        sequences=np.zeros((local.instances, local.profile.decode.slots), dtype=SEQUENCE),
        links=links,
        flows=np.zeros((2, ring), dtype=FLOW),
        bins=np.zeros(len(LENGTH_BIN_CENTRES_TOKENS), dtype=np.int64),
        cache=cache_list,
        cache_totals=np.zeros(2, dtype=CACHE_TOTALS),
        caps=np.zeros(ring),
        signals=np.zeros(len(SIGNALS)),
        counts=np.zeros(len(LENGTH_BIN_CENTRES_TOKENS), dtype=np.int64),
        constants=constants,
        cubic=_padded_cubics([local.profile.prefill.cubic, remote_profile.prefill.cubic]),
        step_s=local.profile.decode.step_s,
        cache_constants=cache_constants,
        objectives=classes,
        arrival_s=stream.arrival_s,
        input_tokens=stream.input_tokens,
        output_tokens=stream.output_tokens,
        service_class=stream.service_class,
        hash_offsets=stream.hash_offsets if cached else np.zeros(1, dtype=np.int64),
        block_hashes=stream.block_hashes if cached else np.zeros(0, dtype=np.int64),
        capacity_times_s=capacity.times_s if link else np.zeros(1),
        capacity_gbps=capacity.gbps if link else np.zeros(1),
        faults=timeline,
        log=np.zeros(n if keep_log else 0, dtype=LOG),
    )


def grown(sim: Sim) -> Sim:
    """The same run with a ring twice as long: every request, timer and flow in its new place."""
    old, new = len(sim.ring), 2 * len(sim.ring)
    fixed = len(sim.decoders) + 1
    ring = np.zeros(new, dtype=REQUEST)
    first, last = int(sim.scalars[0]["oldest"]), int(sim.scalars[0]["arrived_next"])
    numbers = np.arange(max(first, last - old), last)
    ring[numbers & (new - 1)] = sim.ring[numbers & (old - 1)]

    timers = np.zeros(timer_count(len(sim.decoders), new), dtype=TIMER)
    pending = int(sim.scalars[0]["timers"])
    timers[:pending] = sim.timers[:pending]
    moved = timers["id"][:pending]
    slot, kind = np.divmod(moved - fixed, 2)
    number = sim.ring["number"][np.clip(slot, 0, old - 1)]
    moved[:] = np.where(moved < fixed, moved, fixed + 2 * (number & (new - 1)) + kind)
    place = np.full(len(timers), -1, dtype=np.int64)
    place[moved] = np.arange(pending)

    flows = np.zeros((2, new), dtype=FLOW)
    flows[:, :old] = sim.flows
    return sim._replace(ring=ring, timers=timers, timer_place=place, flows=flows, caps=np.zeros(new))
