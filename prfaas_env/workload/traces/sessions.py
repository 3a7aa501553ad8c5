"""Sessions of a trace, and longer traces made of them: sessions are drawn anew, each as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prfaas_env.processes import check_number
from prfaas_env.workload.arrivals import MOST_ARRIVALS
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.traces.trace import Trace

__all__ = ["longer", "sessions_from_blocks", "turns"]

RESAMPLE_WITHIN_S = 600.0  # a design choice: short against the drift of a trace, long against the gaps of sessions


def sessions_from_blocks(trace: Trace) -> np.ndarray:
    """Sessions as the blocks tell them: a request goes on with the latest one that had its deepest known block.

    First blocks do not count: a system prompt is shared by all. Requests without blocks are sessions of their own.
    Shape (n,), int64, numbered from 0 in order of their first requests.
    """
    session = np.empty(len(trace), dtype=np.int64)
    last_of: dict[int, int] = {}
    started = 0
    offsets, blocks = trace.hash_offsets.tolist(), trace.block_hashes.tolist()
    for i in range(len(trace)):
        own = blocks[offsets[i] + 1 : offsets[i + 1]]
        parent = next((last_of[block] for block in reversed(own) if block in last_of), None)
        if parent is None:
            parent, started = started, started + 1
        session[i] = parent
        last_of.update(dict.fromkeys(own, parent))
    return session


def turns(session_id: np.ndarray) -> np.ndarray:
    """The number of each request within its session, from 0, for requests in order of time. Shape (n,), int64."""
    order = np.argsort(session_id, kind="stable")
    ordered = session_id[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-2) != 0)
    sizes = np.diff(np.append(begins, len(ordered)))
    number = np.empty(len(session_id), dtype=np.int64)
    number[order] = ragged_index(np.zeros(len(sizes), dtype=np.int64), sizes)
    return np.where(session_id >= 0, number, 0)


def longer(trace: Trace, rng: np.random.Generator, length_s: float) -> Trace:
    """A trace of ``length_s`` seconds: the times at which sessions begin repeat, which session begins there is drawn.

    It is drawn from those that began within ``RESAMPLE_WITHIN_S`` of that time in the trace, so that the mix goes on
    drifting as it did, and comes whole: all its turns, with the gaps between them. Blocks of one session are new in
    each copy; those that several sessions have stay shared. Sessions that the trace's ends cut stay cut.
    """
    session = trace.session_id.copy()
    if (session < 0).all() and len(trace.block_hashes):
        session = sessions_from_blocks(trace)
    alone = session < 0
    session[alone] = session.max(initial=-1) + 1 + np.arange(alone.sum())
    first_s = trace.timestamp_s[0]
    span_s = _span_s(trace)
    by_session = np.argsort(session, kind="stable")
    _, begins, sizes = np.unique(session[by_session], return_index=True, return_counts=True)
    order = np.argsort(trace.timestamp_s[by_session[begins]], kind="stable")
    begins, sizes = begins[order], sizes[order]
    start_s = trace.timestamp_s[by_session[begins]]

    low = np.searchsorted(start_s, start_s - RESAMPLE_WITHIN_S, side="left")
    high = np.searchsorted(start_s, start_s + RESAMPLE_WITHIN_S, side="right")
    passes = int(np.ceil(max(length_s - first_s, 0.0) / span_s))
    check_number(passes * len(trace), "arrivals of a resampled trace", MOST_ARRIVALS)
    slots_s = (np.arange(passes)[:, None] * span_s + start_s).ravel()
    drawn = rng.integers(np.tile(low, passes), np.tile(high, passes))

    rows = by_session[ragged_index(begins[drawn], sizes[drawn])]
    copy = np.repeat(np.arange(len(drawn)), sizes[drawn])
    time_s = slots_s[copy] + (trace.timestamp_s[rows] - start_s[drawn[copy]])
    order = np.argsort(time_s, kind="stable")
    order = order[time_s[order] < length_s]
    rows, copy, time_s = rows[order], copy[order], time_s[order]

    counts = np.diff(trace.hash_offsets)[rows]
    blocks = trace.block_hashes[ragged_index(trace.hash_offsets[rows], counts)]
    own = ~_shared_blocks(trace, session)[blocks]
    keys = np.where(own, np.repeat(copy + 1, counts), 0) * (trace.block_hashes.max(initial=0) + 1) + blocks
    named = (trace.session_id >= 0)[rows] | (len(trace.block_hashes) > 0)
    return replace(
        trace,
        timestamp_s=time_s,
        input_tokens=trace.input_tokens[rows],
        output_tokens=trace.output_tokens[rows],
        hash_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        block_hashes=np.unique(keys, return_inverse=True)[1].astype(np.int64),
        session_id=np.where(named, copy, -1),
        service_class=trace.service_class[rows],
        widest_gap_s=float(np.diff(time_s).max(initial=0.0)),
    )


def _span_s(trace: Trace) -> float:
    """Length of a trace; the last request is followed by a gap like the others."""
    return float(trace.timestamp_s[-1] - trace.timestamp_s[0]) * len(trace) / max(len(trace) - 1, 1) or 1.0


def _shared_blocks(trace: Trace, session: np.ndarray) -> np.ndarray:
    """Whether several sessions have a block. Shape (number of blocks,), bool."""
    owner = np.repeat(session, np.diff(trace.hash_offsets))
    size = int(trace.block_hashes.max(initial=-1)) + 1
    first = np.full(size, -1)
    first[trace.block_hashes] = owner
    shared = np.zeros(size, dtype=bool)
    shared[trace.block_hashes[first[trace.block_hashes] != owner]] = True
    return shared
