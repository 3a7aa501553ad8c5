"""The formats of trace files: which column holds what, and how its clock counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from prfaas_env.config import ConfigError, Range, Record

__all__ = ["FORMATS", "Columns", "Format", "FormatName", "TimeUnit"]

TimeUnit = Literal["s", "ms", "us", "ns", "datetime"]
FormatName = Literal["mooncake", "azure", "burstgpt", "table"]


@dataclass(frozen=True)
class Columns(Record):
    """Which column (or key) of a file holds what. Lengths are in tokens.

    - ``arrival_unit``: of a number; or ``datetime``: ISO dates and times, with or without a time zone.
    - ``session``: requests with the same value are turns of one session; empty = none.
    - ``service_class``: its values are named, in the order of the scenario's objectives, by ``classes``.
    - ``hashes``: ids of the prompt's blocks of ``block_tokens``, prefix-chained: a list of whole numbers, in CSV
      separated by spaces. Empty = unknown, nothing is shared.
    """

    arrival: str
    input: str
    output: str
    arrival_unit: TimeUnit = "s"
    session: str | None = None
    service_class: str | None = None
    classes: tuple[str, ...] = ()
    hashes: str | None = None
    block_tokens: Annotated[int, Range(ge=1)] = 512

    def check(self) -> None:
        if (self.service_class is None) != (not self.classes):
            raise ConfigError("classes: expected together with service_class: the names of its values")
        if len(set(self.classes)) < len(self.classes):
            raise ConfigError("classes: expected different names")

    @property
    def named(self) -> dict[str, str]:
        """The columns in use: what they hold → their name in the file."""
        held = ("arrival", "input", "output", "session", "service_class", "hashes")
        return {key: getattr(self, key) for key in held if getattr(self, key) is not None}


@dataclass(frozen=True)
class Format:
    """A published format. ``optional`` columns may be absent from a file.

    ``own_clock``: times count from the trace's own zero; else from the earliest request.
    ``batch_s``: the step in which times are given.
    """

    columns: Columns
    own_clock: bool
    batch_s: float
    optional: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    # kvcache-ai/Mooncake, FAST25-release: JSON lines, milliseconds in steps of about 3 s (measured).
    "mooncake": Format(
        Columns("timestamp", "input_length", "output_length", arrival_unit="ms", hashes="hash_ids"),
        own_clock=True,
        batch_s=3.0,
    ),
    # Azure/AzurePublicDataset, 2023 (no time zone, 100 ns) and 2024 (UTC, µs; whole seconds without a fraction).
    "azure": Format(
        Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens", arrival_unit="datetime"), own_clock=False, batch_s=0.0
    ),
    # HPMLL/BurstGPT: seconds since midnight of the first day; files 1 and 2 have no sessions, file 3 has.
    "burstgpt": Format(
        Columns("Timestamp", "Request tokens", "Response tokens", session="Session ID"),
        own_clock=True,
        batch_s=1.0,
        optional=("session",),
    ),
}
