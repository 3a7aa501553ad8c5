"""How the capacity of the link varies over an episode (model.md section 3): a base process and outage windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import GRID_S, MeanReverting, grid
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.simulator.conditions import CapacityTimeline

__all__ = ["CapacityTrace", "ConstantCapacity", "LinkProcess", "MeanRevertingCapacity", "Outage"]


@dataclass(frozen=True)
class ConstantCapacity(Record):
    """A capacity that stays; ``capacity_gbps`` of ``None`` is the deployment's own."""

    kind: ClassVar[str] = "constant"

    capacity_gbps: NonNegative | None = None

    def timeline(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> CapacityTimeline:  # noqa: ARG002
        """The capacity over the episode; the nominal one is the deployment's."""
        return CapacityTimeline.constant(nominal_gbps if self.capacity_gbps is None else self.capacity_gbps)


@dataclass(frozen=True)
class CapacityTrace(Record):
    """Capacities as measured or scripted: ``gbps[k]`` holds from ``times_s[k]`` on."""

    kind: ClassVar[str] = "trace"

    times_s: tuple[NonNegative, ...]
    gbps: tuple[NonNegative, ...]

    def check(self) -> None:
        CapacityTimeline(np.array(self.times_s), np.array(self.gbps))

    def timeline(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> CapacityTimeline:  # noqa: ARG002
        """The capacity over the episode."""
        return CapacityTimeline(np.array(self.times_s), np.array(self.gbps))


@dataclass(frozen=True)
class MeanRevertingCapacity(Record):
    """A capacity that wanders about its mean, never below 0; it changes every 10 s.

    Coefficient of variation measured on links between cloud regions: .02 inside one provider, .07 noisy (default), .37
    across providers. The time constant is a design choice.
    """

    kind: ClassVar[str] = "mean-reverting"

    mean_gbps: Positive | None = None
    cv: NonNegative = 0.07
    time_constant_s: Positive = 300.0

    def timeline(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> CapacityTimeline:
        """The capacity over the episode; ``mean_gbps`` of ``None`` is the deployment's nominal one."""
        times_s = grid(horizon_s, GRID_S)
        path = MeanReverting(self.cv, self.time_constant_s / 3600.0).path(rng, times_s / 3600.0)
        mean_gbps = nominal_gbps if self.mean_gbps is None else self.mean_gbps
        return CapacityTimeline(times_s, mean_gbps * np.maximum(1.0 + path, 0.0))


@dataclass(frozen=True)
class Outage(Record):
    """A scripted window in which only ``remaining_share`` of the capacity is left (0: the link is down)."""

    start_s: NonNegative
    end_s: Positive
    remaining_share: Annotated[float, Range(ge=0, le=1)] = 0.0

    def check(self) -> None:
        if self.end_s <= self.start_s:
            raise ConfigError(f"end_s: expected later than start_s {self.start_s:g}, got {self.end_s:g}")


@dataclass(frozen=True)
class LinkProcess(Record):
    """The link of a scenario."""

    capacity: ConstantCapacity | CapacityTrace | MeanRevertingCapacity = field(default_factory=ConstantCapacity)
    outages: tuple[Outage, ...] = ()

    def draw(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> CapacityTimeline:
        """The capacity over ``[0, horizon_s]``; the last value holds after it. Overlapping outages multiply."""
        base = self.capacity.timeline(rng, nominal_gbps, horizon_s)
        times_s = np.unique([*base.times_s, *(t for o in self.outages for t in (o.start_s, o.end_s))])
        gbps = base.gbps[np.searchsorted(base.times_s, times_s, side="right") - 1].copy()
        for outage in self.outages:
            gbps[(times_s >= outage.start_s) & (times_s < outage.end_s)] *= outage.remaining_share
        return CapacityTimeline(times_s, gbps)
