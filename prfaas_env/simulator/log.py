"""The request log: one row a request, with every time and count of its life (model.md section 8)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "COMPLETED",
    "IN_SYSTEM",
    "REJECTED",
    "REJECT_REASONS",
    "REQUEST_COLUMNS",
    "REQUEST_DTYPE",
    "STATUSES",
    "Column",
    "empty_log",
]

IN_SYSTEM, COMPLETED, REJECTED = 0, 1, 2
STATUSES = ("in the system", "completed", "rejected")
REJECT_REASONS = (
    "",
    "longer than the context limit",
    "KV cache larger than an instance's memory",
    "the queue of its prefill pool is at its limit",
)


class Column(NamedTuple):
    name: str
    dtype: str
    unit: str
    meaning: str


# Times are of simulated time, NaN for what has not happened; instances are numbered inside their cluster.
REQUEST_COLUMNS: tuple[Column, ...] = (
    Column("arrival_s", "f8", "s", "when it arrived"),
    Column("input_tokens", "i8", "tokens", "length of the whole prompt"),
    Column("output_tokens", "i8", "tokens", "tokens to decode, the first included"),
    Column("cached_tokens", "i8", "tokens", "prefix found at the cluster that prefilled it"),
    Column("service_class", "i4", "", "number of its service class, from 0"),
    Column("session_id", "i8", "", "number of its session, −1 without one"),
    Column("remote", "?", "", "whether it was prefilled at the remote cluster"),
    Column("prefill_instance", "i4", "", "instance of that cluster that prefilled it, −1 before"),
    Column("decode_instance", "i4", "", "local instance that decodes it, −1 before"),
    Column("prefill_start_s", "f8", "s", "when its prefill began; after a failure, began anew"),
    Column("prefill_end_s", "f8", "s", "when prefill ended"),
    Column("kv_ready_s", "f8", "s", "when all its KV cache was at the decode side"),
    Column("decode_start_s", "f8", "s", "when it had a decode slot"),
    Column("first_token_s", "f8", "s", "when its first token was decoded"),
    Column("finish_s", "f8", "s", "when its last token was decoded"),
    Column("ttft_s", "f8", "s", "first token − arrival + the deployment's constant overhead"),
    Column("tpot_s", "f8", "s", "(finish − first token) / (output − 1); 0 for a single token"),
    Column("bytes_sent", "f8", "bytes", "over the link, remote → local"),
    Column("bytes_returned", "f8", "bytes", "over the link, local → remote (prefix copies)"),
    Column("status", "i1", "", "its state at the end of the run, by the codes below (``STATUSES``)"),
    Column("reject_reason", "i1", "", "why it was refused, by the codes below (``REJECT_REASONS``)"),
)

REQUEST_DTYPE = np.dtype([(column.name, column.dtype) for column in REQUEST_COLUMNS])


def empty_log(n: int) -> np.ndarray:
    """``n`` rows in which nothing has happened yet."""
    log = np.zeros(n, dtype=REQUEST_DTYPE)
    for name in REQUEST_DTYPE.names or ():
        if REQUEST_DTYPE[name].kind == "f" and not name.startswith("bytes"):
            log[name] = np.nan
    log["prefill_instance"] = log["decode_instance"] = -1
    return log
