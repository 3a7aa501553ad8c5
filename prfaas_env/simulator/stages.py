"""Where the time to a request's first token went, stage by stage."""

from __future__ import annotations

import numpy as np

__all__ = ["STAGES", "ttft_parts_s"]

STAGES = ("queue", "prefill", "transfer", "decode wait", "first token", "overhead")
"""Waiting for a prefill instance; prefill; KV on its way after that; waiting for a decode slot; the first decode step;
the deployment's constant overhead."""

_MARKS = ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_ready_s", "decode_start_s", "first_token_s")


def ttft_parts_s(requests: np.ndarray) -> np.ndarray:
    """TTFT of each request by stage, float64 (n, ``STAGES``): a row sums to ``ttft_s``, NaN without a first token.

    ``requests`` is a request log (``REQUEST_DTYPE``). With layer-wise pipelining *transfer* is only what prefill does
    not hide. What a failure undid counts as *queue*; what it repeated once the first token was shown counts nowhere.
    """
    marks_s = np.column_stack([requests[name] for name in _MARKS])
    first_s = requests["first_token_s"]
    marks_s = np.where(np.isnan(first_s)[:, None], np.nan, np.fmin(marks_s, first_s[:, None]))
    overhead_s = requests["ttft_s"] - (first_s - requests["arrival_s"])
    return np.column_stack([np.diff(np.maximum.accumulate(marks_s, axis=1), axis=1), overhead_s])
