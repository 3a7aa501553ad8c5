"""From the rows of a trace file to a :class:`Trace`: every row is either used, or counted with the reason why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.workload.traces.formats import FORMATS, Columns, FormatName
from prfaas_env.workload.traces.rows import CUT, Batch, batches, polars
from prfaas_env.workload.traces.trace import Trace, UnusableRow

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_trace"]

LISTED = 100  # unusable rows that are kept one by one; the rest is only counted
MOST_TOKENS = 2**31 - 1
_NS = 1_000_000_000
_NO_TIME = "a date and time"
_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_ISO = (
    r"^(?<date>(?:19|20)\d{2}-\d{2}-\d{2})[T ](?<time>\d{2}:\d{2}:\d{2})(?:\.(?<fraction>\d{1,9}))?"
    r"\s*(?<zone>Z|UTC|[+-]\d{2}:?\d{2})?$"
)


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
        self.zero = np.nan if zero is None else zero
        self.start_s, self.end_s = start_s, end_s
        self.earliest, self.latest_read = np.inf, -np.inf
        self.rows, self.out_of_order = 0, 0
        self.zoned: bool | None = None  # whether times name a time zone, as in the first row that has a time
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
        pl = polars()
        checked = self._checked(batch.frame)
        bad = checked.filter(pl.col("reason").is_not_null())
        refused = [*batch.refused, *(UnusableRow(*row) for row in bad.select("line", "reason").iter_rows())]
        if refused:
            refused.sort()
            last = refused[-1]
            ends_here = batch.cut and last.line >= max(checked["line"].to_list(), default=0)
            if ends_here and (last.reason == CUT or last.reason.endswith("missing") or _NO_TIME in last.reason):
                raise ConfigError(f"{self.path}: the trace is truncated: line {last.line} ends within a row")
            if self.strict:
                raise ConfigError(f"{self.path}: line {refused[0].line}: {refused[0].reason}")
            self.left_out.update(reason.partition(", got ")[0] for _, reason in refused)
            self.unusable += refused[: LISTED - len(self.unusable)]
        good = checked.filter(pl.col("reason").is_null()).drop("reason")
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
            self.kept.append(window.drop("line"))

    def _checked(self, raw: pl.DataFrame) -> pl.DataFrame:
        """The rows with their values as numbers, and a ``reason`` where one cannot be used."""
        pl = polars()
        name = self.columns.named
        time, reasons = self._datetime(raw) if self.columns.arrival_unit == "datetime" else self._number(raw)
        values = {"line": pl.col("line"), "time": time}
        for held in ("input", "output"):
            value = pl.col(held).cast(pl.Float64, strict=False)
            fits = value.is_finite() & (value >= 1) & (value <= MOST_TOKENS) & (value % 1 == 0)
            reasons.append(_unless(fits, held, name[held], "a whole number ≥ 1"))
            values[held] = pl.when(fits).then(value).cast(pl.Int64, strict=False)
        if "service_class" in raw.columns:
            label = pl.col("service_class").cast(pl.String)
            expected = f"one of {', '.join(self.columns.classes)}"
            known = label.is_in(list(self.columns.classes))
            reasons.append(_unless(known, "service_class", name["service_class"], expected))
            values["service_class"] = label.replace_strict(
                list(self.columns.classes), range(len(self.columns.classes)), default=None, return_dtype=pl.Int64
            )
        if "session" in raw.columns:
            values["session"] = pl.col("session").cast(pl.String)
        if "hashes" in raw.columns:
            values["hashes"] = _ids(raw).fill_null([])
            ids, count = values["hashes"], values["hashes"].list.len()
            wrong = (ids.list.min() < 0) | (ids.list.drop_nulls().list.len() < count)
            reasons.append(pl.when(wrong).then(pl.lit(f"{name['hashes']}: expected a list of whole numbers ≥ 0")))
            wanted = (values["input"] + self.columns.block_tokens - 1) // self.columns.block_tokens
            said = pl.format(
                f"{name['hashes']}: expected {{}} blocks for {{}} tokens, got {{}}", wanted, values["input"], count
            )
            reasons.append(pl.when((count > 0) & (count != wanted)).then(said))
        return raw.select(**values, reason=pl.coalesce(reasons))

    def _number(self, raw: pl.DataFrame) -> tuple[pl.Expr, list[pl.Expr]]:
        pl = polars()
        name = self.columns.arrival
        if raw.schema["arrival"].is_temporal():
            raise ConfigError(f"{self.path}: {name}: holds dates and times: expected arrival_unit: datetime")
        value = pl.col("arrival").cast(pl.Float64, strict=False)
        fits = value.is_finite() & (value >= 0)
        return value / _PER_S[self.columns.arrival_unit], [_unless(fits, "arrival", name, "a number ≥ 0")]

    def _datetime(self, raw: pl.DataFrame) -> tuple[pl.Expr, list[pl.Expr]]:
        """Nanoseconds since 1970 (UTC, or of a clock without a zone)."""
        pl = polars()
        name, kind = self.columns.arrival, raw.schema["arrival"]
        if isinstance(kind, pl.Datetime):
            return pl.col("arrival").dt.epoch("ns"), [_unless(pl.lit(True), "arrival", name, "")]
        if kind != pl.String:
            raise ConfigError(f"{self.path}: {name}: expected dates and times, got {kind}: another arrival_unit?")
        part = pl.col("arrival").str.extract_groups(_ISO).struct
        zone = part.field("zone")
        second = pl.concat_str(part.field("date"), part.field("time"), separator=" ")
        second = second.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False).dt.epoch("s")
        sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
        digits = zone.str.extract_groups(r"(\d{2}):?(\d{2})$").struct
        hours, minutes = (digits.field(str(k)).cast(pl.Int64).fill_null(0) for k in (1, 2))
        fraction = part.field("fraction").str.pad_end(9, "0").cast(pl.Int64).fill_null(0)
        time = (second - sign * 60 * (60 * hours + minutes)) * _NS + fraction
        reasons = [_unless(second.is_not_null(), "arrival", name, _NO_TIME)]
        if self.zoned is None:
            first = raw.filter(second.is_not_null()).head(1).select(zone.is_not_null())
            self.zoned = first.item() if len(first) else None
        if self.zoned is not None:
            said = f"{name}: expected times {'with' if self.zoned else 'without'} a time zone as in the first row"
            reasons.append(_unless(zone.is_not_null() == self.zoned, "arrival", "", said))
        return time, reasons

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


def _unless(fits: pl.Expr, held: str, name: str, expected: str) -> pl.Expr:
    """The reason why a row cannot be used, or null. Without a ``name``, ``expected`` is all there is to say."""
    pl = polars()
    wrong = ~fits.fill_null(False)
    if not name:
        return pl.when(pl.col(held).is_not_null() & wrong).then(pl.lit(expected))
    got = pl.col(held).cast(pl.String).str.slice(0, 40)
    said = pl.format(f"{name.replace('{', '').replace('}', '')}: expected {expected}, got {{}}", got)
    return pl.when(pl.col(held).is_null()).then(pl.lit(f"{name}: missing")).when(wrong).then(said)


def _ids(raw: pl.DataFrame) -> pl.Expr:
    """Block ids as lists of whole numbers; what is none becomes a null within the list."""
    pl = polars()
    ids = pl.col("hashes")
    if raw.schema["hashes"] == pl.String:
        words = ids.str.replace_all(r"[\[\],]", " ").str.strip_chars().str.replace_all(r"\s+", " ")
        ids = pl.when(words != "").then(words.str.split(" "))
    return ids.cast(pl.List(pl.Int64), strict=False)
