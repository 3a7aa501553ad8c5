"""Hypothesis strategies for whole runs: deployment, stream, link capacity and controls, small and nasty.

Numbers come from two families, mixed freely: *dyadic* ones (eighths of a second, powers of two of bytes and bits), from
which many events fall on exactly one instant, and *free* floats, from which none do. Everything that a run needs is in
one :class:`Case`, so that one engine can be held to the laws and two engines to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from prfaas_env.deployment import Deployment, Link, LocalCluster, PrefixCache, RemoteCluster
from prfaas_env.profiles import GIB, DecodeTable, KvSize, PrefillTable, Profile, Provenance
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.workload.stream import RequestStream

__all__ = [
    "ASSUMED",
    "Case",
    "capacity_timelines",
    "cases",
    "control_sequences",
    "controls",
    "crowds",
    "deployments",
    "fault_timelines",
    "prefix_streams",
    "profiles",
    "streams",
]

ASSUMED = dict.fromkeys(
    ("prefill", "kv", "decode", "price_usd_per_hour", "context_limit_tokens"),
    Provenance("a test", "assumed", "2026-01"),
)

LENGTHS_TOKENS = (1, 2, 1023, 1024, 2048, 4096, 8192, 19_400, 32_768, 131_072, 1_048_575)
EIGHTHS_S = st.integers(0, 24).map(lambda k: k / 8)


@dataclass(frozen=True, eq=False)
class Case:
    """One run: what ``make_engine`` takes, and the controls to apply with their times (increasing, > 0)."""

    deployment: Deployment
    stream: RequestStream
    capacity: CapacityTimeline | None
    objectives: Objectives
    start: Control | None
    controls: tuple[tuple[float, Control], ...]
    patience_s: float = 4.0
    faults: FaultTimeline | None = None


@st.composite
def prefill_tables(draw: st.DrawFn) -> PrefillTable:
    """A dyadic line (an eighth of a second per 1,024 tokens times a power of two), or a free convex-or-not curve."""
    if draw(st.booleans()):
        slope = draw(st.sampled_from((1 / 64, 1 / 8, 1.0)))  # s per 1,024 tokens
        fixed = draw(st.sampled_from((0.0, 1 / 8, 1 / 2)))
        return PrefillTable((1024.0, 8192.0), (fixed + slope, fixed + 8 * slope))
    steps = draw(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=4))
    lengths = [1024.0 * 4**k for k in range(len(steps) + 1)]
    # The line through the first two knots must not be negative at 0: its rise over the first gap is 3/1 of that below.
    first = steps[0] / 3 + draw(st.floats(0.0, 1.0))
    return PrefillTable(tuple(lengths), tuple(first + np.concatenate([[0.0], np.cumsum(steps)])))


@st.composite
def decode_tables(draw: st.DrawFn) -> DecodeTable:
    """1 to 4 slots; the step time is constant, or rises with the batch."""
    slots = draw(st.integers(1, 4))
    unit = draw(st.sampled_from((125.0, 15.625, 25.0)) | st.floats(1.0, 500.0))
    rises = draw(st.lists(st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0.0, 2.0), min_size=0, max_size=slots - 1))
    return DecodeTable(
        slots, tuple(range(1, len(rises) + 2)), tuple(unit * (1 + np.concatenate([[0.0], np.cumsum(rises)])))
    )


kv_sizes = st.builds(
    KvSize,
    fixed_mib=st.sampled_from((0.0, 16.0, 173.906)),
    bytes_per_token=st.sampled_from((0.0, 16_384.0, 17_280.0, 524_288.0)),
)


@st.composite
def profiles(draw: st.DrawFn, kv: KvSize, attention: str) -> Profile:
    """A profile; its KV memory is unlimited, or has room for 1 to 20 requests of middling length."""
    hbm_gib = None
    middling = float(kv.size_bytes(8192)) / GIB
    if middling > 0 and draw(st.booleans()):
        hbm_gib = middling * draw(st.sampled_from((1.0, 1.5, 4.0, 20.0)))
    return Profile(
        name="random",
        model="random",
        instance="random",
        context_limit_tokens=draw(st.sampled_from((20_000, 1_100_000))),
        prefill=draw(prefill_tables()),
        kv=kv,
        decode=draw(decode_tables()),
        price_usd_per_hour=1.0,
        provenance=ASSUMED,
        attention=attention,
        hbm_for_kv_gib=hbm_gib,
    )


@st.composite
def links(draw: st.DrawFn) -> Link:
    """From far too thin to ample; the flow cap from a fraction of the line to more than all of it."""
    capacity = draw(st.sampled_from((0.25, 1.0, 8.0, 100.0)) | st.floats(0.05, 50.0))
    return Link(
        capacity_gbps=capacity,
        one_way_delay_ms=draw(st.sampled_from((0.0, 5.0, 125.0))),
        connections_per_flow=draw(st.sampled_from((1, 2))),
        gbps_per_connection=capacity * draw(st.sampled_from((0.125, 0.25, 1.0, 4.0))),
        price_usd_per_gb=0.0,
    )


@st.composite
def deployments(draw: st.DrawFn, caches: bool = False) -> Deployment:
    """1 to 6 local instances, none or 1 to 4 remote ones, in every design that is valid."""
    has_remote = draw(st.sampled_from((True, True, False)))
    # One model: its KV is the same on both sides.
    own = profiles(draw(kv_sizes), draw(st.sampled_from(("full", "hybrid"))))
    instances = draw(st.integers(1 if has_remote else 2, 6))
    cache = st.sampled_from((0.0, 0.25, 2.0, 64.0, 64.0)).map(PrefixCache) if caches else st.just(PrefixCache())
    return Deployment(
        name="random",
        local=LocalCluster(
            draw(own),
            instances,
            draw(st.integers(0 if has_remote else 1, instances - 1)),
            draw(cache),
        ),
        remote=RemoteCluster(draw(own), draw(st.integers(1, 4)), draw(cache)) if has_remote else None,
        link=draw(links()) if has_remote else None,
        threshold_tokens=draw(st.sampled_from((0.0, 1024.0, 8192.0, 1e9))),
        fabric_gbps=draw(st.sampled_from((8.0, 800.0))),
        ttft_overhead_s=draw(st.sampled_from((0.0, 0.07))),
        conversion_s=draw(st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0.0, 5.0)),
        layerwise_pipelining=draw(st.booleans()),
    )


GAPS_S = st.just(0.0) | st.sampled_from((1 / 8, 1 / 4, 1.0, 4.0)) | st.floats(0.0, 3.0)
INPUT_TOKENS = st.sampled_from(LENGTHS_TOKENS) | st.integers(1, 40_000)
OUTPUT_TOKENS = st.sampled_from((1, 1, 2, 3, 8)) | st.integers(1, 60)


def rows_of(row: st.SearchStrategy, most: int) -> st.SearchStrategy[list]:
    """Lists of 0 to ``most`` rows, every size alike (plain lists would mostly be short)."""
    return st.integers(0, most).flatmap(lambda n: st.lists(row, min_size=n, max_size=n))


# A request of a plain stream: gap, input, output, service class; of conversations: gap, session (−1: none), new tokens,
# output, whether the user has edited the conversation so far.
PLAIN_ROW = st.tuples(GAPS_S, INPUT_TOKENS, OUTPUT_TOKENS, st.integers(0, 1))
TURN_GAPS_S = GAPS_S | st.just(8.0)  # long enough for most turns to end
TURN_ROW = st.tuples(TURN_GAPS_S, st.integers(-1, 3), st.integers(1, 3000), OUTPUT_TOKENS, st.booleans())


def plain_stream(rows: list[tuple]) -> RequestStream:
    gaps, inputs, outputs, classes = zip(*rows, strict=True) if rows else ((), (), (), ())
    return RequestStream(np.cumsum(gaps), np.array(inputs), np.array(outputs), service_class=np.array(classes))


@st.composite
def streams(draw: st.DrawFn, max_requests: int = 24) -> RequestStream:
    """0 to ``max_requests`` requests: bursts at one instant, tiny and impossible lengths, single output tokens."""
    return plain_stream(draw(rows_of(PLAIN_ROW, max_requests)))


def conversations(rows: list[tuple], block_tokens: int, known: str) -> RequestStream:
    """Sessions whose turns extend one another (model.md section 5).

    A turn's prompt is the whole context of the turn before it (or, after an edit, the head of it) and some new tokens.
    ``known`` is what the stream tells of blocks: ``nothing``, the ``full`` blocks of prompts, a ``partial`` last one
    too, or those of the ``outputs`` as well.
    """
    now, fresh = 0.0, 0
    context: dict[int, int] = {}
    blocks: dict[int, list[int]] = {}
    turns: dict[int, int] = {}
    arrival, inputs, outputs, sessions, turn, offsets, hashes = [], [], [], [], [], [0], []
    for gap, session, new_tokens, output_tokens, edited in rows:
        now += gap
        before = context.get(session, 0) if session >= 0 else 0
        held = blocks.get(session, []) if session >= 0 else []
        if edited:
            before, held = before // 2, held[: before // 2 // block_tokens]
        length = before + new_tokens
        whole = length + output_tokens
        own = held[: length // block_tokens]
        while len(own) < (whole if known == "outputs" else length) // block_tokens:
            own.append(fresh := fresh + 1)
        if session >= 0:
            context[session], blocks[session] = whole, list(own)
        if known == "partial" and length % block_tokens:
            own.append(fresh := fresh + 1)
        arrival.append(now)
        inputs.append(length)
        outputs.append(output_tokens)
        sessions.append(session)
        turn.append(turns.get(session, 0) if session >= 0 else 0)
        turns[session] = turns.get(session, 0) + 1
        hashes.extend(own if known != "nothing" else [])
        offsets.append(len(hashes))
    return RequestStream(
        np.array(arrival),
        np.array(inputs, dtype=np.int64),
        np.array(outputs, dtype=np.int64),
        session_id=np.array(sessions, dtype=np.int64),
        turn=np.array(turn, dtype=np.int64),
        hash_offsets=np.array(offsets, dtype=np.int64),
        block_hashes=np.array(hashes, dtype=np.int64),
        block_tokens=block_tokens,
    )


KNOWN_BLOCKS = st.sampled_from(("nothing", "full", "partial", "outputs", "outputs"))
BLOCK_TOKENS = st.sampled_from((128, 512))


@st.composite
def prefix_streams(draw: st.DrawFn, max_requests: int = 24) -> RequestStream:
    """Conversations, as sessions only or with block hashes too."""
    return conversations(draw(rows_of(TURN_ROW, max_requests)), draw(BLOCK_TOKENS), draw(KNOWN_BLOCKS))


@st.composite
def crowds(draw: st.DrawFn, prefixes: bool = False) -> RequestStream:
    """300 to 600 requests that come faster than they can leave (numpy draws them: Hypothesis would take seconds)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(300, 600))
    gaps = rng.choice([0.0, 0.0, 1.0, 2.0], n) * draw(st.sampled_from((0.0, 1 / 64, 1 / 32, 0.03)))
    outputs = rng.integers(1, draw(st.sampled_from((2, 9))), n)
    if not prefixes:
        inputs = rng.choice([1, 1024, 2048, 8192, int(rng.integers(1, 30_000))], n)
        rows = zip(gaps, inputs, outputs, rng.integers(0, 2, n), strict=True)
        return plain_stream(list(rows))
    sessions, tokens = rng.integers(-1, 40, n).tolist(), rng.integers(1, 2000, n).tolist()
    rows = zip(gaps.tolist(), sessions, tokens, outputs.tolist(), (rng.random(n) < 0.2).tolist(), strict=True)
    return conversations(list(rows), draw(BLOCK_TOKENS), draw(KNOWN_BLOCKS))


@st.composite
def capacity_timelines(draw: st.DrawFn, ends_up: bool = True) -> CapacityTimeline:
    """Steps, outages among them; with ``ends_up`` the link is up after the last one, so that everything can end."""
    gbps = st.sampled_from((0.0, 0.0, 0.25, 1.0, 8.0)) | st.floats(0.05, 20.0)
    steps = draw(st.lists(st.tuples(EIGHTHS_S | st.floats(0.1, 30.0), gbps), min_size=0, max_size=6))
    times = np.unique([0.0, *(time for time, _ in steps)])
    levels = np.array([draw(gbps) for _ in times])
    if ends_up and levels[-1] == 0.0:
        levels[-1] = 1.0
    return CapacityTimeline(times, levels)


@st.composite
def controls(draw: st.DrawFn) -> Control:
    """Either law; targets N_p inside and outside the bounds."""
    n_prefill = draw(st.integers(0, 8))
    if draw(st.booleans()):
        return Control(n_prefill, draw(st.sampled_from((0.0, *map(float, LENGTHS_TOKENS), float("inf")))))
    return Control(
        n_prefill, law="price", price_s=draw(st.sampled_from((-1e9, -1.0, 0.0, 0.5, 1e9)) | st.floats(-5, 5))
    )


@st.composite
def control_sequences(draw: st.DrawFn, max_controls: int = 6) -> tuple[tuple[float, Control], ...]:
    """Controls with increasing times > 0."""
    times = draw(st.lists(st.integers(1, 160).map(lambda k: k / 8) | st.floats(0.01, 30.0), max_size=max_controls))
    return tuple((time, draw(controls())) for time in sorted(set(times)))


@st.composite
def fault_timelines(draw: st.DrawFn, deployment: Deployment, near_s: tuple[float, ...] = ()) -> FaultTimeline:
    """Failures and repairs of any instance, some of them void, some at one instant; most that fail are repaired.

    Half of them come within a second of one of the times ``near_s`` (of controls: conversions are then under way).
    """
    remote = deployment.remote.instances if deployment.remote else 0
    instances = [(True, i) for i in range(remote)] + [(False, i) for i in range(deployment.local.instances)]
    anywhere = st.integers(0, 80).map(lambda k: k / 8) | st.floats(0.0, 20.0)
    soon = st.tuples(st.sampled_from(near_s or (0.0,)), st.sampled_from((0.0, 0.125, 0.5)) | st.floats(0.0, 1.0)).map(
        sum
    )
    events = []
    for _ in range(draw(st.integers(1, 5))):
        side, instance = draw(st.sampled_from(instances))
        at = draw(anywhere | soon)
        events.append((at, side, instance, False))
        if draw(st.integers(0, 9)):
            back = at + draw(st.sampled_from((0.0, 0.125, 1.0)) | st.floats(0.0, 10.0))
            events.append((back, side, instance, True))
    events.sort(key=lambda event: event[0])
    return FaultTimeline(*map(np.array, zip(*events, strict=True)))


@st.composite
def cases(draw: st.DrawFn, *, prefixes: bool = False, ends_up: bool = True) -> Case:
    """A whole run. ``prefixes``: sessions, hashes and prefix caches; ``ends_up``: the link is not down for good."""
    deployment = draw(deployments(caches=prefixes))
    return Case(
        deployment=deployment,
        stream=draw(prefix_streams() if prefixes else streams()),
        capacity=draw(st.none() | capacity_timelines(ends_up)),
        objectives=Objectives((2.0, 20.0), (0.05, 0.5)),
        start=draw(st.none() | controls()),
        controls=draw(control_sequences()),
    )
