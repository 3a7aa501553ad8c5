"""What happens to a run from outside, drawn whole before it starts: link capacity over time, faults, objectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError

__all__ = ["CapacityTimeline", "Objectives"]


@dataclass(frozen=True, eq=False)
class CapacityTimeline:
    """Capacity left for KV traffic on the link: ``gbps[k]`` holds from ``times_s[k]`` on. ``times_s[0]`` is 0.

    Zero means the link is down: flows stall and resume. Raises :class:`ConfigError` on a negative or non-finite value.
    """

    times_s: np.ndarray
    gbps: np.ndarray

    def __post_init__(self) -> None:
        for name in ("times_s", "gbps"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(self.times_s) != len(self.gbps) or len(self.gbps) == 0 or self.times_s[0] != 0.0:
            raise ConfigError("link capacity: expected one value a time, the first at 0 s")
        if not np.isfinite(self.times_s).all() or (np.diff(self.times_s) <= 0).any():
            raise ConfigError("link capacity: expected finite, increasing times")
        if not np.isfinite(self.gbps).all() or (self.gbps < 0).any():
            raise ConfigError("link capacity: expected finite values ≥ 0 Gbps")

    @classmethod
    def constant(cls, gbps: float) -> CapacityTimeline:
        return cls(np.zeros(1), np.array([gbps]))


@dataclass(frozen=True)
class Objectives:
    """TTFT and TPOT objectives in seconds, one entry a service class."""

    ttft_s: tuple[float, ...] = (10.0,)
    tpot_s: tuple[float, ...] = (0.05,)
