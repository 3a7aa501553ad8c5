"""Two engines, one model: random runs of everything at once, and named cases of what is hardest to order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from prfaas_env.deployment import Deployment, PrefixCache
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import COMPLETED
from prfaas_env.workload.stream import RequestStream
from tests.agreement import FEATURES, assert_agree, for_random_cases, seen
from tests.engines import Run
from tests.physics import build
from tests.physics.build import requests
from tests.strategies import Case, conversations

RANDOM_CASES = 600


def case(
    subject: Deployment,
    stream: RequestStream,
    *controls: tuple[float, Control],
    start: Control | None = None,
    capacity: CapacityTimeline | None = None,
    faults: list[tuple[float, bool, int, bool]] | None = None,
) -> Case:
    """A run; ``faults`` are (time, remote, instance, up)."""
    timeline = FaultTimeline(*map(np.array, zip(*faults, strict=True))) if faults else None
    return Case(subject, stream, capacity, Objectives(), start, controls, faults=timeline)


# Ample, but no more than a deployment may say.
profile = partial(build.profile, context_limit_tokens=1 << 20)
deployment = partial(build.deployment, fabric_gbps=1e5)
link = partial(build.link, flow_cap_mib_per_s=2.0**20)

# 1 MiB of KV and one second of prefill per 1,024 tokens.
NODE = profile(kv_mib_per_kib=1.0, slots=2, step_ms=[125.0, 250.0])
PAIR = deployment(NODE, prefill=1, decode=1, remote=NODE, line=link(1.0))
FAR, NEAR = Control(1, threshold_tokens=0.0), Control(1, threshold_tokens=1e9)


def everything_at_one_second() -> Case:
    """A prefill ends, the link collapses, the instance fails, the control changes and a request comes, all at 1 s."""
    return case(
        PAIR,
        requests([0.0, 0.0, 1.0, 1.0], [1, 2, 1, 1], 8),
        (1.0, NEAR),
        (2.0, FAR),
        start=FAR,
        capacity=CapacityTimeline(np.array([0.0, 1.0, 2.0]), np.array([0.008, 0.0, 0.008])),
        faults=[(1.0, True, 0, False), (1.0, False, 0, False), (2.0, True, 0, True), (2.0, False, 0, True)],
    )


def a_draining_node_fails() -> Case:
    """Two decode nodes are busy when N_p grows: one drains, fails before it is empty, and comes back to decode."""
    busy = deployment(NODE, prefill=1, decode=3, conversion_s=1.0)
    return case(
        busy,
        requests([0.0, 0.0, 0.0, 1.0, 2.0, 3.0], 0.25, 64),
        (2.0, Control(3)),
        (4.0, Control(1)),
        faults=[(2.5, False, instance, False) for instance in (1, 2, 3)]
        + [(3.0 + instance, False, instance, True) for instance in (1, 2, 3)],
    )


def a_converting_node_fails() -> Case:
    """An idle decode node begins its conversion at 1 s and fails half-way: it comes back as a prefill node."""
    idle = deployment(NODE, prefill=1, decode=2, conversion_s=2.0)
    every = [(2.0, False, instance, False) for instance in (1, 2)]
    back = [(2.5, False, instance, True) for instance in (1, 2)]
    return case(idle, requests([1.5, 1.5, 2.0, 6.0], 1.0, 4), (1.0, Control(2)), faults=every + back)


def kv_on_the_wire_is_lost() -> Case:
    """Prefill has ended, half of the KV has left, the remote instance fails: the whole request begins anew."""
    thin = replace(PAIR, link=link(0.25), layerwise_pipelining=True)
    return case(thin, requests([0.0, 0.0], 1.0, 2), start=FAR, faults=[(2.5, True, 0, False), (3.0, True, 0, True)])


def memory_for_one() -> Case:
    """Memory for one request at a time, KV sent after prefill: each waits for the one before it to finish."""
    small = profile(kv_mib_per_kib=1.0, slots=2, step_ms=125.0, hbm_gib=1.5 / 1024)
    tight = deployment(small, prefill=1, decode=1, remote=small, line=link(1.0), layerwise_pipelining=False)
    return case(tight, requests(np.arange(6) / 4, 1.0, 8), (1.5, NEAR), (3.0, FAR), start=FAR)


def prefixes_to_and_fro() -> Case:
    """Conversations whose turns go remote, then local, then remote: what is missing there is copied first."""
    turns = [(16.0, session, tokens, 8, False) for tokens in (2048, 300, 300) for session in (0, 1)]
    return case(
        cached(2.0),
        conversations(turns, 128, "outputs"),
        (40.0, replace(NEAR, cache_rule="abundant")),
        (72.0, replace(FAR, cache_rule="abundant")),
        start=replace(FAR, cache_rule="abundant"),
    )


def prefixes_come_home() -> Case:
    """The local cluster keeps nothing: what is prefilled there is copied from the remote cache first."""
    turns = [(16.0, 0, tokens, 8, False) for tokens in (2048, 300, 300)]
    abundant = replace(NEAR, cache_rule="abundant")
    return case(cached(0.0), conversations(turns, 128, "outputs"), (24.0, abundant), start=FAR)


def cached(local_gib: float) -> Deployment:
    subject = deployment(NODE, prefill=1, decode=1, remote=NODE, line=link(4.0))
    return replace(
        subject,
        local=replace(subject.local, cache=PrefixCache(local_gib)),
        remote=replace(subject.remote, cache=PrefixCache(2.0)),
    )


def a_ring_that_grows_twice() -> Case:
    """1,000 requests at once, flows, timers and queues among them, while nodes convert and fail."""
    crowd = requests(np.repeat(np.arange(10) / 8, 100), np.tile([0.125, 0.25, 4.0], 334)[:1000], 3)
    many = deployment(NODE, prefill=2, decode=2, remote=NODE, remote_instances=3, line=link(8.0), conversion_s=1.0)
    return case(
        many,
        crowd,
        (0.5, Control(3, threshold_tokens=200.0)),
        (1.0, Control(1, law="price")),
        start=Control(1, threshold_tokens=200.0),
        faults=[(1.0, True, 1, False), (1.125, False, 0, False), (9.0, True, 1, True), (9.0, False, 0, True)],
    )


NAMED = [
    everything_at_one_second,
    a_draining_node_fails,
    a_converting_node_fails,
    kv_on_the_wire_is_lost,
    memory_for_one,
    prefixes_to_and_fro,
    prefixes_come_home,
    a_ring_that_grows_twice,
]
SHOWS = {
    "everything_at_one_second": {"outage", "fault of a prefilling instance", "same instant"},
    "a_draining_node_fails": {"fault of a draining instance", "fault of a decoding instance"},
    "a_converting_node_fails": {"fault of a converting instance"},
    "kv_on_the_wire_is_lost": {"fault of a sending instance"},
    "memory_for_one": {"memory limited", "not pipelined"},
    "prefixes_to_and_fro": {"cache hit", "copy to remote"},
    "prefixes_come_home": {"cache hit", "copy to local"},
    "a_ring_that_grows_twice": {"ring growth", "fault", "conversion", "price law"},
}


@pytest.mark.parametrize("make", NAMED, ids=lambda make: make.__name__)
def test_engines_agree_on(make) -> None:
    subject = make()
    run = assert_agree(subject)
    assert SHOWS[make.__name__] <= set(seen(subject, run)), sorted(seen(subject, run))
    assert (run.log["status"] == COMPLETED).all()


def test_what_is_lost_is_sent_again() -> None:
    run: Run = assert_agree(kv_on_the_wire_is_lost())
    # A quarter of a MiB in the first second, and half of the line from then, shared with request 1, to 2.5 s: wasted.
    assert run.log["prefill_start_s"].tolist() == [3.0, 4.0]
    assert run.log["bytes_sent"][0] == 2**20 + (1.0 + 1.5 / 2) * 2**18


def test_engines_agree_on_random_runs_of_the_full_model() -> None:
    total: Counter[str] = Counter()

    def check(subject: Case) -> None:
        total.update(seen(subject, assert_agree(subject)))

    for_random_cases(check, RANDOM_CASES, seed_number=2604)
    named = set().union(*SHOWS.values())
    assert {name for name in FEATURES if not total[name]} <= named, total


def test_a_difference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: a compiled engine that is a little off must not pass."""
    from prfaas_env.simulator.compiled import engine

    subject = everything_at_one_second()
    true_log = engine.CompiledEngine.log

    def late(self: engine.CompiledEngine) -> np.ndarray:
        log = true_log(self)
        log["finish_s"] += 2e-6
        return log

    monkeypatch.setattr(engine.CompiledEngine, "log", late)
    with pytest.raises(AssertionError, match="finish_s of request 0"):
        assert_agree(subject)
