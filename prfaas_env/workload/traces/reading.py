"""From the rows of a trace file to a :class:`Trace`: every row is either used, or counted with the reason why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.workload.traces.checking import NO_TIME, Checker
from prfaas_env.workload.traces.formats import FORMATS, Columns, FormatName
from prfaas_env.workload.traces.rows import CUT, Batch, batches, polars
from prfaas_env.workload.traces.trace import Trace, UnusableRow

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_trace"]

LISTED = 100  # unusable rows that are kept one by one; the rest is only counted
_NS = 1_000_000_000


def read_trace(
    path: str | Path,
    strict: bool = False,
    form: FormatName = "mooncake",
    columns: Columns | None = None,
    start_s: float = 0.0,
    end_s: float = float("inf"),
) -> Trace:
    """Read a trace, or of a long one only the requests of ``[start_s, end_s)``: the rest is looked at and let go.

    ``columns`` says what holds what in a file of no published format (``form="table"``). Times count from the trace's
    own zero (Mooncake, BurstGPT), else from the earliest request. Each unusable row is left out, listed with its line
    number (in Parquet the row's) and reason, and counted.

    Raises :class:`ConfigError` where the file cannot be read, lacks a column, is empty, ends within a row or holds no
    usable row; with ``strict`` also at the first unusable row, and where rows are out of order of time.
    """
    path = Path(path)
    if (form == "table") != (columns is not None):
        raise ConfigError("columns: expected with the format 'table', and only there")
    known = FORMATS.get(form)
    used = columns or FORMATS[form].columns
    optional = known.optional if known else ()
    own_clock = known.own_clock if known else False
    reader = _Reader(path, used, optional, strict, 0.0 if own_clock else None, start_s, end_s)
    reader.read()
    if reader.earliest < reader.zero and not own_clock:  # the first row was not the earliest: count from that one
        reader = _Reader(path, used, optional, strict, reader.earliest, start_s, end_s)
        reader.read()
    return reader.trace()


class _Reader:
    """Rows come in by the batch; what is kept of them are arrays. ``zero`` of ``None`` is the first usable row."""

    def __init__(
        self,
        path: Path,
        columns: Columns,
        optional: Sequence[str],
        strict: bool,
        zero: float | None,
        start_s: float,
        end_s: float,
    ) -> None:
        self.path, self.columns, self.optional, self.strict = path, columns, optional, strict
        self.checker = Checker(path, columns)
        self.zero = np.nan if zero is None else zero
        self.start_s, self.end_s = start_s, end_s
        self.earliest, self.latest_read = np.inf, -np.inf
        self.rows, self.out_of_order = 0, 0
        self.unusable: list[UnusableRow] = []
        self.left_out: Counter[str] = Counter()
        self.kept: list[pl.DataFrame] = []

    def read(self) -> None:
        nothing = True
        for batch in batches(self.path, self.columns, self.optional):
            nothing = False
            self._take(batch)
        if nothing:
            raise ConfigError(f"{self.path}: the trace is empty")
        if not self.rows:
            first = f" (line {self.unusable[0].line}: {self.unusable[0].reason})" if self.unusable else ""
            raise ConfigError(f"{self.path}: the trace has no usable row{first}")
        if self.strict and self.out_of_order:
            raise ConfigError(f"{self.path}: {self.out_of_order} rows are out of order of time")

    def _take(self, batch: Batch) -> None:
        good, refused = self.checker.split(batch.frame)
        refused = sorted(batch.refused + refused)
        if refused:
            last = refused[-1]
            cut = last.line == batch.cut_line
            if cut and (last.reason == CUT or last.reason.endswith("missing") or NO_TIME in last.reason):
                raise ConfigError(f"{self.path}: the trace is truncated: line {last.line} ends within a row")
            if self.strict:
                raise ConfigError(f"{self.path}: line {refused[0].line}: {refused[0].reason}")
            self.left_out.update(row.reason.partition(", got ")[0] for row in refused)
            self.unusable += refused[: LISTED - len(self.unusable)]
        if len(good):
            self._keep(good)

    def _keep(self, good: pl.DataFrame) -> None:
        pl = polars()
        times = good["time"].to_numpy()
        if np.isnan(self.zero):
            self.zero = times[0]
        self.rows += len(times)
        self.earliest = min(self.earliest, times.min())
        self.out_of_order += int((np.diff(times, prepend=self.latest_read) < 0).sum())
        self.latest_read = times[-1]
        per_s = _NS if self.columns.arrival_unit == "datetime" else 1.0
        since = (pl.col("time") - self.zero).cast(pl.Float64) / per_s
        window = good.with_columns(since.alias("time")).filter(
            (pl.col("time") >= self.start_s) & (pl.col("time") < self.end_s)
        )
        if len(window):
            self.kept.append(window)

    def trace(self) -> Trace:
        """What was read, in order of time (requests of one time stay in file order)."""
        pl = polars()
        if self.kept:
            frame = pl.concat(self.kept).sort("time", maintain_order=True)
        else:
            frame = pl.DataFrame(schema={"time": pl.Float64, "input": pl.Int64, "output": pl.Int64})
        self.kept.clear()
        times, n = frame["time"].to_numpy(), len(frame)
        sessions = np.full(n, -1, dtype=np.int64)
        if "session" in frame.columns:
            sessions = frame["session"].rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
        classes = frame["service_class"].to_numpy() if "service_class" in frame.columns else np.zeros(n, dtype=np.int64)
        counts, blocks = np.zeros(n, dtype=np.int64), np.empty(0, dtype=np.int64)
        if "hashes" in frame.columns:
            counts = frame["hashes"].list.len().cast(pl.Int64).to_numpy()
            flat = frame["hashes"].explode(empty_as_null=False).to_numpy()
            blocks = np.unique(flat, return_inverse=True)[1]  # numbered without gaps
        return Trace(
            path=self.path,
            timestamp_s=times,
            input_tokens=frame["input"].to_numpy(),
            output_tokens=frame["output"].to_numpy(),
            hash_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            block_hashes=blocks,
            session_id=sessions,
            service_class=classes,
            block_tokens=self.columns.block_tokens,
            usable_rows=self.rows,
            unusable=tuple(self.unusable),
            left_out=dict(self.left_out),
            out_of_order=self.out_of_order,
            widest_gap_s=float(np.diff(times).max(initial=0.0)),
        )
