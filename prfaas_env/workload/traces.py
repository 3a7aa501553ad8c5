"""Requests from a trace file in the Mooncake format: JSON lines, plain or gzip-compressed.

One object a line: ``timestamp`` (ms), ``input_length`` and ``output_length`` (tokens), and ``hash_ids``, the ids of the
prompt's 512-token blocks, prefix-chained (equal id = equal prefix up to and with that block). The trace files of others
are not part of the project; see docs/scenarios.md for where to get them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import warnings
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import Clock
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.stream import RequestStream

__all__ = ["Trace", "TraceWarning", "TraceWorkload", "UnusableRow", "find_trace", "read_trace"]

BLOCK_TOKENS = 512
TRACES_VARIABLE = "PRFAAS_TRACES"
_REPOSITORY = Path(__file__).resolve().parents[2]


class TraceWarning(UserWarning):
    """Rows of a trace were left out."""


class UnusableRow(NamedTuple):
    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """A trace as read, in order of time: arrays of one entry a request, and the rows that were left out.

    ``hash_offsets`` and ``block_hashes`` are as in :class:`RequestStream`, for blocks of 512 tokens.
    """

    path: Path
    timestamp_s: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    hash_offsets: np.ndarray
    block_hashes: np.ndarray
    unusable: tuple[UnusableRow, ...]

    def __len__(self) -> int:
        return len(self.timestamp_s)


def find_trace(path: str) -> Path:
    """The file behind a trace's path; :class:`ConfigError` saying where it was looked for.

    A relative path is tried from the working directory, the folder named by the variable ``PRFAAS_TRACES``, and the
    folder ``../shared/traces`` beside the repository.
    """
    folders = [
        Path(),
        *map(Path, filter(None, [os.environ.get(TRACES_VARIABLE)])),
        _REPOSITORY.parent / "shared/traces",
    ]
    for folder in folders:
        if (folder / path).expanduser().is_file():
            return (folder / path).expanduser()
    raise ConfigError(
        f"trace {path!r} not found; download it (docs/scenarios.md says where from) and name its folder in the "
        f"environment variable {TRACES_VARIABLE}"
    )


def read_trace(path: str | Path, strict: bool = False) -> Trace:
    """Read a Mooncake trace. Each unusable row is left out and listed with its line number and reason.

    Raises :class:`ConfigError` where the file cannot be read, is empty, ends within a row or holds no usable row; with
    ``strict`` also at the first unusable row.
    """
    path = Path(path)
    text = _text(path)
    lines = text.splitlines()
    if not lines:
        raise ConfigError(f"{path}: the trace is empty")
    rows: list[tuple[float, int, int, list[int]]] = []
    unusable: list[UnusableRow] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line))
        except ValueError as error:
            if number == len(lines) and not text.endswith("\n") and isinstance(error, json.JSONDecodeError):
                raise ConfigError(f"{path}: the trace is truncated: line {number} ends within a row") from None
            reason = "not a JSON object" if isinstance(error, json.JSONDecodeError) else str(error)
            if strict:
                raise ConfigError(f"{path}: line {number}: {reason}") from None
            unusable.append(UnusableRow(number, reason))
    if not rows:
        first = f" (line {unusable[0].line}: {unusable[0].reason})" if unusable else ""
        raise ConfigError(f"{path}: the trace has no usable row{first}")
    rows.sort(key=lambda row: row[0])  # stable: rows of one time stay in file order
    counts = [len(row[3]) for row in rows]
    return Trace(
        path,
        np.array([row[0] for row in rows]) / 1000.0,
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.int64),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.unique([block for row in rows for block in row[3]], return_inverse=True)[1],  # numbered without gaps
        tuple(unusable),
    )


def _bytes(path: Path) -> bytes:
    """The content of a file, decompressed if it is gzip."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except EOFError:
        raise ConfigError(f"{path}: the trace is truncated: the gzip stream ends early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ConfigError(f"{path}: not a valid gzip file ({error})") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file (expected JSON lines, plain or gzip-compressed)") from None


def _row(line: str) -> tuple[float, int, int, list[int]]:
    """Timestamp in ms, input tokens, output tokens, block ids; :class:`ValueError` with the reason."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {row!r}"[:80])
    timestamp = _number(row, "timestamp", 0)
    lengths = [_number(row, key, 1) for key in ("input_length", "output_length")]
    if any(length % 1 for length in lengths):
        raise ValueError("input_length, output_length: expected whole numbers")
    blocks = row.get("hash_ids", [])
    if not isinstance(blocks, list) or not all(type(b) is int and 0 <= b < 2**63 for b in blocks):
        raise ValueError("hash_ids: expected a list of whole numbers ≥ 0")
    wanted = -(-int(lengths[0]) // BLOCK_TOKENS)
    if blocks and len(blocks) != wanted:
        raise ValueError(f"hash_ids: expected {wanted} blocks for {int(lengths[0])} tokens, got {len(blocks)}")
    return timestamp, int(lengths[0]), int(lengths[1]), blocks


def _number(row: dict[str, Any], key: str, least: float) -> float:
    if key not in row:
        raise ValueError(f"{key}: missing")
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < least:
        raise ValueError(f"{key}: expected a number ≥ {least}, got {value!r}"[:80])
    return float(value)


@lru_cache(maxsize=4)
def _cached(path: Path, modified_ns: int, strict: bool) -> Trace:  # noqa: ARG001 - part of the cache key
    return read_trace(path, strict)


@lru_cache(maxsize=4)
def _sha256(path: Path, modified_ns: int) -> str:  # noqa: ARG001 - part of the cache key
    return hashlib.sha256(_bytes(path)).hexdigest()


@dataclass(frozen=True)
class TraceWorkload(Record):
    """Replay of a trace file.

    - ``rate_scale``: the rate is multiplied by it (time is divided by it).
    - ``length_scale``: input lengths are multiplied by it; block ids stay, a block then covers 512 × scale tokens
      (rounded down). Outputs are not scaled.
    - ``start_s``: where in the trace (in its own time) the episode starts; it ends with the scenario's horizon, or with
      the trace if that is shorter.
    - ``batch_s``: timestamps come in steps of this; each batch is spread uniformly over its step, by the seed.
      0 takes the timestamps as they are. Mooncake's are 3 s (measured).
    - ``max_input_tokens``: longer prompts (after scaling) are cut to it.
    - ``sha256``: of the decompressed file; another file is refused.
    - ``strict``: refuse a trace with unusable rows instead of leaving them out with a :class:`TraceWarning`.
    """

    kind: ClassVar[str] = "trace"

    path: str
    rate_scale: Positive
    length_scale: Positive
    start_s: NonNegative = 0.0
    batch_s: NonNegative = 3.0
    max_input_tokens: Annotated[int, Range(ge=1)] | None = None
    sha256: str | None = None
    strict: bool = False

    @property
    def needs_rate(self) -> bool:
        """A trace has its own rate."""
        return False

    def missing(self) -> str | None:
        """Why the trace cannot be read here, in one line, or ``None`` if its file is there."""
        try:
            find_trace(self.path)
        except ConfigError as error:
            return str(error)
        return None

    def identity(self) -> dict[str, Any]:
        """What stands for the file in a content hash: its name and content, not the folder it lies in."""
        return {"path": Path(self.path).name, "sha256": self.sha256 or self._digest(find_trace(self.path))}

    def trace(self) -> Trace:
        """The trace itself. Raises :class:`ConfigError` (absent, unreadable, not the file that ``sha256`` names)."""
        path = find_trace(self.path)
        if self.sha256 is not None and (found := self._digest(path)) != self.sha256:
            raise ConfigError(f"{path}: expected the file with sha256 {self.sha256[:12]}…, got {found[:12]}…")
        trace = _cached(path, path.stat().st_mtime_ns, self.strict)
        if trace.unusable:
            line, reason = trace.unusable[0]
            left_out = f"{len(trace.unusable)} of {len(trace) + len(trace.unusable)} rows left out"
            warnings.warn(f"{path}: {left_out}, the first is line {line}: {reason}", TraceWarning, stacklevel=2)
        return trace

    def _digest(self, path: Path) -> str:
        return _sha256(path, path.stat().st_mtime_ns)

    def draw(
        self, rng: np.random.Generator, horizon_s: float, rate_rps: float | None = None, clock: Clock | None = None
    ) -> RequestStream:
        """The requests of ``[0, horizon_s)``. ``rate_rps`` and ``clock`` play no part: the trace has its own."""
        del rate_rps, clock
        trace = self.trace()
        jitter = rng.random(len(trace)) * self.batch_s
        start = np.searchsorted(trace.timestamp_s, self.start_s, side="left")
        arrival_s = (trace.timestamp_s + jitter - self.start_s)[start:] / self.rate_scale
        order = start + np.argsort(arrival_s, kind="stable")
        stream = RequestStream(
            np.sort(arrival_s),
            np.maximum(np.rint(trace.input_tokens[order] * self.length_scale), 1).astype(np.int64),
            trace.output_tokens[order],
            **_reordered(trace, order),
            block_tokens=max(int(BLOCK_TOKENS * self.length_scale), 1),
        ).before(horizon_s)
        return stream if self.max_input_tokens is None else _clipped(stream, self.max_input_tokens)


def _reordered(trace: Trace, order: np.ndarray) -> dict[str, np.ndarray]:
    counts = np.diff(trace.hash_offsets)[order]
    flat = ragged_index(trace.hash_offsets[order], counts)
    return {"hash_offsets": np.concatenate([[0], np.cumsum(counts)]), "block_hashes": trace.block_hashes[flat]}


def _clipped(stream: RequestStream, most: int) -> RequestStream:
    """Prompts cut to ``most`` tokens, and to the blocks that these touch."""
    counts = np.diff(stream.hash_offsets)
    kept = np.minimum(counts, -(-np.minimum(stream.input_tokens, most) // stream.block_tokens))
    return RequestStream(
        stream.arrival_s,
        np.minimum(stream.input_tokens, most),
        stream.output_tokens,
        hash_offsets=np.concatenate([[0], np.cumsum(kept)]),
        block_hashes=stream.block_hashes[ragged_index(stream.hash_offsets[:-1], kept)],
        block_tokens=stream.block_tokens,
    )
