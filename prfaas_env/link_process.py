"""How the capacity of the link varies over an episode (model.md section 3).

What is left for KV is a product: a base process in Gbps × the share that background traffic leaves × what excursions
(collapses, outages) leave. Each factor draws from a generator of its own, so that switching one off leaves the others
as they were. Parameters in hours run on the scenario's clock, those in seconds on simulated time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import DAY_H, GRID_S, MOST_AT_ONCE, Clock, MeanReverting, check_number, events, grid
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.simulator.conditions import CapacityTimeline

__all__ = [
    "Background",
    "CapacityTrace",
    "ConstantCapacity",
    "Excursions",
    "LinkProcess",
    "LinkState",
    "MarkovCapacity",
    "MeanRevertingCapacity",
    "Outage",
]

Share = Annotated[float, Range(ge=0, le=1)]


class Steps(NamedTuple):
    """A path of steps: ``values[k]`` holds from ``times_s[k]`` on; ``times_s[0]`` is 0."""

    times_s: np.ndarray
    values: np.ndarray

    def at(self, times_s: np.ndarray) -> np.ndarray:
        return self.values[np.searchsorted(self.times_s, times_s, side="right") - 1]


@dataclass(frozen=True)
class ConstantCapacity(Record):
    """A capacity that stays; ``capacity_gbps`` of ``None`` is the deployment's own."""

    kind: ClassVar[str] = "constant"

    capacity_gbps: NonNegative | None = None

    def path(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> Steps:  # noqa: ARG002
        """Gbps over the episode; the nominal capacity is the deployment's."""
        return Steps(np.zeros(1), np.array([nominal_gbps if self.capacity_gbps is None else self.capacity_gbps]))


@dataclass(frozen=True)
class CapacityTrace(Record):
    """Capacities as measured or scripted: ``gbps[k]`` holds from ``times_s[k]`` on."""

    kind: ClassVar[str] = "trace"

    times_s: tuple[NonNegative, ...]
    gbps: tuple[NonNegative, ...]

    def check(self) -> None:
        CapacityTimeline(np.array(self.times_s), np.array(self.gbps))

    def path(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> Steps:  # noqa: ARG002
        """Gbps over the episode."""
        return Steps(np.array(self.times_s), np.array(self.gbps))


@dataclass(frozen=True)
class MeanRevertingCapacity(Record):
    """A capacity that wanders about its mean, never below 0; it changes every 10 s.

    Coefficient of variation measured on links between cloud regions (Skyplane, NSDI 2023): .02 inside one provider,
    .07 noisy (default), .37 across providers. The time constant is a design choice.
    """

    kind: ClassVar[str] = "mean-reverting"

    mean_gbps: Positive | None = None
    cv: NonNegative = 0.07
    time_constant_s: Positive = 300.0

    def path(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> Steps:
        """Gbps over the episode; ``mean_gbps`` of ``None`` is the deployment's nominal capacity."""
        times_s = grid(horizon_s, GRID_S)
        wander = MeanReverting(self.cv, self.time_constant_s / 3600.0).path(rng, times_s / 3600.0)
        mean_gbps = nominal_gbps if self.mean_gbps is None else self.mean_gbps
        return _settled(times_s, mean_gbps * np.maximum(1.0 + wander, 0.0), mean_gbps)


@dataclass(frozen=True)
class LinkState(Record):
    """A state of the line: the share of the nominal capacity that it gives, and its mean (exponential) stay."""

    capacity_share: NonNegative
    mean_stay_s: Positive


@dataclass(frozen=True)
class MarkovCapacity(Record):
    """A capacity that jumps between states; the next one is any of the others, equally likely. Stationary.

    Nobody has published such states of a line between data centres: they are a design choice.
    """

    kind: ClassVar[str] = "markov"

    states: tuple[LinkState, ...]

    def check(self) -> None:
        if len(self.states) < 2:
            raise ConfigError("states: expected at least two")
        if not any(state.capacity_share > 0 for state in self.states):
            raise ConfigError("states: expected one at least with a capacity_share > 0")

    def path(self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float) -> Steps:
        """Gbps over the episode, and after it until the line is up, which it then stays."""
        stays_s = np.array([state.mean_stay_s for state in self.states])
        check_number(horizon_s / float(stays_s.mean()), "changes of the link's state")
        state, now_s = int(rng.choice(len(stays_s), p=stays_s / stays_s.sum())), 0.0
        times_s: list[float] = []
        visited: list[int] = []
        while now_s < horizon_s or self.states[visited[-1]].capacity_share == 0:
            times_s.append(now_s)
            visited.append(state)
            now_s += float(rng.exponential(stays_s[state]))
            state = (state + 1 + int(rng.integers(len(stays_s) - 1))) % len(stays_s)
        shares = np.array([self.states[k].capacity_share for k in visited])
        return Steps(np.array(times_s), nominal_gbps * shares)


@dataclass(frozen=True)
class Background(Record):
    """Other traffic on a shared line: a share of its capacity, with the rhythm of the day and a slow wander.

    It yields in proportion when the line itself is worse. All defaults are design choices (no measurement is public).
    """

    mean_share: Share = 0.4
    daily_amplitude: Share = 0.2
    peak_h: Annotated[float, Range(ge=0, lt=DAY_H)] = 12.8
    wander: MeanReverting | None = field(default_factory=lambda: MeanReverting(sd=0.05, time_constant_h=0.5))

    def left(self, rng: np.random.Generator, clock: Clock, horizon_s: float) -> Steps:
        """The share of the capacity that it leaves, between 0 and 1; it changes every 10 s."""
        times_s = grid(horizon_s, GRID_S)
        turn = 2.0 * np.pi / DAY_H * (clock.hour(times_s) - self.peak_h)
        load = self.mean_share + self.daily_amplitude * np.cos(turn)
        if self.wander is not None:
            load = load + self.wander.path(rng, clock.elapsed_h(times_s))
        return _settled(times_s, 1.0 - np.clip(load, 0.0, 1.0), 1.0 - self.mean_share)


@dataclass(frozen=True)
class Excursions(Record):
    """Rare collapses at Poisson times: each takes a share (``depth``, 1 is an outage) of the capacity for a while.

    Depth and duration are uniform between their bounds; overlapping excursions multiply. Once a week, 50–95 % deep, for
    5–60 minutes by default: design choices (the literature knows stationary links with infrequent excursions, but gives
    no rates).
    """

    per_h: NonNegative = 1.0 / 168.0
    low_depth: Share = 0.5
    high_depth: Share = 0.95
    low_duration_s: Positive = 300.0
    high_duration_s: Positive = 3600.0

    def check(self) -> None:
        for name in ("depth", "duration_s"):
            low, high = getattr(self, f"low_{name}"), getattr(self, f"high_{name}")
            if high < low:
                raise ConfigError(f"high_{name}: expected at least {low:g} (low_{name}), got {high:g}")

    def left(self, rng: np.random.Generator, clock: Clock, horizon_s: float) -> Steps:
        """The share of the capacity that they leave. One may be under way when the episode begins."""
        per_s = self.per_h * float(clock.elapsed_h(1.0))
        check_number(per_s * self.high_duration_s, "excursions of the link under way at once", MOST_AT_ONCE)
        windows = []
        for start_s in events(rng, per_s, -self.high_duration_s, horizon_s):
            depth = float(rng.uniform(self.low_depth, self.high_depth))
            end_s = start_s + float(rng.uniform(self.low_duration_s, self.high_duration_s))
            if end_s > 0.0:
                windows.append((max(start_s, 0.0), end_s, 1.0 - depth))
        return _windows(windows)


@dataclass(frozen=True)
class Outage(Record):
    """A scripted window in which only ``remaining_share`` of the capacity is left (0: the link is down)."""

    start_s: NonNegative
    end_s: Positive
    remaining_share: Share = 0.0

    def check(self) -> None:
        if self.end_s <= self.start_s:
            raise ConfigError(f"end_s: expected later than start_s {self.start_s:g}, got {self.end_s:g}")


@dataclass(frozen=True)
class LinkProcess(Record):
    """The link of a scenario: base capacity, background traffic, random excursions and scripted outages."""

    capacity: ConstantCapacity | CapacityTrace | MeanRevertingCapacity | MarkovCapacity = field(
        default_factory=ConstantCapacity
    )
    background: Background | None = None
    excursions: Excursions | None = None
    outages: tuple[Outage, ...] = ()

    def draw(
        self, rng: np.random.Generator, nominal_gbps: float, horizon_s: float, clock: Clock | None = None
    ) -> CapacityTimeline:
        """The capacity over ``[0, horizon_s]`` and after it: the last value holds."""
        clock = clock or Clock()
        capacity, background, excursions = rng.spawn(3)
        factors = [self.capacity.path(capacity, nominal_gbps, horizon_s)]
        if self.background is not None:
            factors.append(self.background.left(background, clock, horizon_s))
        if self.excursions is not None:
            factors.append(self.excursions.left(excursions, clock, horizon_s))
        factors.append(_windows([(o.start_s, o.end_s, o.remaining_share) for o in self.outages]))
        times_s = np.unique(np.concatenate([factor.times_s for factor in factors]))
        return CapacityTimeline(times_s, np.prod([factor.at(times_s) for factor in factors], axis=0))


def _settled(times_s: np.ndarray, values: np.ndarray, mean: float) -> Steps:
    """A wandering path whose mean holds after its end, so that no run is left with a link that is down for good."""
    return Steps(np.append(times_s, times_s[-1] + GRID_S), np.append(values, mean))


def _windows(windows: list[tuple[float, float, float]]) -> Steps:
    """1, multiplied by a factor inside each window (start, end, factor)."""
    times_s = np.unique([0.0, *(edge for start, end, _ in windows for edge in (start, end))])
    values = np.ones(len(times_s))
    for start_s, end_s, factor in windows:
        values[slice(*np.searchsorted(times_s, (start_s, end_s)))] *= factor
    return Steps(times_s, values)
