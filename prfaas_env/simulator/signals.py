"""What an operator can measure over one control interval: the engines' only view out, besides the request log.

``SIGNALS`` is the one table of names, units and meanings; an engine fills a float64 vector in this order, and every
reader goes by name (``SIGNAL["link_backlog_bytes"]`` is the index). Next to the vector an engine counts the uncached
lengths of the interval's arrivals in the bins of ``LENGTH_BIN_EDGES_TOKENS``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["LENGTH_BIN_CENTRES_TOKENS", "LENGTH_BIN_EDGES_TOKENS", "SIGNAL", "SIGNALS", "Signal", "length_bin"]


class Signal(NamedTuple):
    name: str
    unit: str
    meaning: str


SIGNALS: tuple[Signal, ...] = (
    Signal("time_s", "s", "simulated time at the end of the interval"),
    Signal("interval_s", "s", "length of the interval"),
    # flow of requests
    Signal("arrived", "requests", "arrivals in the interval, rejected ones included"),
    Signal("rejected", "requests", "arrivals refused: too long, too large, or the queue at its limit"),
    Signal("routed_remote", "requests", "arrivals sent to the remote cluster"),
    Signal("first_tokens", "requests", "requests whose first token came in the interval"),
    Signal("completed", "requests", "requests finished in the interval"),
    Signal("completed_good", "requests", "… of these, with TTFT and TPOT within their objectives"),
    Signal("completed_output_tokens", "tokens", "output tokens of the requests finished in the interval"),
    Signal("ttft_sum_s", "s", "sum of TTFT over the interval's first tokens"),
    Signal("waiting", "requests", "arrived and still without a first token, now"),
    Signal("waiting_integral_s", "requests x s", "integral over the interval of the number waiting for a first token"),
    Signal("waiting_young_integral_s", "requests x s", "the same, counting only requests that have waited < patience"),
    # prefill pools
    Signal("remote_queue", "requests", "queue at the remote prefill pool, now"),
    Signal("remote_oldest_wait_s", "s", "age in the queue of its head, 0 if empty"),
    Signal("remote_expected_wait_s", "s", "wait that a new request would have by the queue's known prefill times"),
    Signal("remote_busy_share", "1", "busy instance-seconds / remote instance-seconds of the interval"),
    Signal("local_queue", "requests", "queue at the local prefill pool, now"),
    Signal("local_oldest_wait_s", "s", "age in the queue of its head, 0 if empty"),
    Signal("local_expected_wait_s", "s", "wait that a new request would have by the queue's known prefill times"),
    Signal("local_busy_share", "1", "busy instance-seconds / local prefill-role instance-seconds of the interval"),
    # link
    Signal("link_capacity_gbps", "Gbps", "capacity of the link, now"),
    Signal("link_capacity_bytes", "bytes", "what the link could have carried in the interval"),
    Signal("link_sent_bytes", "bytes", "KV bytes carried in the interval"),
    Signal(
        "link_returned_bytes", "bytes", "bytes carried the other way in the interval (prefix copies to the remote side)"
    ),
    Signal("link_backlog_bytes", "bytes", "KV bytes produced and not yet sent, now"),
    Signal("link_flows", "flows", "transfers open, now"),
    Signal("link_congested_share", "1", "share of the interval in which flows wanted more than the capacity"),
    # decode
    Signal("decode_queue", "requests", "requests whose KV is there and that wait for a decode slot, now"),
    Signal("decode_oldest_wait_s", "s", "age of the oldest of them, 0 if none"),
    Signal("decode_active", "requests", "sequences decoding, now"),
    Signal("decode_busy_share", "1", "occupied slot-seconds / slot-seconds of decode-role instances in the interval"),
    # roles
    Signal("prefill_nodes", "instances", "local instances in the prefill role, now (N_p)"),
    Signal("decode_nodes", "instances", "local instances in the decode role and admitting, now (N_d)"),
    Signal("converting_nodes", "instances", "local instances draining or in conversion, now"),
    Signal("conversions", "conversions", "role conversions that ended in the interval"),
    Signal("failed_nodes", "instances", "instances of both clusters that are down, now"),
    # control in force
    Signal("threshold_tokens", "tokens", "routing threshold t in force"),
    Signal("price_s", "s", "price β in force (0 under the threshold law)"),
    Signal("target_prefill_nodes", "instances", "target N_p in force"),
)

SIGNAL: dict[str, int] = {signal.name: index for index, signal in enumerate(SIGNALS)}

# Eight bins an octave from 16 tokens to 2^20: 9 % wide, fine enough for the online closed form.
BINS_PER_OCTAVE = 8
FIRST_OCTAVE, LAST_OCTAVE = 4, 20
LENGTH_BIN_EDGES_TOKENS: np.ndarray = 2.0 ** np.arange(
    FIRST_OCTAVE, LAST_OCTAVE + 0.5 / BINS_PER_OCTAVE, 1.0 / BINS_PER_OCTAVE
)
LENGTH_BIN_CENTRES_TOKENS: np.ndarray = np.sqrt(LENGTH_BIN_EDGES_TOKENS[:-1] * LENGTH_BIN_EDGES_TOKENS[1:])


def length_bin(length_tokens: np.ndarray | float) -> np.ndarray:
    """Index of the bin of each length; lengths outside fall into the first or the last bin."""
    index = np.searchsorted(LENGTH_BIN_EDGES_TOKENS, length_tokens, side="right") - 1
    return np.clip(index, 0, len(LENGTH_BIN_CENTRES_TOKENS) - 1)
