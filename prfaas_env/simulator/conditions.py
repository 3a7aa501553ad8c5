"""What happens to a run from outside, drawn whole before it starts: link capacity over time, faults, objectives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError, Record
from prfaas_env.profiles import Positive

__all__ = ["CapacityTimeline", "FaultTimeline", "Objectives"]


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


@dataclass(frozen=True, eq=False)
class FaultTimeline:
    """Instance failures and repairs (model.md section 6), in order of time; one entry an event.

    - ``times_s``: float64, ≥ 0, not decreasing.
    - ``remote``: bool, the cluster; ``instance``: its number inside the cluster.
    - ``up``: bool, False = fails, True = is repaired. An event that changes nothing is ignored.
    """

    times_s: np.ndarray
    remote: np.ndarray
    instance: np.ndarray
    up: np.ndarray

    def __post_init__(self) -> None:
        for name, dtype in (("times_s", np.float64), ("remote", np.bool_), ("instance", np.int64), ("up", np.bool_)):
            array = np.array(getattr(self, name), dtype=dtype)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not len(self.times_s) == len(self.remote) == len(self.instance) == len(self.up):
            raise ConfigError("faults: expected as many entries in each of times_s, remote, instance and up")
        if not np.isfinite(self.times_s).all() or (np.diff(self.times_s, prepend=0.0) < 0).any():
            raise ConfigError("faults: expected finite times ≥ 0 that do not decrease")

    @classmethod
    def none(cls) -> FaultTimeline:
        return cls(np.empty(0), np.empty(0), np.empty(0), np.empty(0))

    def check_instances(self, remote: int, local: int) -> None:
        """:class:`ConfigError` if an event names an instance that the deployment does not have."""
        most = np.where(self.remote, remote, local)
        bad = (self.instance < 0) | (self.instance >= most)
        if bad.any():
            k = int(np.argmax(bad))
            side = "remote" if self.remote[k] else "local"
            raise ConfigError(f"faults: event {k}: there is no {side} instance {self.instance[k]} (0 … {most[k] - 1})")


@dataclass(frozen=True)
class Objectives(Record):
    """TTFT and TPOT objectives in seconds, one entry a service class."""

    ttft_s: tuple[Positive, ...] = (10.0,)
    tpot_s: tuple[Positive, ...] = (0.05,)

    def check(self) -> None:
        if not len(self.ttft_s) == len(self.tpot_s) > 0:
            raise ConfigError("tpot_s: expected as many values as in ttft_s, one a service class, and at least one")
