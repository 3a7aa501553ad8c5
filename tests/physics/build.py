"""Deployments reduced to the one mechanism that a test is about, and runs of them.

By default prefill takes 1 s per 1,024 tokens, KV has no size, the link is ample and decode is free: a test sets what it
needs. All of these numbers are powers of two, so that times worked out by hand are met to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from prfaas_env.deployment import Deployment, Link, LocalCluster, RemoteCluster
from prfaas_env.profiles import MIB, DecodeTable, KvSize, PrefillTable, Profile
from prfaas_env.simulator.conditions import CapacityTimeline
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import Engine, make_engine
from prfaas_env.workload.stream import RequestStream
from tests.strategies import ASSUMED

__all__ = ["deployment", "ended", "link", "profile", "requests"]

KIB_TOKENS = 1024
FREE_STEP_MS = 1000 * 2.0**-30


def profile(
    s_per_kib: float = 1.0,
    kv_mib_per_kib: float = 0.0,
    kv_fixed_mib: float = 0.0,
    slots: int = 65_536,
    step_ms: float | Sequence[float] = FREE_STEP_MS,
    hbm_gib: float | None = None,
    context_limit_tokens: int = 1 << 40,
) -> Profile:
    """Prefill time is a line through 0, KV size a line too; ``step_ms`` is one value, or one a batch size."""
    steps = [step_ms] if isinstance(step_ms, int | float) else list(step_ms)
    return Profile(
        name="test",
        model="test",
        instance="test",
        context_limit_tokens=context_limit_tokens,
        prefill=PrefillTable((KIB_TOKENS, 2 * KIB_TOKENS), (s_per_kib, 2 * s_per_kib)),
        kv=KvSize(kv_fixed_mib, kv_mib_per_kib * MIB / KIB_TOKENS),
        decode=DecodeTable(slots, tuple(range(1, len(steps) + 1)), tuple(steps)),
        price_usd_per_hour=0.0,
        provenance=ASSUMED,
        hbm_for_kv_gib=hbm_gib,
    )


def link(mib_per_s: float, delay_ms: float = 0.0, flow_cap_mib_per_s: float = 2.0**40) -> Link:
    """A line in MiB/s, the unit of the hand-worked cases."""
    gbps = MIB * 8 / 1e9
    return Link(mib_per_s * gbps, delay_ms, 1, flow_cap_mib_per_s * gbps, 0.0)


def deployment(
    local: Profile | None = None,
    prefill: int = 1,
    decode: int = 1,
    remote: Profile | None = None,
    remote_instances: int = 1,
    line: Link | None = None,
    **others: float | bool,
) -> Deployment:
    """A deployment; with a ``remote`` profile there is a remote cluster. No overhead in TTFT unless given.

    Both clusters hold one KV format: that of the remote profile where it says one, else that of the local profile.
    """
    local = local or profile()
    if remote:
        kv = local.kv if remote.kv == KvSize(0.0, 0.0) else remote.kv
        local, remote = replace(local, kv=kv), replace(remote, kv=kv)
    return Deployment(
        name="test",
        local=LocalCluster(local, prefill + decode, prefill),
        remote=RemoteCluster(remote, remote_instances) if remote else None,
        link=(line or link(2.0**40)) if remote else None,
        **{"ttft_overhead_s": 0.0, "fabric_gbps": 1e9, **others},
    )


def requests(
    arrival_s: Iterable[float], input_kib: float | Iterable[float] = 1.0, output_tokens: int | Iterable[int] = 1
) -> RequestStream:
    """Requests with input lengths in units of 1,024 tokens."""
    arrivals = np.asarray(list(arrival_s), dtype=np.float64)
    inputs = np.rint(np.broadcast_to(np.asarray(input_kib, dtype=np.float64), arrivals.shape) * KIB_TOKENS)
    outputs = np.broadcast_to(np.asarray(output_tokens), arrivals.shape)
    return RequestStream(arrivals, inputs.astype(np.int64), outputs.astype(np.int64))


def ended(
    engine_name: str,
    subject: Deployment,
    stream: RequestStream,
    capacity: CapacityTimeline | None = None,
    control: Control | None = None,
) -> Engine:
    """An engine that has run the stream to its end under one control."""
    engine = make_engine(engine_name, subject, stream, capacity=capacity, control=control)
    engine.drain()
    return engine
