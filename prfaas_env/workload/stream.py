"""The request stream: what arrives, when. It is drawn whole before a run, so that no action can ever shift it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prfaas_env.config import ConfigError

__all__ = ["MOST_TOKENS", "RequestStream"]

MOST_TOKENS = 2**40
"""No prompt or output is longer; sums of a few lengths then never overflow."""


def _no_entries() -> np.ndarray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RequestStream:
    """Requests in order of arrival, as arrays of one entry a request (n of them).

    - ``arrival_s``: float64 (n,), not decreasing, ≥ 0.
    - ``input_tokens``: int64 (n,), the whole prompt, ≥ 1.
    - ``output_tokens``: int64 (n,), ≥ 1.
    - ``session_id``: int64 (n,), −1 where a request belongs to no session.
    - ``turn``: int64 (n,), 0 for the first of a session.
    - ``service_class``: int64 (n,), index into the scenario's service classes.
    - ``hash_offsets`` int64 (n + 1,) and ``block_hashes`` int64: the prompt's prefix-chained block ids, request i has
      ``block_hashes[hash_offsets[i]:hash_offsets[i + 1]]``; equal id = equal prefix up to and with that block of
      ``block_tokens`` tokens. Ids are small whole numbers (arrays are indexed by them); those beyond the prompt's
      ⌈input / block⌉ cover the output, where the source knows them (generated sessions do, public traces do not).

    The optional arrays may be left out: they are then filled with −1, 0, 0 and no hashes.
    Raises :class:`ConfigError` naming the first request that breaks a rule.
    """

    arrival_s: np.ndarray
    input_tokens: np.ndarray
    output_tokens: np.ndarray
    session_id: np.ndarray = field(default_factory=_no_entries)
    turn: np.ndarray = field(default_factory=_no_entries)
    service_class: np.ndarray = field(default_factory=_no_entries)
    hash_offsets: np.ndarray = field(default_factory=_no_entries)
    block_hashes: np.ndarray = field(default_factory=_no_entries)
    block_tokens: int = 512

    def __post_init__(self) -> None:
        n = len(self.arrival_s)
        optional = {"session_id": -1, "turn": 0, "service_class": 0}
        for name, missing in optional.items():
            if len(getattr(self, name)) == 0 and n > 0:
                object.__setattr__(self, name, np.full(n, missing, dtype=np.int64))
        if len(self.hash_offsets) == 0:
            object.__setattr__(self, "hash_offsets", np.zeros(n + 1, dtype=np.int64))
        for name in (name for name in self.__dataclass_fields__ if name != "block_tokens"):
            dtype = np.float64 if name == "arrival_s" else np.int64
            raw = np.asarray(getattr(self, name))
            if raw.dtype.kind == "f" and dtype is np.int64:
                self._refuse_first(~np.isfinite(raw), name, "expected a whole number")
            array = np.ascontiguousarray(raw, dtype=dtype)
            if array is raw and array.flags.writeable:
                array = array.view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        for name in ("input_tokens", "output_tokens", *optional):
            if len(getattr(self, name)) != n:
                raise ConfigError(f"request stream: {name} has {len(getattr(self, name))} entries, arrival_s has {n}")
        if len(self.block_hashes) and not 0 <= self.block_hashes.min() <= self.block_hashes.max() < 2**31:
            raise ConfigError("request stream: block_hashes: expected ids from 0 to 2^31 - 1 (renumber them)")
        offsets = self.hash_offsets
        if len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != len(self.block_hashes):
            raise ConfigError("request stream: hash_offsets does not fit block_hashes")
        self._refuse_first(np.diff(offsets) < 0, "hash_offsets", "expected offsets that do not decrease")
        if not (isinstance(self.block_tokens, int | np.integer) and 1 <= self.block_tokens <= MOST_TOKENS):
            raise ConfigError(f"request stream: block_tokens: expected a whole number ≥ 1, got {self.block_tokens!r}")
        self._refuse_first(~np.isfinite(self.arrival_s) | (self.arrival_s < 0), "arrival_s", "expected a time ≥ 0")
        self._refuse_first(np.diff(self.arrival_s, prepend=0.0) < 0, "arrival_s", "expected times that do not decrease")
        for name in ("input_tokens", "output_tokens"):
            tokens = getattr(self, name)
            self._refuse_first((tokens < 1) | (tokens > MOST_TOKENS), name, f"expected 1 to {MOST_TOKENS:,} tokens")
        self._refuse_first(self.service_class < 0, "service_class", "expected a number ≥ 0")

    def _refuse_first(self, bad: np.ndarray, name: str, expected: str) -> None:
        if bad.any():
            i = int(np.argmax(bad))
            raise ConfigError(f"request stream: {name} of request {i}: {expected}, got {getattr(self, name)[i]}")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def hashes(self, i: int) -> np.ndarray:
        """Block ids of request i's prompt; empty where it has none."""
        return self.block_hashes[self.hash_offsets[i] : self.hash_offsets[i + 1]]

    def before(self, horizon_s: float) -> RequestStream:
        """The requests that arrive before ``horizon_s``."""
        n = int(np.searchsorted(self.arrival_s, horizon_s, side="left"))
        cut = {k: getattr(self, k)[:n] for k in ("arrival_s", "input_tokens", "output_tokens")}
        cut |= {k: getattr(self, k)[:n] for k in ("session_id", "turn", "service_class")}
        return RequestStream(
            **cut,
            hash_offsets=self.hash_offsets[: n + 1],
            block_hashes=self.block_hashes[: self.hash_offsets[n]],
            block_tokens=self.block_tokens,
        )
