"""Random paths over time that rates, length mixes and links are made of: mean-reverting, jumps, regimes, on-off.

Slow processes (hours) run on the scenario's :class:`Clock`, so that a scenario may compress a day into an episode and
keep the measured hour-scale parameters; fast ones (seconds) run on simulated time. A path is drawn forwards from its
start: a longer horizon continues it and changes nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.profiles import NonNegative, Positive

__all__ = ["GRID_S", "Clock", "Jumps", "MeanReverting", "alternating", "check_number", "events", "grid"]

DAY_H = 24.0
GRID_S = 10.0  # step of the slow paths in simulated seconds, linear between


MOST_EVENTS = 1_000_000  # of one process in one episode
MOST_AT_ONCE = 1000  # excursions under way together


def check_number(expected: float, of: str, most: int = MOST_EVENTS) -> None:
    """:class:`ConfigError` if so many are expected that drawing them would not end, or is not meant."""
    if not expected <= most:
        raise ConfigError(f"{of}: expected at most {most:,} in an episode, these figures give {expected:.3g}")


def grid(horizon_s: float, step_s: float = GRID_S) -> np.ndarray:
    """Times 0, step, … that cover ``[0, horizon_s]``. Shape (steps + 1,), seconds."""
    return np.arange(int(np.ceil(horizon_s / step_s)) + 1) * step_s


@dataclass(frozen=True)
class Clock(Record):
    """The time of day: ``day_s`` simulated seconds make one day, and an episode begins at hour ``start_h``.

    ``start_h`` of ``None`` is drawn anew for every episode.
    """

    day_s: Annotated[float, Range(ge=1)] = 86_400.0
    start_h: Annotated[float, Range(ge=0, lt=DAY_H)] | None = 0.0

    def started(self, rng: np.random.Generator) -> Clock:
        """The same clock with its starting hour settled; takes one number from ``rng`` in any case."""
        hour = float(rng.uniform(0.0, DAY_H))
        return self if self.start_h is not None else replace(self, start_h=hour)

    def elapsed_h(self, t_s: np.ndarray | float) -> np.ndarray:
        """Hours of this clock that have passed since the start of the episode."""
        return np.asarray(t_s, dtype=np.float64) * (DAY_H / self.day_s)

    def hour(self, t_s: np.ndarray | float) -> np.ndarray:
        """Hours since midnight of the first day (not wrapped) at simulated time ``t_s``."""
        return self.elapsed_h(t_s) + (self.start_h or 0.0)


@dataclass(frozen=True)
class MeanReverting(Record):
    """A stationary Ornstein–Uhlenbeck process about zero: ``sd``, and the time constant of its autocorrelation."""

    sd: NonNegative
    time_constant_h: Positive

    def path(self, rng: np.random.Generator, times_h: np.ndarray) -> np.ndarray:
        """Values at increasing times in hours; the first is drawn from the stationary law. Same shape."""
        noise = rng.standard_normal(len(times_h))
        keep = np.exp(-np.diff(times_h) / self.time_constant_h)
        fresh = np.sqrt(1.0 - keep**2)
        value, values = float(noise[0]), [float(noise[0])]
        for k, f, z in zip(keep.tolist(), fresh.tolist(), noise[1:].tolist(), strict=True):
            value = k * value + f * z
            values.append(value)
        return self.sd * np.array(values)


@dataclass(frozen=True)
class Jumps(Record):
    """Excursions: Poisson in time, Laplace in height, exponential in duration; overlapping ones add up. Stationary."""

    per_h: NonNegative
    laplace_scale: Annotated[float, Range(ge=0, le=100)]
    mean_duration_h: Positive

    def check(self) -> None:
        check_number(self.mean_number, "jumps under way at once", MOST_AT_ONCE)

    def path(self, rng: np.random.Generator, times_h: np.ndarray) -> np.ndarray:
        """Sum of the excursions under way at each time in hours. Same shape."""
        begin, end = float(times_h[0]), float(times_h[-1])
        path = np.zeros(len(times_h))
        under_way = int(rng.poisson(self.mean_number))  # their remaining stay is exponential too
        for start in chain([begin] * under_way, events(rng, self.per_h, begin, end)):
            height, stay = float(rng.laplace(0.0, self.laplace_scale)), float(rng.exponential(self.mean_duration_h))
            path[slice(*np.searchsorted(times_h, (start, start + stay)))] += height
        return path

    @property
    def mean_number(self) -> float:
        """Mean number of excursions under way at one time."""
        return self.per_h * self.mean_duration_h


def events(rng: np.random.Generator, per_unit: float, begin: float, end: float) -> Iterator[float]:
    """Times of a Poisson process between ``begin`` and ``end``, drawn one by one.

    Raises :class:`ConfigError` where they are too many (:data:`MOST_EVENTS`).
    """
    check_number(per_unit * (end - begin), "random events")
    while per_unit > 0.0 and (begin := begin + float(rng.exponential(1.0 / per_unit))) < end:
        yield begin


def alternating(rng: np.random.Generator, horizon_s: float, on_s: float, off_s: float) -> tuple[np.ndarray, bool]:
    """Switching times in ``(0, horizon_s)`` of a stationary on-off process, and whether it begins on."""
    check_number(2.0 * horizon_s / (on_s + off_s), "switches between on and off")
    first_on = bool(rng.random() < on_s / (on_s + off_s))
    switches, now, on = [], 0.0, first_on
    while (now := now + float(rng.exponential(on_s if on else off_s))) < horizon_s:
        switches.append(now)
        on = not on
    return np.array(switches), first_on
