"""When requests arrive: a renewal process (Poisson by default) whose rate follows hour and week, wanders and bursts.

Every factor below but spikes and ramps is 1 on average, so that the mean rate of a scenario is the rate it names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import DAY_H, Clock, Jumps, MeanReverting, alternating, check_number, events, grid
from prfaas_env.profiles import NonNegative, Positive

__all__ = [
    "Arrivals",
    "Diurnal",
    "GammaGaps",
    "MinuteNoise",
    "OnOff",
    "Ramp",
    "RatePath",
    "RateWander",
    "Spikes",
    "Weekly",
    "WeibullGaps",
    "arrival_times",
]

MOST_ARRIVALS = 50_000_000  # in one episode: some gigabytes
RATE_STEP_S = 1.0  # the rate is constant over one second; the inversion of its integral is exact on that grid
Hour = Annotated[float, Range(ge=0, lt=DAY_H)]
Share = Annotated[float, Range(ge=0, le=1)]


@dataclass(frozen=True)
class Diurnal(Record):
    """The rhythm of the day: 1 + A₂₄ cos(2π(h − peak)/24) + A₁₂ cos(4π(h − peak₁₂)/24).

    Defaults: weekdays of the Azure 2024 conversation service, UTC (measured; its coding service: .927 at 18.0 h and
    .278 at 5.1 h).
    """

    amplitude_24h: Share = 0.195
    peak_h: Hour = 12.8
    amplitude_12h: Share = 0.069
    peak_12h_h: Hour = 3.2

    def factor(self, hour: np.ndarray) -> np.ndarray:
        """Relative rate at hours since midnight, never below 0. Same shape."""
        turn = 2.0 * np.pi / DAY_H
        wave = self.amplitude_24h * np.cos(turn * (hour - self.peak_h))
        wave += self.amplitude_12h * np.cos(2.0 * turn * (hour - self.peak_12h_h))
        return np.maximum(1.0 + wave, 0.0)


@dataclass(frozen=True)
class Weekly(Record):
    """The weekend: Saturday and Sunday at ``weekend_factor`` times the rate of the other days, the week's mean at 1.

    Default: Azure 2024 conversation (measured; its coding service: .32). ``first_day`` is that of the episode, 0 =
    Monday … 6 = Sunday; ``None`` draws it anew for every episode.
    """

    weekend_factor: Share = 0.57
    first_day: Annotated[int, Range(ge=0, le=6)] | None = None

    def factor(self, rng: np.random.Generator, hour: np.ndarray) -> np.ndarray:
        """Relative rate at hours since midnight of the first day. Same shape."""
        drawn = int(rng.integers(7))
        day = (hour // DAY_H + (drawn if self.first_day is None else self.first_day)) % 7
        weekday = 7.0 / (5.0 + 2.0 * self.weekend_factor)
        return np.where(day < 5, weekday, weekday * self.weekend_factor)


@dataclass(frozen=True)
class Ramp(Record):
    """A rate that is moved on purpose: ``factors`` at ``times_s``, straight lines between, constant outside.

    Not normalised: the mean rate is the scenario's times that of the factors. Measured example: Azure 2023 conversation
    goes from 2.6 to 7.5 requests/s within the hour, .47 to 1.36 of its mean.
    """

    times_s: tuple[NonNegative, ...]
    factors: tuple[Annotated[float, Range(ge=0, le=1e6)], ...]

    def check(self) -> None:
        if not self.times_s or len(self.times_s) != len(self.factors):
            raise ConfigError(f"factors: expected one a time and at least one, got {len(self.factors)}")
        if not all(a < b for a, b in zip(self.times_s, self.times_s[1:], strict=False)):
            raise ConfigError("times_s: expected increasing times")

    def factor(self, times_s: np.ndarray) -> np.ndarray:
        """Relative rate at times in seconds. Same shape."""
        return np.interp(times_s, self.times_s, self.factors)


@dataclass(frozen=True)
class OnOff(Record):
    """Bursts: ``on_over_mean`` times the mean rate while on, as little while off as keeps the mean.

    Default stays: Azure 2023 code (measured: 23 s on, 52.8 s off, 3.25 × the mean, which leaves next to nothing
    between the bursts). Milder ratios are a design choice.
    """

    on_over_mean: Annotated[float, Range(ge=1, le=1e6)] = 3.25
    mean_on_s: Positive = 23.0
    mean_off_s: Positive = 52.8

    def check(self) -> None:
        most = (self.mean_on_s + self.mean_off_s) / self.mean_on_s
        if self.on_over_mean > most:
            raise ConfigError(
                f"on_over_mean: expected at most {most:.4g} (with these stays all arrivals are then in the bursts), "
                f"got {self.on_over_mean:g}"
            )

    @property
    def off_over_mean(self) -> float:
        return (self.mean_on_s + self.mean_off_s - self.on_over_mean * self.mean_on_s) / self.mean_off_s

    def factor(self, rng: np.random.Generator, times_s: np.ndarray) -> np.ndarray:
        """Relative rate at times in seconds. Same shape."""
        switches, first_on = alternating(rng, float(times_s[-1]), self.mean_on_s, self.mean_off_s)
        on = (np.searchsorted(switches, times_s, side="right") % 2 == 0) == first_on
        return np.where(on, self.on_over_mean, self.off_over_mean)


@dataclass(frozen=True)
class Spikes(Record):
    """Rare short surges on top of everything else, which add to the mean rate.

    Default: 2–2.5 × for a minute, once a week (measured on the traces; a compressed day brings it sooner).
    """

    per_h: NonNegative = 1.0 / 168.0
    low_factor: Annotated[float, Range(ge=1, le=1e6)] = 2.0
    high_factor: Annotated[float, Range(ge=1, le=1e6)] = 2.5
    duration_s: Positive = 60.0

    def check(self) -> None:
        if self.high_factor < self.low_factor:
            raise ConfigError(
                f"high_factor: expected at least low_factor {self.low_factor:g}, got {self.high_factor:g}"
            )

    def factor(self, rng: np.random.Generator, times_s: np.ndarray, clock: Clock) -> np.ndarray:
        """Relative rate at times in seconds. Same shape."""
        factor = np.ones(len(times_s))
        per_s = self.per_h * float(clock.elapsed_h(1.0))
        for start in events(rng, per_s, 0.0, float(times_s[-1])):
            height = float(rng.uniform(self.low_factor, self.high_factor))
            factor[slice(*np.searchsorted(times_s, (start, start + self.duration_s)))] = height
        return factor


@dataclass(frozen=True)
class MinuteNoise(Record):
    """Log-normal variation of the rate from minute to minute, an AR(1) chain with mean 1.

    Coefficient of variation beyond Poisson, and correlation of neighbouring minutes, measured: Mooncake conversation
    .10 and .31 (the default), Azure 2023 conversation .21 and .82, Azure 2023 code 1.05 and .17.
    """

    cv: NonNegative = 0.10
    correlation: Annotated[float, Range(ge=0, lt=1)] = 0.31

    def factor(self, rng: np.random.Generator, times_s: np.ndarray) -> np.ndarray:
        """Relative rate at times in seconds, constant over each minute. Same shape."""
        minute = (times_s // 60.0).astype(np.int64)
        sd = float(np.sqrt(np.log1p(self.cv**2)))
        # A correlation of r a minute is an OU process with time constant 1 / ln(1/r) minutes.
        tau_min = 1.0 / np.log(1.0 / self.correlation) if self.correlation > 0.0 else 1e-3
        path = MeanReverting(sd, tau_min).path(rng, np.arange(minute[-1] + 1, dtype=np.float64))
        return np.exp(path - sd**2 / 2.0)[minute]


@dataclass(frozen=True)
class RateWander(Record):
    """Slow wander of the logarithm of the rate, with excursions.

    Defaults: ServeGen m-large (measured: sd .265 over 15.3 h; .21 jumps an hour of Laplace(.265) lasting 2 h).
    """

    sd: NonNegative = 0.265
    time_constant_h: Positive = 15.3
    jumps: Jumps | None = field(default_factory=lambda: Jumps(per_h=0.21, laplace_scale=0.265, mean_duration_h=2.0))

    def check(self) -> None:
        if self.jumps is not None and self.jumps.laplace_scale >= 1.0:
            raise ConfigError("jumps.laplace_scale: expected < 1 (the mean rate is infinite otherwise)")

    def factor(self, rng: np.random.Generator, times_h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Relative rate at times in hours of the scenario's clock, and the wander in units of its sd. Same shapes."""
        slow, sudden = rng.spawn(2)
        wander = MeanReverting(1.0, self.time_constant_h).path(slow, times_h)
        path = self.sd * wander - self.sd**2 / 2.0
        if self.jumps is not None:
            # E[exp] of a Poisson number of Laplace(b) heights is exp(number × b² / (1 − b²)).
            square = self.jumps.laplace_scale**2
            path += self.jumps.path(sudden, times_h) - self.jumps.mean_number * square / (1.0 - square)
        return np.exp(path), wander


@dataclass(frozen=True)
class GammaGaps(Record):
    """Gamma renewal arrivals: gaps with a coefficient of variation of ``cv`` (1 is Poisson, more comes in clumps).

    Measured: 2.3–3.4 for single clients of ServeGen; all of Mooncake, or of Azure's conversations, is Poisson within
    short windows.
    """

    kind: ClassVar[str] = "gamma"

    cv: Annotated[float, Range(ge=1e-3)] = 2.3

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """``n`` gaps of mean 1."""
        return rng.standard_gamma(self.cv**-2, n) * self.cv**2

    def first(self, rng: np.random.Generator) -> float:
        """What is left of the gap that any one moment falls into: a long gap is likelier to be met."""
        return float(rng.random() * rng.standard_gamma(self.cv**-2 + 1.0) * self.cv**2)


@dataclass(frozen=True)
class WeibullGaps(Record):
    """Weibull renewal arrivals. Measured: shape .48 (Azure 2023 code), .92 (its conversations); 1 is Poisson."""

    kind: ClassVar[str] = "weibull"

    shape: Annotated[float, Range(ge=0.2, le=100)] = 0.48

    @property
    def _scale(self) -> float:
        return 1.0 / math.gamma(1.0 + 1.0 / self.shape)

    @property
    def cv(self) -> float:
        """Coefficient of variation of the gaps."""
        return math.sqrt(math.gamma(1.0 + 2.0 / self.shape) * self._scale**2 - 1.0)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """``n`` gaps of mean 1."""
        return rng.weibull(self.shape, n) * self._scale

    def first(self, rng: np.random.Generator) -> float:
        """As for :class:`GammaGaps`."""
        met = rng.standard_gamma(1.0 + 1.0 / self.shape) ** (1.0 / self.shape)
        return float(rng.random() * met * self._scale)


@dataclass(frozen=True, eq=False)
class RatePath:
    """The rate of an episode: ``factor`` in each second; ``wander``, in units of its sd, on the grid of slow paths."""

    factor: np.ndarray
    wander: np.ndarray | None = None


@dataclass(frozen=True)
class Arrivals(Record):
    """Arrivals with ``gaps`` (``None``: Poisson), times whichever factors are given; none of them = a constant rate.

    Gaps count in expected arrivals, so that a doubled rate halves them.
    """

    diurnal: Diurnal | None = None
    wander: RateWander | None = None
    minute_noise: MinuteNoise | None = None
    bursts: OnOff | None = None
    spikes: Spikes | None = None
    weekly: Weekly | None = None
    ramp: Ramp | None = None
    gaps: GammaGaps | WeibullGaps | None = None

    def rate_path(self, rng: np.random.Generator, horizon_s: float, clock: Clock) -> RatePath:
        """Relative rate in each second of ``[0, horizon_s)``.

        Each factor draws from a generator of its own (append to that list, never insert).
        """
        times_s = np.arange(max(int(np.ceil(horizon_s / RATE_STEP_S)), 1)) * RATE_STEP_S
        wander, minutes, bursts, spikes, weekly = rng.spawn(5)
        factor, slow = np.ones(len(times_s)), None
        if self.diurnal is not None:
            factor *= self.diurnal.factor(clock.hour(times_s + RATE_STEP_S / 2.0))
        if self.wander is not None:
            coarse_s = grid(horizon_s)
            coarse, slow = self.wander.factor(wander, clock.elapsed_h(coarse_s))
            factor *= np.interp(times_s, coarse_s, coarse)
        if self.minute_noise is not None:
            factor *= self.minute_noise.factor(minutes, times_s)
        if self.bursts is not None:
            factor *= self.bursts.factor(bursts, times_s)
        if self.spikes is not None:
            factor *= self.spikes.factor(spikes, times_s, clock)
        if self.weekly is not None:
            factor *= self.weekly.factor(weekly, clock.hour(times_s))
        if self.ramp is not None:
            factor *= self.ramp.factor(times_s)
        return RatePath(factor, slow)


def arrival_times(
    rng: np.random.Generator,
    rate_rps: np.ndarray,
    start_s: float,
    horizon_s: float,
    law: GammaGaps | WeibullGaps | None = None,
) -> np.ndarray:
    """Arrival times in ``[start_s, horizon_s)`` for rates that hold one second each from ``start_s`` on. Shape (n,).

    Gaps of mean 1 (exponential without a ``law``) are summed and sent through the inverse of the cumulative rate:
    exact, and a higher rate or a longer horizon uses the same numbers in the same order. Raises :class:`ConfigError`
    where more than :data:`MOST_ARRIVALS` are to be expected.
    """
    check_number(float(rate_rps.sum()) * RATE_STEP_S, "arrivals", MOST_ARRIVALS)
    edges = start_s + np.arange(len(rate_rps) + 1) * RATE_STEP_S
    cumulative = np.concatenate([[0.0], np.cumsum(rate_rps * RATE_STEP_S)])
    total = float(np.interp(horizon_s, edges, cumulative))
    gaps = np.empty(0) if law is None else np.array([law.first(rng)])
    spread = 4.0 * (1.0 if law is None else law.cv)
    while (passed := np.cumsum(gaps)).size == 0 or passed[-1] < total:
        missing = total - (passed[-1] if passed.size else 0.0)
        n = int(missing + spread * np.sqrt(missing) + 16.0)
        gaps = np.concatenate([gaps, rng.standard_exponential(n) if law is None else law.draw(rng, n)])
    return np.interp(passed[: np.searchsorted(passed, total, side="left")], cumulative, edges)
