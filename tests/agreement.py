"""Engine against engine: whole runs of the full model, what must agree, and what a set of runs has exercised."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from prfaas_env.deployment import PrefixCache
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import IN_SYSTEM, REJECT_REASONS
from prfaas_env.simulator.reference.engine import ReferenceEngine
from prfaas_env.simulator.signals import SIGNALS
from tests.engines import Run, play
from tests.strategies import (
    BLOCK_TOKENS,
    OUTPUT_TOKENS,
    Case,
    cases,
    conversations,
    crowds,
    fault_timelines,
    plain_stream,
)
from tests.strategies import controls as a_control

__all__ = ["FEATURES", "assert_agree", "for_random_cases", "full_cases", "seen"]

TOLERANCE_S = 1e-6

# What chance alone would hardly bring together: prefixes that move between the clusters, conversions under load,
# instances that fail while they send KV over a thin link, and more requests than the ring first has room for.
THEMES = (*[None] * 8, *["prefixes move", "nodes drain", "KV is lost"] * 4, "crowd")


@st.composite
def full_cases(draw: st.DrawFn) -> Case:
    """The full model: everything that a run can have, each switched on in a part of them.

    Three in five have a theme.
    """
    theme = draw(st.sampled_from(THEMES))
    prefixes = theme == "prefixes move" or draw(st.booleans())
    case = draw(cases(prefixes=prefixes, ends_up=draw(st.sampled_from((True, True, False)))))
    if theme == "crowd":
        case = replace(case, stream=draw(crowds(prefixes)))
    if draw(st.integers(0, 5)) == 0:
        case = replace(case, deployment=replace(case.deployment, queue_limit_requests=draw(st.integers(1, 4))))
    rules = st.sampled_from(("scarce", "abundant"))
    case = _with_controls(case, lambda control: replace(control, cache_rule=draw(rules)))
    if theme == "prefixes move":
        case = draw(_moving_prefixes(case))
    elif theme == "nodes drain":
        case = draw(_draining_nodes(case))
    near_s = tuple(time for time, _ in case.controls)
    failing = draw(st.booleans())
    if theme == "KV is lost":
        case, failing = draw(_thin_link(case)), True
        near_s = tuple(case.stream.arrival_s.tolist())
    return replace(
        case,
        faults=draw(fault_timelines(case.deployment, near_s)) if failing else None,
        patience_s=draw(st.sampled_from((0.5, 2.0, 4.0))),
    )


@st.composite
def _thin_link(draw: st.DrawFn, case: Case) -> Case:
    """Everything goes remote, over a link that takes seconds for a request."""
    if case.deployment.link is None:
        return case
    link = replace(case.deployment.link, capacity_gbps=draw(st.sampled_from((0.25, 1.0))), gbps_per_connection=1.0)
    deployment = replace(case.deployment, link=link)
    return replace(case, deployment=deployment, start=Control(draw(st.integers(1, 3))), capacity=None, controls=())


def _with_controls(case: Case, change: Callable[[Control], Control]) -> Case:
    controls = tuple((time, change(control)) for time, control in case.controls)
    return replace(case, start=change(case.start) if case.start else None, controls=controls)


@st.composite
def _moving_prefixes(draw: st.DrawFn, case: Case) -> Case:
    """Slow conversations, caches with room on both sides, bandwidth taken as abundant, prompts sent either way."""
    gaps = st.sampled_from((8.0, 30.0, 0.5))
    turn = st.tuples(gaps, st.integers(0, 1), st.integers(200, 2000), OUTPUT_TOKENS, st.just(False))
    rows = draw(st.lists(turn, min_size=6, max_size=16))
    stream = conversations(rows, draw(BLOCK_TOKENS), draw(st.sampled_from(("outputs", "full"))))
    local, remote = case.deployment.local, case.deployment.remote
    local = replace(local, instances=max(2, local.instances), prefill=max(1, local.prefill))
    local_room = draw(st.sampled_from((64.0, 0.0, 0.5, 64.0, 0.0)))
    remote_room = draw(st.sampled_from((64.0, 4.0, 0.5)))
    deployment = replace(
        case.deployment,
        local=replace(local, cache=PrefixCache(local_room)),
        remote=replace(remote, cache=PrefixCache(remote_room)) if remote else None,
    )
    thresholds = st.sampled_from((0.0, 0.0, 100.0, 500.0, 1500.0))

    def abundant(control: Control) -> Control:
        return replace(control, cache_rule="abundant", threshold_tokens=draw(thresholds))

    case = replace(case, deployment=deployment, stream=stream, start=case.start or Control(local.prefill))
    return _with_controls(case, abundant)


@st.composite
def _draining_nodes(draw: st.DrawFn, case: Case) -> Case:
    """Long outputs, and a target that jumps from one bound to the other."""
    gaps = st.sampled_from((0.25, 0.0, 1.0))
    row = st.tuples(gaps, st.sampled_from((64, 1024, 2048)), st.integers(8, 200), st.integers(0, 1))
    stream = plain_stream(draw(st.lists(row, min_size=6, max_size=16)))
    local = case.deployment.local
    local = replace(local, instances=max(3, local.instances), prefill=1)
    times = sorted(draw(st.lists(st.integers(1, 80).map(lambda k: k / 8), min_size=1, max_size=6, unique=True)))
    ends = itertools.cycle((8, 1))
    controls = tuple((time, replace(draw(a_control()), n_prefill=next(ends))) for time in times)
    return replace(case, deployment=replace(case.deployment, local=local), stream=stream, start=None, controls=controls)


def for_random_cases(check: Callable[[Case], None], count: int, seed_number: int) -> None:
    """Run ``check`` on ``count`` cases; the same ones for the same seed."""

    @seed(seed_number)
    @settings(
        max_examples=count,
        derandomize=False,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(full_cases())
    def run(case: Case) -> None:
        check(case)

    run()


# --- agreement --------------------------------------------------------------------------------------------------------


def _assert_same_logs(a: np.ndarray, b: np.ndarray) -> None:
    assert len(a) == len(b), f"the log has {len(a)} rows in the reference engine, {len(b)} in the compiled one"
    for name in a.dtype.names or ():
        one, other = a[name], b[name]
        if one.dtype.kind == "f":
            scale = np.maximum(1.0, np.abs(one)) if name.startswith("bytes") else 1.0
            same = (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= TOLERANCE_S * scale)
        else:
            same = one == other
        i = int(np.argmin(same)) if len(same) else 0
        assert same.all(), f"{name} of request {i}: reference {one[i]}, compiled {other[i]}"


def assert_agree(case: Case) -> Run:
    """Both engines give every request the same life and every interval the same signals; the reference engine's run.

    Times agree to 1e-6 s, bytes and integrals to 1e-6 of their size, counts exactly, at every control as at the end.
    """
    one, other = play("reference", case), play("compiled", case)
    for a, b in zip(one.cuts, other.cuts, strict=True):
        _assert_same_logs(a, b)
    # A run that is stuck for good (the link stays down) ends when nothing can happen any more; the engines may differ
    # in when they notice, so the clock of that last interval is free.
    stuck = bool((one.log["status"] == IN_SYSTEM).any())
    for k in range(len(one.signals) - stuck):
        for i, signal in enumerate(SIGNALS):
            a, b = one.signals[k, i], other.signals[k, i]
            same = a == b or abs(a - b) <= TOLERANCE_S * max(1.0, abs(a))
            assert same, f"{signal.name} of interval {k}: reference {a}, compiled {b}"
    assert (one.bins == other.bins).all()
    return one


# --- what a run has exercised -----------------------------------------------------------------------------------------

# Features of a run, each with what it means; `seen` says which of them a run has had.
FEATURES = {
    "requests": "any request at all",
    "remote": "a request is prefilled remotely",
    "local": "a request is prefilled locally",
    "price law": "requests are routed by price",
    "not pipelined": "KV is sent after prefill, requests go remote",
    "outage": "the link is down for a time, requests go remote",
    "down for good": "requests never leave, because the link stays down",
    "memory limited": "decode instances have limited KV memory",
    "ring growth": "more requests in the system than the compiled engine's ring first has room for",
    "sessions": "requests belong to sessions",
    "cache hit": "a cached prefix is used",
    "cache eviction": "the local cache has evicted a block",
    "hybrid hit": "… of a model with a recurrent state",
    "copy to remote": "a prefix is copied to the remote cluster",
    "copy to local": "a prefix is copied to the local cluster",
    "conversion": "a role conversion ends",
    "same instant": "things happen to two requests at exactly one instant",
    **{f"rejected: {reason}": "a request is refused" for reason in REJECT_REASONS[1:]},
    "fault": "an instance fails",
    "fault of a prefilling instance": "its request begins anew",
    "fault of a sending instance": "KV half sent is lost",
    "fault of a decoding instance": "its sequences decode anew",
    "fault of a draining instance": "a conversion that had not begun",
    "fault of a converting instance": "a conversion that had",
    "fault of a failed instance": "nothing happens",
}
EVENT_TIMES = ("prefill_start_s", "prefill_end_s", "kv_ready_s", "decode_start_s", "first_token_s", "finish_s")


def seen(case: Case, run: Run) -> Counter[str]:
    """Which of ``FEATURES`` the run of a case has had, each counted once."""
    log, deployment = run.log, case.deployment
    remote = bool(log["remote"].any())
    controls = [case.start, *(control for _, control in case.controls)]
    has = {
        "requests": len(log) > 0,
        "remote": remote,
        "local": bool((~log["remote"] & (log["status"] != 2)).any()),
        "price law": deployment.route_pinned is None and any(c is not None and c.law == "price" for c in controls),
        "not pipelined": remote and not deployment.layerwise_pipelining,
        "outage": remote and case.capacity is not None and bool((case.capacity.gbps == 0.0).any()),
        "down for good": bool((log["status"] == IN_SYSTEM).any()),
        "memory limited": bool(np.isfinite(deployment.local.profile.hbm_for_kv_bytes)) and len(log) > 0,
        "ring growth": _ring_grows(case),
        "sessions": bool((log["session_id"] >= 0).any()),
        "cache hit": bool((log["cached_tokens"] > 0).any()),
        "hybrid hit": bool((log["cached_tokens"] > 0).any()) and deployment.local.profile.attention == "hybrid",
        "copy to remote": bool((log["bytes_returned"] > 0).any()),
        "copy to local": bool((log["bytes_sent"][~log["remote"]] > 0).any()),
        "conversion": run.signal("conversions").sum() > 0,
        "same instant": _coincidences(log) > 0,
    }
    for code, reason in enumerate(REJECT_REASONS[1:], 1):
        has[f"rejected: {reason}"] = bool((log["reject_reason"] == code).any())
    return Counter({name for name, yes in has.items() if yes} | _hits(case))


def _coincidences(log: np.ndarray) -> int:
    """Instants at which something happens to two requests or more (arrivals apart)."""
    pairs = {(time, number) for name in EVENT_TIMES for number, time in enumerate(log[name].tolist()) if time == time}
    return sum(count > 1 for count in Counter(time for time, _ in pairs).values())


def _ring_grows(case: Case) -> bool:
    engine = CompiledEngine(case.deployment, case.stream, case.capacity, case.faults, case.objectives, case.start)
    short = len(engine.sim.ring)
    engine.drain()
    return len(engine.sim.ring) > short


def _hits(case: Case) -> set[str]:
    """What the faults of a case hit, and whether a cache overflows, by a look into the reference engine."""
    engine = ReferenceEngine(
        case.deployment, case.stream, case.capacity, case.faults, case.objectives, case.start, case.patience_s
    )
    faults = case.faults
    strikes = []
    if faults is not None:
        down = np.flatnonzero(~faults.up)
        columns = zip(faults.times_s[down], faults.remote[down], faults.instance[down], strict=True)
        strikes = [
            (np.nextafter(time, -1.0), bool(side), int(instance)) for time, side, instance in columns if time > 0
        ]
    steps = [(time, None, 0) for time, _ in case.controls] + strikes
    controls = iter(case.controls)
    hits = set()
    for time, side, instance in sorted(steps, key=lambda step: step[0]):
        engine.advance(max(time, engine.now_s))
        if side is None:
            engine.apply(next(controls)[1])
        else:
            hits |= {"fault", f"fault of a {_state(engine, side, instance)} instance"}
    engine.drain()
    held, finished = set(engine.local_cache.blocks), set()
    for request in engine.requests:
        if request.finish_s == request.finish_s:
            full = request.input_tokens // case.stream.block_tokens
            finished |= set(case.stream.hashes(request.number)[:full].tolist())
    if case.deployment.local.cache.capacity_gib > 0 and finished - held:
        hits.add("cache eviction")
    return hits & FEATURES.keys()


def _state(engine: ReferenceEngine, remote: bool, instance: int) -> str:
    if instance in (engine.failed_remote if remote else engine.roles.failed):
        return "failed"
    pool = engine.remote_pool if remote else engine.local_pool
    if instance in pool.running:
        return "sending" if remote and engine.link.open_from(instance) else "prefilling"
    if remote:
        return "sending" if engine.link.open_from(instance) else "idle"
    if instance == engine.roles.converting:
        return "converting"
    if instance == engine.roles.draining:
        return "draining"
    return "decoding" if engine.decode.instances[instance].active else "idle"
