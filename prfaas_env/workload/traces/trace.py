"""A trace as read: arrays of one entry a request, and an account of what could not be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["Trace", "TraceWarning", "UnusableRow"]


class TraceWarning(UserWarning):
    """Something about a trace that its user should know: rows left out, rows out of order, a doubtful gap."""


class UnusableRow(NamedTuple):
    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """A trace as read, in order of time: arrays of one entry a request (n of them), and the rows that were left out.

    - ``timestamp_s``: float64 (n,), seconds from the beginning of the trace.
    - ``input_tokens``, ``output_tokens``: int64 (n,), ≥ 1.
    - ``hash_offsets`` int64 (n + 1,), ``block_hashes`` int64: as in :class:`RequestStream`, blocks of ``block_tokens``.
    - ``session_id``: int64 (n,), −1 where the file names none; ``service_class``: int64 (n,).
    - ``usable_rows``: of the whole file; more than n where only a time window was kept.
    - ``unusable``: the first rows that were left out; ``left_out`` counts them all, by reason.
    - ``out_of_order``: rows earlier than the row before them in the file; they were sorted.
    - ``widest_gap_s``: the longest time without an arrival in what was kept.
    """

    path: Path
    timestamp_s: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    hash_offsets: np.ndarray
    block_hashes: np.ndarray
    session_id: np.ndarray
    service_class: np.ndarray
    block_tokens: int
    usable_rows: int
    unusable: tuple[UnusableRow, ...]
    left_out: Mapping[str, int]
    out_of_order: int
    widest_gap_s: float

    def __len__(self) -> int:
        return len(self.timestamp_s)

    @property
    def equal_times(self) -> int:
        """Requests that came at the very time of another before them: a coarse clock, or rows given twice."""
        return int((np.diff(self.timestamp_s) == 0.0).sum())

    def remarks(self) -> tuple[str, ...]:
        """What a user should know before he trusts the trace, one line each; none for a clean file."""
        said = []
        if self.left_out:
            first, total = self.unusable[0], sum(self.left_out.values())
            reasons = ", ".join(f"{count} × {reason}" for reason, count in self.left_out.items())
            rows = f"{total} of {self.usable_rows + total} rows left out"
            said.append(f"{rows}, the first is line {first.line}: {first.reason} ({reasons})")
        if self.out_of_order:
            said.append(f"{self.out_of_order} rows were out of order of time and have been sorted")
        span_s = float(self.timestamp_s[-1] - self.timestamp_s[0]) if len(self) else 0.0
        if len(self) >= _GAP_ROWS and self.widest_gap_s > _GAP_SHARE * span_s:
            said.append(f"nothing arrives for {self.widest_gap_s:,.0f} s of {span_s:,.0f} s: mixed units of time?")
        return tuple(said)


_GAP_ROWS = 100  # with fewer a long gap says nothing
_GAP_SHARE = 0.4
