"""Whether a row of a trace can be used: its values as numbers, or the reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prfaas_env.config import ConfigError
from prfaas_env.workload.traces.formats import Columns
from prfaas_env.workload.traces.rows import polars
from prfaas_env.workload.traces.trace import UnusableRow

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NO_TIME", "Checker"]

MOST_TOKENS = 2**31 - 1
NO_TIME = "a date and time"
_NS = 1_000_000_000
_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_LATEST_S = 7_258_118_400  # the year 2200: nanoseconds since 1970 still fit 63 bits
_REST = r"^(?:\.(?<fraction>\d{1,9}))?\s*(?<zone>Z|UTC|[+-]\d{2}:?\d{2})?$"


class _Check(NamedTuple):
    """What must hold of a row, and what is said where it does not (text is made for those rows only)."""

    fits: pl.Expr
    said: pl.Expr


class Checker:
    """Checks batch after batch of one file; it remembers whether the file's times name a time zone."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        self.zoned: bool | None = None  # as in the first row that has a time

    def split(self, raw: pl.DataFrame) -> tuple[pl.DataFrame, list[UnusableRow]]:
        """The usable rows (``time`` is in s, of ``datetime`` in whole ns since 1970) and the others with a reason."""
        pl = polars()
        raw, time, checks = self._datetimes(raw) if self.columns.arrival_unit == "datetime" else self._numbers(raw)
        values = {"time": time}
        for held in ("input", "output"):
            value = pl.col(held).cast(pl.Float64, strict=False)
            fits = value.is_finite() & (value >= 1) & (value <= MOST_TOKENS) & (value % 1 == 0)
            checks.append(self._expected(fits, held, "a whole number ≥ 1"))
            values[held] = value.cast(pl.Int64, strict=False)
        if "service_class" in raw.columns:
            classes = list(self.columns.classes)
            number = pl.col("service_class").cast(pl.String)
            number = number.replace_strict(classes, range(len(classes)), default=None, return_dtype=pl.Int64)
            checks.append(self._expected(number.is_not_null(), "service_class", f"one of {', '.join(classes)}"))
            values["service_class"] = number
        if "session" in raw.columns:
            values["session"] = pl.col("session").cast(pl.String)
        if "hashes" in raw.columns:
            values["hashes"] = _ids(raw).fill_null([])
            checks += self._hash_checks(values)
        fits = [check.fits.fill_null(False) for check in checks]
        raw = raw.with_columns(usable=pl.all_horizontal(fits))
        bad = raw.filter(~pl.col("usable"))
        refused = []
        if len(bad):
            reason = pl.coalesce(pl.when(~ok).then(check.said) for ok, check in zip(fits, checks, strict=True))
            refused = [UnusableRow(*row) for row in bad.select("line", reason.alias("reason")).iter_rows()]
        return raw.filter(pl.col("usable")).select(**values), refused

    def _expected(self, fits: pl.Expr, held: str, expected: str) -> _Check:
        pl = polars()
        name = pl.lit(self.columns.named[held])
        got = pl.col(held).cast(pl.String, strict=False).str.slice(0, 40)
        said = pl.when(pl.col(held).is_null()).then(pl.format("{}: missing", name))
        return _Check(fits, said.otherwise(pl.format("{}: expected {}, got {}", name, pl.lit(expected), got)))

    def _hash_checks(self, values: Mapping[str, pl.Expr]) -> list[_Check]:
        pl = polars()
        name, ids, tokens = pl.lit(self.columns.hashes), values["hashes"], values["input"]
        count = ids.list.len()
        wanted = (tokens + self.columns.block_tokens - 1) // self.columns.block_tokens
        whole = (count == 0) | ((ids.list.min() >= 0) & (ids.list.drop_nulls().list.len() == count))
        return [
            _Check(whole, pl.format("{}: expected a list of whole numbers ≥ 0", name)),
            _Check(
                (count == 0) | (count == wanted),
                pl.format("{}: expected {} blocks for {} tokens, got {}", name, wanted, tokens, count),
            ),
        ]

    def _numbers(self, raw: pl.DataFrame) -> tuple[pl.DataFrame, pl.Expr, list[_Check]]:
        pl = polars()
        if raw.schema["arrival"].is_temporal():
            name = self.columns.arrival
            raise ConfigError(f"{self.path}: {name}: holds dates and times: expected arrival_unit: datetime")
        value = pl.col("arrival").cast(pl.Float64, strict=False)
        unit = self.columns.arrival_unit
        latest = f"a time in {unit} before the year 2200 (another arrival_unit?)"
        checks = [
            self._expected(value.is_finite() & (value >= 0), "arrival", "a number ≥ 0"),
            self._expected(value <= _LATEST_S * _PER_S[unit], "arrival", latest),
        ]
        return raw, value / _PER_S[unit], checks

    def _datetimes(self, raw: pl.DataFrame) -> tuple[pl.DataFrame, pl.Expr, list[_Check]]:
        """Times as nanoseconds since 1970 (in UTC where they name a zone)."""
        pl = polars()
        kind = raw.schema["arrival"]
        if isinstance(kind, pl.Datetime):
            given = pl.col("arrival").is_not_null()
            return raw, pl.col("arrival").dt.epoch("ns"), [self._expected(given, "arrival", NO_TIME)]
        if kind != pl.String:
            name = self.columns.arrival
            raise ConfigError(f"{self.path}: {name}: expected dates and times, got {kind}: another arrival_unit?")
        at, form = len("1970-01-01 00:00:00"), "%Y-%m-%d %H:%M:%S"
        second = pl.col("arrival").str.slice(0, at).str.replace("T", " ", literal=True)
        raw = raw.with_columns(
            second=second.str.to_datetime(form, time_unit="us", strict=False).dt.epoch("s"),
            rest=pl.col("arrival").str.slice(at).str.extract_groups(_REST),
            well_formed=pl.col("arrival").str.slice(at).str.contains(_REST),
        )
        fraction, zone = (pl.col("rest").struct.field(part) for part in ("fraction", "zone"))
        is_time = pl.col("well_formed") & pl.col("second").is_between(0, _LATEST_S)
        checks = [self._expected(is_time, "arrival", NO_TIME)]
        if self.zoned is None:
            first = raw.filter(is_time).head(1).select(zone.is_not_null())
            self.zoned = first.item() if len(first) else None
        if self.zoned is not None:
            said = f"{self.columns.arrival}: expected times {'with' if self.zoned else 'without'} a time zone"
            checks.append(_Check(zone.is_not_null() == self.zoned, pl.lit(f"{said} as in the first row")))
        sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
        hours, minutes = (zone.str.slice(*part).cast(pl.Int64, strict=False).fill_null(0) for part in ((1, 2), (-2,)))
        offset_s = sign * (3600 * hours + 60 * minutes)  # neither Z nor UTC holds a number
        return (
            raw,
            (pl.col("second") - offset_s) * _NS + fraction.str.pad_end(9, "0").cast(pl.Int64).fill_null(0),
            checks,
        )


def _ids(raw: pl.DataFrame) -> pl.Expr:
    """Block ids as lists of whole numbers; what is none becomes a null within the list."""
    pl = polars()
    ids = pl.col("hashes")
    if raw.schema["hashes"] == pl.String:
        words = ids.str.replace_all(r"[\[\],]", " ").str.strip_chars().str.replace_all(r"\s+", " ")
        ids = pl.when(words != "").then(words.str.split(" "))
    return ids.cast(pl.List(pl.Int64), strict=False)
