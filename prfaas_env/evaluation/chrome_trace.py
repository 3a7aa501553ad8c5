"""A run as a Chrome trace, for ui.perfetto.dev and chrome://tracing: what every instance and the link did, and when.

The format is Google's "Trace Event Format": complete spans (``X``), counters (``C``), flows from a prefill to its
decode (``s``, ``f``) and names (``M``); times in microseconds. Each instance is a process there, with a track for
prefill and one for each decode slot that was used at once; the link has one for each transfer at once. Spans show the
last attempt of what a failure undid, as the request log does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.simulator.log import STATUSES
from prfaas_env.simulator.result import RunResult
from prfaas_env.simulator.signals import LENGTH_BIN_EDGES_TOKENS

__all__ = ["COUNTERS", "chrome_trace"]

Event = dict[str, Any]

COUNTERS: Mapping[str, Sequence[str]] = {
    "waiting for a first token, requests": ("waiting",),
    "queues, requests": ("remote_queue", "local_queue", "decode_queue"),
    "decoding, sequences": ("decode_active",),
    "local roles, instances": ("prefill_nodes", "decode_nodes", "converting_nodes"),
    "down, instances": ("failed_nodes",),
    "link capacity, Gbps": ("link_capacity_gbps",),
    "link backlog, bytes": ("link_backlog_bytes",),
    "threshold t, tokens (2^20: infinite)": ("threshold_tokens",),
    "price, s": ("price_s",),
}
"""Counter tracks: their names, and the signals in each, taken at the end of every control step."""

SYSTEM, LINK, FIRST_INSTANCE = 1, 2, 3
PREFILL, FIRST_SLOT = 0, 1
LARGEST = float(LENGTH_BIN_EDGES_TOKENS[-1])  # JSON has no infinity: an infinite t is drawn as the longest length


def chrome_trace(run: RunResult, deployment: Deployment) -> dict[str, Any]:
    """The trace as plain data for ``json.dump``; ``otherData`` says which run; ``deployment`` is its scenario's."""
    events = [*_counters(run.timeline), *_instances(run.requests, deployment), *_transfers(run.requests, deployment)]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(run.meta)}


def _counters(timeline: np.ndarray) -> Iterator[Event]:
    yield from _named(SYSTEM, "queues, roles, knobs", {})
    for name, signals in COUNTERS.items():
        for step in timeline:
            yield {
                "ph": "C",
                "pid": SYSTEM,
                "name": name,
                "ts": _us(step["time_s"]),
                "args": {signal: _finite(step[signal]) for signal in signals},
            }


def _instances(requests: np.ndarray, deployment: Deployment) -> Iterator[Event]:
    remote = deployment.remote.instances if deployment.remote else 0
    for k in range(remote):
        pid, here = FIRST_INSTANCE + k, requests["remote"] & (requests["prefill_instance"] == k)
        yield from _named(pid, f"remote {k}", {PREFILL: "prefill"})
        yield from _prefills(requests, np.flatnonzero(here), pid)
    for k in range(deployment.local.instances):
        pid, here = FIRST_INSTANCE + remote + k, ~requests["remote"] & (requests["prefill_instance"] == k)
        decoded = _known(requests, np.flatnonzero(requests["decode_instance"] == k), "decode_start_s", "finish_s")
        slots = _lanes(requests["decode_start_s"][decoded], requests["finish_s"][decoded])
        names = {FIRST_SLOT + slot: f"decode slot {slot}" for slot in range(max(slots, default=-1) + 1)}
        yield from _named(pid, f"local {k}", {PREFILL: "prefill", **names})
        yield from _prefills(requests, np.flatnonzero(here), pid)
        for i, slot in zip(decoded, slots, strict=True):
            start_s, end_s = requests["decode_start_s"][i], requests["finish_s"][i]
            said = {"output_tokens": int(requests["output_tokens"][i]), "ttft_s": float(requests["ttft_s"][i])}
            yield _span(pid, FIRST_SLOT + slot, "decode", i, start_s, end_s, said)
            yield {**_flow(pid, FIRST_SLOT + slot, i, start_s), "ph": "f", "bp": "e"}


def _prefills(requests: np.ndarray, numbers: np.ndarray, pid: int) -> Iterator[Event]:
    for i in _known(requests, numbers, "prefill_start_s", "prefill_end_s"):
        one = requests[i]
        said = {
            "input_tokens": int(one["input_tokens"]),
            "cached_tokens": int(one["cached_tokens"]),
            "arrival_s": float(one["arrival_s"]),
            "service_class": int(one["service_class"]),
            "session_id": int(one["session_id"]),
            "status": STATUSES[one["status"]],
        }
        yield _span(pid, PREFILL, "prefill", i, one["prefill_start_s"], one["prefill_end_s"], said)
        if np.isfinite(one["finish_s"]):
            yield {**_flow(pid, PREFILL, i, one["prefill_start_s"]), "ph": "s"}


def _transfers(requests: np.ndarray, deployment: Deployment) -> Iterator[Event]:
    """KV over the link, up to its arrival; layer by layer it goes from when its prefill begins."""
    if deployment.remote is None:
        return
    begins = "prefill_start_s" if deployment.layerwise_pipelining else "prefill_end_s"
    sent = _known(requests, np.flatnonzero(requests["remote"]), begins, "kv_ready_s")
    start_s, end_s = requests[begins][sent], requests["kv_ready_s"][sent]
    flows = _lanes(start_s, end_s)
    yield from _named(LINK, "link", {flow: f"transfer {flow}" for flow in range(max(flows, default=-1) + 1)})
    for k, i in enumerate(sent):
        said = {name: float(requests[name][i]) for name in ("bytes_sent", "bytes_returned")}
        yield _span(LINK, flows[k], "KV", i, start_s[k], end_s[k], said)


def _known(requests: np.ndarray, numbers: np.ndarray, start: str, end: str) -> np.ndarray:
    """Those of the requests ``numbers`` of which both times are known, by the first of them."""
    both = numbers[np.isfinite(requests[start][numbers]) & np.isfinite(requests[end][numbers])]
    ordered: np.ndarray = both[np.argsort(requests[start][both], kind="stable")]
    return ordered


def _lanes(start_s: np.ndarray, end_s: np.ndarray) -> list[int]:
    """A track for each interval, the lowest that is free, as intervals of one track must not overlap; by start."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    lanes: list[int] = []
    for start, end in zip(start_s, end_s, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (float(end), lane))
        lanes.append(lane)
    return lanes


def _named(pid: int, process: str, tracks: Mapping[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, name in tracks.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _span(pid: int, tid: int, what: str, request: int, start_s: float, end_s: float, args: Mapping[str, Any]) -> Event:
    start, end = _us(start_s), _us(end_s)
    named = {"ph": "X", "pid": pid, "tid": tid, "cat": what, "name": f"{what} {request}"}
    return {**named, "ts": start, "dur": round(end - start, 3), "args": {"request": int(request), **args}}


def _flow(pid: int, tid: int, request: int, at_s: float) -> Event:
    return {"pid": pid, "tid": tid, "cat": "request", "name": "request", "id": int(request), "ts": _us(at_s)}


def _finite(value: float) -> float:
    return float(value) if np.isfinite(value) else LARGEST


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(1e6 * float(seconds), 3)
