"""How the length mix drifts: the share of long requests, P(L > t), moves on the logit scale.

logit P(L > t) = level (regimes, steps) + mean-reverting wander + excursions + daily wave + white noise, held between
bounds, and becomes one µ a request of the truncated log-normal law, σ fixed. Hour-scale parameters run on the
scenario's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import DAY_H, Clock, Jumps, MeanReverting, check_number, events, grid
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.workload.lengths import TruncatedLogNormal

__all__ = ["DailyWave", "Drift", "Regimes", "Step", "logit"]

OpenShare = Annotated[float, Range(gt=0, lt=1)]


def logit(share: np.ndarray | float) -> np.ndarray:
    return np.log(np.asarray(share, dtype=np.float64) / (1.0 - np.asarray(share, dtype=np.float64)))


@dataclass(frozen=True)
class DailyWave(Record):
    """Daily wave of logit P.

    Amplitude measured on three ServeGen services: .46 / .26 (m-large, the default) / .23. The peak hour is a choice.
    """

    amplitude: NonNegative = 0.26
    peak_h: Annotated[float, Range(ge=0, lt=DAY_H)] = 12.8

    def path(self, hour: np.ndarray) -> np.ndarray:
        return self.amplitude * np.cos(2.0 * np.pi / DAY_H * (hour - self.peak_h))


@dataclass(frozen=True)
class Regimes(Record):
    """Lasting steps: at Poisson times the level ramps to a new one, drawn uniformly in share between two bounds.

    Measured: a lasting .5 → .8 happens .07–.14 times a day, over 10–60 min. ``first_share`` of ``None`` draws the
    first level too.
    """

    per_h: NonNegative
    low_share: OpenShare
    high_share: OpenShare
    low_ramp_h: NonNegative = 1.0 / 6.0
    high_ramp_h: NonNegative = 1.0
    first_share: OpenShare | None = None

    def check(self) -> None:
        if self.high_share < self.low_share:
            raise ConfigError(f"high_share: expected at least {self.low_share:g} (low_share), got {self.high_share}")
        if self.high_ramp_h < self.low_ramp_h:
            raise ConfigError(
                f"high_ramp_h: expected at least {self.low_ramp_h:g} (low_ramp_h), got {self.high_ramp_h}"
            )

    def path(self, rng: np.random.Generator, times_h: np.ndarray) -> np.ndarray:
        """Level of logit P at times in hours. Same shape."""
        drawn = float(logit(rng.uniform(self.low_share, self.high_share)))
        level = drawn if self.first_share is None else float(logit(self.first_share))
        path = np.full(len(times_h), level)
        for start in events(rng, self.per_h, float(times_h[0]), float(times_h[-1])):
            target = float(logit(rng.uniform(self.low_share, self.high_share)))
            _ramp(path, times_h, start, float(rng.uniform(self.low_ramp_h, self.high_ramp_h)), target)
        return path


@dataclass(frozen=True)
class Step(Record):
    """One lasting change, in either direction: the level goes to ``share`` and stays there until the next step.

    It begins between two hours of the episode (uniform) and is ramped. Measured, for .5 → .8: over 10–60 minutes, held
    for at least 3 hours.
    """

    share: OpenShare
    low_start_h: NonNegative
    high_start_h: NonNegative
    low_ramp_h: NonNegative = 1.0 / 6.0
    high_ramp_h: NonNegative = 1.0

    def check(self) -> None:
        for name in ("start_h", "ramp_h"):
            low, high = getattr(self, f"low_{name}"), getattr(self, f"high_{name}")
            if high < low:
                raise ConfigError(f"high_{name}: expected at least {low:g} (low_{name}), got {high:g}")

    def move(self, rng: np.random.Generator, path: np.ndarray, times_h: np.ndarray) -> None:
        """Change, in place, the level of logit P at times in hours."""
        start, ramp = rng.uniform(self.low_start_h, self.high_start_h), rng.uniform(self.low_ramp_h, self.high_ramp_h)
        _ramp(path, times_h, float(start), float(ramp), float(logit(self.share)))


def _ramp(path: np.ndarray, times_h: np.ndarray, start: float, length: float, target: float) -> None:
    path += np.clip((times_h - start) / max(length, 1e-9), 0.0, 1.0) * (target - path)


@dataclass(frozen=True)
class Drift(Record):
    """The drift of P(L > ``threshold_tokens``).

    Without ``regimes`` the level is the base law's own share; ``steps`` change it. ``rate_correlation`` is that of the
    two wanders, of logit P and of the logarithm of the rate (which the arrivals must then have). Measured between the
    two totals, which have more parts: -.15 typical, -.55 strong (ServeGen), .71 within an hour of Azure 2023
    conversation. Defaults: ServeGen m-large at its P = .5 threshold
    (measured: sd .69 over 13.2 h, white .14 each 10 min, excursions .13 an hour of Laplace(.72) lasting 1.45 h). The
    bounds are a design choice.
    """

    threshold_tokens: Positive = 19_400.0
    low_share: OpenShare = 0.05
    high_share: OpenShare = 0.95
    regimes: Regimes | None = None
    wander: MeanReverting | None = field(default_factory=lambda: MeanReverting(sd=0.69, time_constant_h=13.2))
    jumps: Jumps | None = field(default_factory=lambda: Jumps(per_h=0.13, laplace_scale=0.72, mean_duration_h=1.45))
    daily: DailyWave | None = field(default_factory=DailyWave)
    white_sd: NonNegative = 0.14
    white_h: Positive = 1.0 / 6.0
    steps: tuple[Step, ...] = ()
    rate_correlation: Annotated[float, Range(ge=-1, le=1)] = 0.0

    def check(self) -> None:
        if self.rate_correlation and self.wander is None:
            raise ConfigError("rate_correlation: expected 0: the drift has no wander")
        if self.high_share <= self.low_share:
            raise ConfigError(f"high_share: expected more than low_share {self.low_share:g}, got {self.high_share:g}")

    def logit_share(
        self,
        rng: np.random.Generator,
        times_s: np.ndarray,
        clock: Clock,
        base: TruncatedLogNormal,
        rate_wander: np.ndarray | None = None,
    ) -> np.ndarray:
        """logit P(L > threshold) at increasing times in seconds, the first 0. Same shape.

        ``rate_wander`` is the wander of the rate at the same times, in units of its sd. Each part draws from a
        generator of its own (append to that list), so that switching one off leaves the others as they were.
        """
        regimes, wander, jumps, white, steps = rng.spawn(5)
        elapsed_h = clock.elapsed_h(times_s)
        if self.regimes is None:
            path = np.full(len(times_s), float(logit(1.0 - base.cdf(self.threshold_tokens))))
        else:
            path = self.regimes.path(regimes, elapsed_h)
        for step, own in zip(self.steps, steps.spawn(len(self.steps)), strict=True):
            step.move(own, path, elapsed_h)
        if self.wander is not None:
            r = self.rate_correlation if rate_wander is not None else 0.0
            path += np.sqrt(1.0 - r**2) * self.wander.path(wander, elapsed_h)
            path += r * self.wander.sd * rate_wander if rate_wander is not None else 0.0
        if self.jumps is not None:
            path += self.jumps.path(jumps, elapsed_h)
        if self.daily is not None:
            path += self.daily.path(clock.hour(times_s))
        check_number(float(elapsed_h[-1]) / self.white_h, "steps of the drift's white noise")
        window = (elapsed_h // self.white_h).astype(np.int64)
        path += self.white_sd * white.standard_normal(window[-1] + 1)[window]
        return np.clip(path, logit(self.low_share), logit(self.high_share))

    def mu(
        self,
        rng: np.random.Generator,
        arrival_s: np.ndarray,
        horizon_s: float,
        clock: Clock,
        base: TruncatedLogNormal,
        rate_wander: np.ndarray | None = None,
    ) -> np.ndarray:
        """µ of the length law at each arrival. Shape of ``arrival_s``."""
        times_s = grid(horizon_s)
        path = np.interp(self.logit_share(rng, times_s, clock, base, rate_wander), *_mu_table(self, base))
        return np.interp(arrival_s, times_s, path)


@lru_cache(maxsize=64)
def _mu_table(drift: Drift, base: TruncatedLogNormal) -> tuple[np.ndarray, np.ndarray]:
    """µ over logit P between the bounds: solving for each point of each episode would dominate the cost of a draw."""
    x = np.linspace(logit(drift.low_share), logit(drift.high_share), 513)
    return x, base.mu_for(1.0 / (1.0 + np.exp(-x)), drift.threshold_tokens)
