"""The request log: one row a request, with every time and count of its life (model.md section 8)."""

from __future__ import annotations

import numpy as np

__all__ = ["COMPLETED", "IN_SYSTEM", "REJECTED", "REJECT_REASONS", "REQUEST_DTYPE", "empty_log"]

IN_SYSTEM, COMPLETED, REJECTED = 0, 1, 2
REJECT_REASONS = (
    "",
    "longer than the context limit",
    "KV cache larger than an instance's memory",
    "the queue of its prefill pool is at its limit",
)

# Times in seconds of simulated time, NaN for what has not happened; instances are numbered inside their cluster.
REQUEST_DTYPE = np.dtype(
    [
        ("arrival_s", "f8"),
        ("input_tokens", "i8"),
        ("output_tokens", "i8"),
        ("cached_tokens", "i8"),  # prefix found at the cluster that prefilled it
        ("service_class", "i4"),
        ("session_id", "i8"),
        ("remote", "?"),
        ("prefill_instance", "i4"),
        ("decode_instance", "i4"),
        ("prefill_start_s", "f8"),
        ("prefill_end_s", "f8"),
        ("kv_ready_s", "f8"),
        ("decode_start_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("ttft_s", "f8"),  # first token − arrival + the deployment's constant overhead
        ("tpot_s", "f8"),  # (finish − first token) / (output − 1); 0 for a single token
        ("bytes_sent", "f8"),  # over the link, remote → local
        ("bytes_returned", "f8"),  # over the link, local → remote (prefix copies)
        ("status", "i1"),
        ("reject_reason", "i1"),
    ]
)


def empty_log(n: int) -> np.ndarray:
    """``n`` rows in which nothing has happened yet."""
    log = np.zeros(n, dtype=REQUEST_DTYPE)
    for name in REQUEST_DTYPE.names or ():
        if REQUEST_DTYPE[name].kind == "f" and not name.startswith("bytes"):
            log[name] = np.nan
    log["prefill_instance"] = log["decode_instance"] = -1
    return log
