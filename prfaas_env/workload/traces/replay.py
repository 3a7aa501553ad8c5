"""A trace as a workload: replayed at another rate, with other lengths, from any point, for as long as one likes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import Clock
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces.files import digest
from prfaas_env.workload.traces.find import find_trace
from prfaas_env.workload.traces.formats import FORMATS, Columns, FormatName
from prfaas_env.workload.traces.reading import read_trace
from prfaas_env.workload.traces.sessions import longer, turns
from prfaas_env.workload.traces.trace import Trace, TraceWarning

__all__ = ["TraceWorkload"]

Scale = Annotated[float, Range(ge=1e-6, le=1e6)]
_ReadOptions = tuple[bool, FormatName, Columns | None, float, float]


@lru_cache(maxsize=4)
def _cached(path: Path, modified_ns: int, options: _ReadOptions) -> Trace:  # noqa: ARG001 - part of the cache key
    return read_trace(path, *options)


@lru_cache(maxsize=4)
def _sha256(path: Path, modified_ns: int) -> str:  # noqa: ARG001 - part of the cache key
    return digest(path)


@dataclass(frozen=True)
class TraceWorkload(Record):
    """Replay of a trace file.

    - ``format``: ``mooncake``, ``azure`` (2023 and 2024), ``burstgpt``, or ``table``: any CSV, JSON lines or Parquet
      file, with ``columns``.
    - ``rate_scale``: the rate is multiplied by it (time is divided by it).
    - ``length_scale``: input lengths are multiplied by it; block ids stay, a block then covers its tokens × scale
      (rounded down). Outputs are not scaled.
    - ``start_s``, ``end_s``: the window of the trace (in its own time) that is replayed. The episode begins at
      ``start_s``; it ends with the scenario's horizon, or with the window if that is shorter.
    - ``resample``: go on to the horizon however short the window is, with whole sessions drawn from it by the seed.
    - ``batch_s``: timestamps come in steps of this; each batch is spread uniformly over its step, by the seed.
      0 takes the timestamps as they are. ``None``: the format's own (Mooncake 3 s, measured; BurstGPT 1 s; else 0).
    - ``max_input_tokens``, ``max_output_tokens``: what is longer (after scaling) is cut to it.
    - ``sha256``: of the decompressed file; another file is refused.
    - ``strict``: refuse a trace with unusable rows or rows out of order, instead of saying so in a
      :class:`TraceWarning`.
    """

    kind: ClassVar[str] = "trace"

    path: str
    rate_scale: Scale
    length_scale: Scale
    format: FormatName = "mooncake"
    columns: Columns | None = None
    start_s: NonNegative = 0.0
    end_s: Positive | None = None
    resample: bool = False
    batch_s: NonNegative | None = None
    max_input_tokens: Annotated[int, Range(ge=1)] | None = None
    max_output_tokens: Annotated[int, Range(ge=1)] | None = None
    sha256: str | None = None
    strict: bool = False

    def check(self) -> None:
        if self.format == "table" and self.columns is None:
            raise ConfigError("columns: missing key (format 'table': which column holds what)")
        if self.format != "table" and self.columns is not None:
            raise ConfigError(f"columns: expected none, format {self.format!r} has its own (or say format: table)")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise ConfigError(f"end_s: expected more than start_s {self.start_s:g}, got {self.end_s:g}")

    @property
    def needs_rate(self) -> bool:
        """A trace has its own rate."""
        return False

    @property
    def service_classes(self) -> int:
        """How many service classes the requests may be of."""
        return len(self.columns.classes) if self.columns and self.columns.classes else 1

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

    def trace(self, length_s: float = float("inf")) -> Trace:
        """The trace itself: of the window, at most the first ``length_s`` of it (in the trace's own time).

        Raises :class:`ConfigError` (absent, unreadable, not the file that ``sha256`` names).
        """
        path = find_trace(self.path)
        if self.sha256 is not None and (found := self._digest(path)) != self.sha256:
            raise ConfigError(f"{path}: expected the file with sha256 {self.sha256[:12]}…, got {found[:12]}…")
        end_s = float("inf") if self.end_s is None else self.end_s
        if not self.resample:
            end_s = min(end_s, self.start_s + length_s)
        options = (self.strict, self.format, self.columns, self.start_s, end_s)
        trace = _cached(path, path.stat().st_mtime_ns, options)
        for remark in trace.remarks():
            warnings.warn(f"{path}: {remark}", TraceWarning, stacklevel=2)
        return trace

    def _digest(self, path: Path) -> str:
        return _sha256(path, path.stat().st_mtime_ns)

    def draw(
        self, rng: np.random.Generator, horizon_s: float, rate_rps: float | None = None, clock: Clock | None = None
    ) -> RequestStream:
        """The requests of ``[0, horizon_s)``. ``rate_rps`` and ``clock`` play no part: the trace has its own."""
        del rate_rps, clock
        length_s = horizon_s * self.rate_scale
        trace = self.trace(length_s)
        jitter_rng, sessions_rng = rng, rng.spawn(1)[0]
        if self.resample and len(trace):
            trace = longer(trace, sessions_rng, self.start_s + length_s)
        batch_s = self.batch_s
        if batch_s is None:
            batch_s = FORMATS[self.format].batch_s if self.format in FORMATS else 0.0
        arrival_s = trace.timestamp_s + jitter_rng.random(len(trace)) * batch_s - self.start_s
        order = np.argsort(arrival_s, kind="stable")
        counts = np.diff(trace.hash_offsets)[order]
        most = self.max_input_tokens or np.iinfo(np.int64).max
        tokens = np.clip(np.rint(trace.input_tokens[order] * self.length_scale), 1, most).astype(np.int64)
        block_tokens = max(int(trace.block_tokens * self.length_scale), 1)
        if self.max_input_tokens is not None:  # the blocks that a cut prompt touches
            counts = np.minimum(counts, -(-tokens // block_tokens))
        session_id = trace.session_id[order]
        return RequestStream(
            arrival_s[order] / self.rate_scale,
            tokens,
            np.minimum(trace.output_tokens[order], self.max_output_tokens or np.iinfo(np.int64).max),
            session_id=session_id,
            turn=turns(session_id),
            service_class=trace.service_class[order],
            hash_offsets=np.concatenate([[0], np.cumsum(counts)]),
            block_hashes=trace.block_hashes[ragged_index(trace.hash_offsets[order], counts)],
            block_tokens=block_tokens,
        ).before(horizon_s)
