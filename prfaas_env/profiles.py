"""Hardware profiles: one model on one instance type (model.md section 1).

A profile says how long a prefill takes, how large the KV cache is, how fast decode steps are, what the instance costs,
and where every one of these figures comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.resources import locate

__all__ = ["DecodeTable", "KvSize", "PrefillTable", "Profile", "Provenance", "load_profile"]

MIB = 1024.0 * 1024.0
GIB = 1024.0 * MIB

Positive = Annotated[float, Range(gt=0)]
NonNegative = Annotated[float, Range(ge=0)]


@dataclass(frozen=True)
class Provenance(Record):
    """Where a figure comes from.

    - ``source``: paper and table, page, log, or the reckoning that gave the figure.
    - ``how``: whether it was measured, derived from something measured, fitted to it, or taken for granted.
    - ``date``: of the source, as text (quote it: ``"2026-04"``).
    """

    source: str
    how: Literal["measured", "derived", "calibrated", "assumed"]
    date: str


@dataclass(frozen=True)
class PrefillTable(Record):
    """Prefill time of one request on one instance, as knots over length.

    Between knots: monotone cubic (PCHIP, Fritsch-Carlson). Below the table: the line through the first two knots (so
    the calibration against the paper's Table 6); above it: the line that continues the curve at its last slope.

    - ``lengths_tokens``: prompt lengths of the knots, increasing, at least two.
    - ``times_s``: prefill time of one prompt of each length, increasing; the line through the first two must
      not cross zero above length 0.
    """

    lengths_tokens: tuple[Positive, ...]
    times_s: tuple[Positive, ...]

    def check(self) -> None:
        if len(self.lengths_tokens) != len(self.times_s):
            raise ConfigError(
                f"times_s: expected {len(self.lengths_tokens)} values, one a length, got {len(self.times_s)}"
            )
        if len(self.lengths_tokens) < 2:
            raise ConfigError("lengths_tokens: expected at least two lengths")
        if not all(a < b for a, b in zip(self.lengths_tokens, self.lengths_tokens[1:], strict=False)):
            raise ConfigError("lengths_tokens: expected increasing lengths")
        if not all(a < b for a, b in zip(self.times_s, self.times_s[1:], strict=False)):
            raise ConfigError("times_s: expected a prefill time that increases with length")
        if float(self.cubic[0, 4]) < 0:
            raise ConfigError("times_s: the line through the first two knots gives a negative time at length 0")

    @cached_property
    def cubic(self) -> np.ndarray:
        """Pieces as rows ``(start, c0, c1, c2, c3)``: time = c0 + c1 d + c2 d² + c3 d³ with d = length - start.

        The first row is the line below the table (from length 0), the last the line above it. Shape (knots + 1, 5).
        """
        from scipy.interpolate import PchipInterpolator

        x, y = np.asarray(self.lengths_tokens), np.asarray(self.times_s)
        curve = PchipInterpolator(x, y)
        c = curve.c
        inner = np.column_stack([x[:-1], c[3], c[2], c[1], c[0]])
        first, last = (y[1] - y[0]) / (x[1] - x[0]), float(curve(x[-1], 1))
        below = [0.0, y[0] - first * x[0], first, 0.0, 0.0]
        above = [x[-1], y[-1], last, 0.0, 0.0]
        return np.vstack([below, inner, above])

    def time_s(self, length_tokens: np.ndarray | float) -> np.ndarray:
        """Prefill time in seconds of uncached prompts of these lengths (any shape)."""
        length = np.asarray(length_tokens, dtype=np.float64)
        pieces = self.cubic
        row = pieces[np.searchsorted(pieces[1:, 0], length, side="right")]
        d = length - row[..., 0]
        return row[..., 1] + d * (row[..., 2] + d * (row[..., 3] + d * row[..., 4]))


@dataclass(frozen=True)
class KvSize(Record):
    """KV-cache size of a request: a fixed recurrent state plus a part per token.

    - ``fixed_mib``: what every request has whatever its length (recurrent states of a hybrid model); 0 for full
      attention.
    - ``bytes_per_token``: KV cache of one more token, over all layers.
    """

    fixed_mib: NonNegative
    bytes_per_token: NonNegative

    @property
    def fixed_bytes(self) -> float:
        return self.fixed_mib * MIB

    def size_bytes(self, length_tokens: np.ndarray | float) -> np.ndarray:
        return self.fixed_bytes + self.bytes_per_token * np.asarray(length_tokens, dtype=np.float64)


@dataclass(frozen=True)
class DecodeTable(Record):
    """Continuous-batching decode on one instance: slots, and step time over batch size (linear between knots).

    - ``slots``: the most sequences that one instance decodes at a time (BS_max).
    - ``batch_sizes``: batch sizes of the knots, increasing; one is enough for a constant step time.
    - ``step_times_ms``: time of one decode step of each batch, not falling; beyond the first and last knot it stays
      as there.
    """

    slots: Annotated[int, Range(ge=1, le=65536)]
    batch_sizes: tuple[Annotated[int, Range(ge=1)], ...]
    step_times_ms: tuple[Positive, ...]

    def check(self) -> None:
        if not self.batch_sizes or len(self.batch_sizes) != len(self.step_times_ms):
            raise ConfigError("step_times_ms: expected one value a batch size, and at least one")
        if not all(a < b for a, b in zip(self.batch_sizes, self.batch_sizes[1:], strict=False)):
            raise ConfigError("batch_sizes: expected increasing batch sizes")
        if not all(a <= b for a, b in zip(self.step_times_ms, self.step_times_ms[1:], strict=False)):
            raise ConfigError("step_times_ms: expected a step time that does not fall with the batch")

    @cached_property
    def step_s(self) -> np.ndarray:
        """Step time in seconds for batches of 0 … slots (entry 0 is that of 1). Shape (slots + 1,)."""
        batch = np.maximum(np.arange(self.slots + 1), 1)
        return np.interp(batch, self.batch_sizes, np.asarray(self.step_times_ms) / 1000.0)


@dataclass(frozen=True)
class Profile(Record):
    """One model on one instance type.

    - ``name``: of the profile, by which results call it.
    - ``model``: served model; both clusters of a deployment must have the same.
    - ``instance``: accelerators of one instance, such as ``8xH20``.
    - ``context_limit_tokens``: input + output may not exceed it; longer requests are refused.
    - ``prefill``: prefill time over length.
    - ``kv``: size of the KV cache over length; equal in both clusters of a deployment.
    - ``decode``: decode slots and step time over batch size (only the local cluster decodes).
    - ``price_usd_per_hour``: rent of one instance.
    - ``provenance``: the source of ``prefill``, ``kv``, ``decode``, ``price_usd_per_hour`` and
      ``context_limit_tokens``.
    - ``attention``: what a cached prefix needs to be of use: full attention any leading blocks, a hybrid model a
      stored state.
    - ``hbm_for_kv_gib``: memory for KV on one decode instance; without it memory never limits.
    - ``notes``: free text.
    """

    name: str
    model: str
    instance: str
    context_limit_tokens: Annotated[int, Range(ge=1)]
    prefill: PrefillTable
    kv: KvSize
    decode: DecodeTable
    price_usd_per_hour: NonNegative
    provenance: Mapping[str, Provenance]
    attention: Literal["full", "hybrid"] = "hybrid"
    hbm_for_kv_gib: Positive | None = None
    notes: str = ""

    def check(self) -> None:
        for group in ("prefill", "kv", "decode", "price_usd_per_hour", "context_limit_tokens"):
            if group not in self.provenance:
                raise ConfigError(f"provenance.{group}: missing key (the source of the figures under {group!r})")

    @property
    def hbm_for_kv_bytes(self) -> float:
        """Memory for KV on one instance in bytes; infinite where the profile gives none."""
        return np.inf if self.hbm_for_kv_gib is None else self.hbm_for_kv_gib * GIB


def load_profile(name_or_path: str | Path) -> Profile:
    """A shipped profile by name, or one's own by path. Raises :class:`ConfigError`."""
    from prfaas_env.profile_files import read_profile  # which builds on the records above

    return read_profile(locate("hardware_profiles", name_or_path))
