"""The raw rows of a trace file, batch by batch: CSV, JSON lines or Parquet through polars.

A batch that polars refuses is gone through line by line, so that one bad row is told apart from its neighbours.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prfaas_env.config import ConfigError, nearest
from prfaas_env.workload.traces.files import Lines, line_blocks
from prfaas_env.workload.traces.formats import Columns
from prfaas_env.workload.traces.trace import UnusableRow

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Batch", "batches", "polars"]

PARQUET_ROWS = 1 << 17
CUT = "the row ends early"
_SURPLUS = "\0surplus"  # no header has a name like this
_SURPLUS_REASON = "more fields than the header has"


class Batch(NamedTuple):
    """``frame`` has a column ``line`` and one for each column in use, named by what it holds; nulls where missing.

    ``refused`` are rows that could not be taken apart. ``cut_line``: the file's last, if no end of line follows it.
    """

    frame: pl.DataFrame
    refused: list[UnusableRow]
    cut_line: int | None = None


def polars() -> Any:
    """The data-frame library, imported when a trace is read; :class:`ConfigError` saying how to get it."""
    try:
        import polars
    except ImportError:
        raise ConfigError("reading a trace needs polars: pip install 'prfaas_env[traces]'") from None
    return polars


def batches(path: Path, columns: Columns, optional: Sequence[str] = ()) -> Iterator[Batch]:
    """The rows of a file. Its name says how it is written: ``.csv``, ``.jsonl`` or ``.parquet`` (text also ``.gz``).

    Raises :class:`ConfigError` where the file cannot be read, or lacks a column that is not ``optional``.
    """
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind == ".parquet":
        return _parquet(path, columns, optional)
    if kind in (".jsonl", ".ndjson", ".json"):
        return _json(path, columns)
    if kind in (".csv", ".txt"):
        return _csv(path, columns, optional)
    raise ConfigError(f"{path}: expected a name that ends with .csv, .jsonl or .parquet (text also with .gz)")


def _in_file(path: Path, columns: Columns, present: Sequence[str], optional: Sequence[str]) -> dict[str, str]:
    """The columns in use that the file has; :class:`ConfigError` naming one that it lacks."""
    for name in columns.named.values():
        if list(present).count(name) > 1:
            raise ConfigError(f"{path}: column {name!r} is there twice")
    for held, name in columns.named.items():
        if name not in present and held not in optional:
            raise ConfigError(f"{path}: no column {name!r} for {held}{nearest(name, present)}")
    return {held: name for held, name in columns.named.items() if name in present}


# ---- CSV


def _csv(path: Path, columns: Columns, optional: Sequence[str]) -> Iterator[Batch]:
    header: list[str] | None = None
    used: dict[str, str] = {}
    for block in line_blocks(path):
        if header is None:
            if not block.texts:
                continue
            header = _csv_header(path, block.texts[0])
            used = _in_file(path, columns, header, optional)
            block = Lines(block.numbers[1:], block.texts[1:], block.cut)
        if block.texts:
            yield _csv_batch(block, header, used)


def _csv_header(path: Path, text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise ConfigError(f"{path}: the header is not a row of CSV ({error})") from None


def _csv_batch(block: Lines, header: Sequence[str], used: Mapping[str, str]) -> Batch:
    pl = polars()
    names = [*header, _SURPLUS]
    try:
        frame = pl.read_csv(
            "\n".join(block.texts).encode(),
            has_header=False,
            schema=dict.fromkeys((str(i) for i in range(len(names))), pl.String),
            truncate_ragged_lines=True,
            missing_columns="insert",
        )
    except pl.exceptions.PolarsError:
        frame = None
    numbers: list[int] = block.numbers
    refused: list[UnusableRow] = []
    if frame is None or frame.height != len(numbers):  # a quote left open swallows lines
        rows, numbers, refused = _csv_rows(block, len(names))
        frame = pl.DataFrame(rows, schema={str(i): pl.String for i in range(len(names))}, orient="row")
    frame = frame.select(
        pl.Series("line", numbers, dtype=pl.Int64),
        *(pl.col(str(names.index(name))).alias(held) for held, name in used.items()),
        pl.col(str(len(header))).alias(_SURPLUS),
    )
    surplus = frame.filter(pl.col(_SURPLUS).is_not_null())["line"].to_list()
    refused += [UnusableRow(line, _SURPLUS_REASON) for line in surplus]
    return Batch(frame.filter(pl.col(_SURPLUS).is_null()).drop(_SURPLUS), refused, block.cut_line)


def _csv_rows(block: Lines, width: int) -> tuple[list[list[str | None]], list[int], list[UnusableRow]]:
    rows: list[list[Any]] = []
    numbers: list[int] = []
    refused: list[UnusableRow] = []
    for number, text in zip(block.numbers, block.texts, strict=True):
        try:
            fields = next(csv.reader([text], strict=True))
        except csv.Error as error:
            refused.append(UnusableRow(number, f"not a row of CSV ({error})"))
            continue
        rows.append([field or None for field in (fields + [""] * width)[:width]])
        numbers.append(number)
    return rows, numbers, refused


# ---- JSON lines


def _json(path: Path, columns: Columns) -> Iterator[Batch]:
    for block in line_blocks(path):
        if block.texts:
            yield _json_batch(block, columns)


def _json_batch(block: Lines, columns: Columns) -> Batch:
    pl = polars()
    types = dict.fromkeys(("input", "output"), pl.Float64)
    types |= {"arrival": pl.String if columns.arrival_unit == "datetime" else pl.Float64}
    types |= {"hashes": pl.List(pl.Int64), "session": pl.String, "service_class": pl.String}
    used = columns.named
    schema = {name: types[held] for held, name in used.items()}
    numbers: list[int] = block.numbers
    refused: list[UnusableRow] = []
    try:
        frame = pl.read_ndjson("\n".join(block.texts).encode(), schema=schema)
    except pl.exceptions.PolarsError:
        frame = None
    if frame is None or frame.height != len(numbers):
        rows, numbers, refused = _json_rows(block, used, columns.arrival_unit == "datetime")
        frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame = frame.select(
        pl.Series("line", numbers, dtype=pl.Int64), *(pl.col(name).alias(held) for held, name in used.items())
    )
    return Batch(frame, refused, block.cut_line)


def _json_rows(
    block: Lines, used: Mapping[str, str], datetimes: bool
) -> tuple[list[list[Any]], list[int], list[UnusableRow]]:
    rows: list[list[Any]] = []
    numbers: list[int] = []
    refused: list[UnusableRow] = []
    for number, text in zip(block.numbers, block.texts, strict=True):
        try:
            rows.append(_json_row(text, used, datetimes))
            numbers.append(number)
        except json.JSONDecodeError:
            refused.append(UnusableRow(number, CUT if number == block.cut_line else "not a JSON object"))
        except ValueError as error:
            refused.append(UnusableRow(number, str(error)))
    return rows, numbers, refused


def _json_row(text: str, used: Mapping[str, str], datetimes: bool) -> list[Any]:
    try:
        row = json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python reads no whole number of more than some thousand digits
        raise ValueError("a number of thousands of digits") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {text}"[:80])
    return [_json_value(row.get(name), held, name, datetimes) for held, name in used.items()]


def _json_value(value: Any, held: str, name: str, datetimes: bool) -> Any:
    if value is None:
        return None
    if held == "hashes":
        if not isinstance(value, list) or not all(type(block) is int and 0 <= block < 2**63 for block in value):
            raise ValueError(f"{name}: expected a list of whole numbers from 0 to 2^63 - 1")
        return value
    if held in ("session", "service_class"):
        return str(value)
    if held == "arrival" and datetimes:
        if not isinstance(value, str):
            raise ValueError(f"{name}: expected a date and time, got {value!r}"[:80])
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name}: expected a number, got {value!r}"[:80])
    return value if isinstance(value, float) or abs(value) < 2**63 else float("inf")


# ---- Parquet


def _check_type(path: Path, held: str, name: str, kind: pl.DataType) -> None:
    """:class:`ConfigError` if no value of a column of this type can be what it is said to hold."""
    pl = polars()
    if held == "hashes" and isinstance(kind, pl.List):
        fits = kind.inner.is_integer() or kind.inner in (pl.String, pl.Null)
    elif held in ("session", "service_class"):
        fits = not kind.is_nested() and kind not in (pl.Binary, pl.Object)
    elif held == "hashes":
        fits = kind in (pl.String, pl.Null)
    else:
        fits = kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Null)
    if not fits:
        raise ConfigError(f"{path}: column {name!r} cannot hold {held}: it is of type {kind}")


def _parquet(path: Path, columns: Columns, optional: Sequence[str]) -> Iterator[Batch]:
    pl = polars()
    try:
        whole = pl.scan_parquet(path, glob=False)
        schema = whole.collect_schema()
        used = _in_file(path, columns, schema.names(), optional)
        for held, name in used.items():
            _check_type(path, held, name, schema[name])
        rows = whole.select(pl.len()).collect().item()
        for start in range(0, rows, PARQUET_ROWS):
            frame = whole.slice(start, PARQUET_ROWS).select(pl.col(name).alias(h) for h, name in used.items()).collect()
            yield Batch(frame.with_row_index("line", offset=start + 1), [])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({' '.join(str(error).split())[:120]})") from None
