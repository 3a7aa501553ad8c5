"""Laws of prompt and output length, and the samples that stand for them in closed forms.

A law is continuous in the length; requests carry whole tokens, so :meth:`sample` rounds to the nearest one. Every
law draws one uniform a request, by inverse CDF, so that a seed fixes request i's length whatever else is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.profiles import Positive

__all__ = [
    "Constant",
    "Empirical",
    "LengthLaw",
    "LengthPoints",
    "Mixture",
    "MixturePart",
    "NominalWorkload",
    "TruncatedLogNormal",
    "merge_points",
]

Tokens = Annotated[float, Range(ge=1)]


class LengthPoints(NamedTuple):
    """A law as weighted points: increasing lengths in tokens, their weights (sum 1), and which are true atoms.

    A point that is no atom stands for the law's mass around it, so that a threshold may cut it; an atom is mass at one
    length, which goes to one side whole. Each array has shape (points,).
    """

    lengths_tokens: np.ndarray
    weights: np.ndarray
    atom: np.ndarray


def merge_points(parts: list[LengthPoints]) -> LengthPoints:
    """The union of weighted points, in order of length, equal lengths joined."""
    lengths, index = np.unique(np.concatenate([part.lengths_tokens for part in parts]), return_inverse=True)
    weights = np.bincount(index, np.concatenate([part.weights for part in parts]))
    atom = np.bincount(index, np.concatenate([part.atom for part in parts])) > 0
    return LengthPoints(lengths, weights / weights.sum(), atom)


@dataclass(frozen=True)
class TruncatedLogNormal(Record):
    """Log-normal length, re-drawn until it lies between ``low_tokens`` and ``high_tokens`` (truncated, not clipped).

    ``mu`` and ``sigma`` are those of ln(tokens) before truncation. The paper's inputs: 9.90, 1.00, [128, 131072].
    """

    kind: ClassVar[str] = "truncated-log-normal"

    mu: float
    sigma: Annotated[float, Range(gt=0, le=10)]
    low_tokens: Tokens
    high_tokens: Tokens

    def check(self) -> None:
        if self.low_tokens >= self.high_tokens:
            raise ConfigError(
                f"low_tokens: expected less than high_tokens ({self.high_tokens:g}), got {self.low_tokens:g}"
            )
        if not np.log(self.low_tokens) - 30 * self.sigma < self.mu < np.log(self.high_tokens) + 30 * self.sigma:
            raise ConfigError(f"mu: expected within 30 sigma of the bounds, in ln(tokens), got {self.mu:g}")

    def quantile(self, u: np.ndarray | float, mu: np.ndarray | float | None = None) -> np.ndarray:
        """Length in tokens below which the share ``u`` lies; ``mu`` (broadcast against ``u``) may drift by request."""
        from scipy.special import ndtr, ndtri

        u, mu = np.asarray(u, dtype=np.float64), np.asarray(self.mu if mu is None else mu, dtype=np.float64)
        a, b = (np.log(self.low_tokens) - mu) / self.sigma, (np.log(self.high_tokens) - mu) / self.sigma
        # In the upper tail ndtr rounds to 1: work on the mirrored law, whose tail is the accurate one.
        mirror = a + b > 0
        near, far = ndtr(np.where(mirror, -b, a)), ndtr(np.where(mirror, -a, b))
        share = np.where(mirror, 1.0 - u, u)
        z = ndtri(near + share * (far - near)) * np.where(mirror, -1.0, 1.0)
        return np.clip(np.exp(mu + self.sigma * z), self.low_tokens, self.high_tokens)

    def cdf(self, length_tokens: np.ndarray | float, mu: np.ndarray | float | None = None) -> np.ndarray:
        """P(L ≤ length), broadcast over lengths and ``mu``."""
        mu = self.mu if mu is None else mu
        ends = np.log(self.low_tokens), np.log(self.high_tokens)
        x = np.clip(np.log(np.maximum(length_tokens, self.low_tokens)), *ends)
        a, b, z = ((v - mu) / self.sigma for v in (*ends, x))
        return _normal_mass(a, z) / _normal_mass(a, b)

    def mean(self) -> float:
        """Mean length in tokens."""
        a, b = (np.log(self.low_tokens) - self.mu) / self.sigma, (np.log(self.high_tokens) - self.mu) / self.sigma
        tilt = _normal_mass(a - self.sigma, b - self.sigma) / _normal_mass(a, b)
        return float(np.exp(self.mu + 0.5 * self.sigma**2) * tilt)

    def sample(self, rng: np.random.Generator, n: int, mu: np.ndarray | float | None = None) -> np.ndarray:
        """``n`` lengths in whole tokens, int64."""
        return np.rint(self.quantile(rng.random(n), mu)).astype(np.int64)

    def mu_for(self, tail_share: np.ndarray | float, threshold_tokens: float) -> np.ndarray:
        """The ``mu`` with which P(L > threshold) is ``tail_share``, at this sigma and these bounds (any shape).

        Raises :class:`ConfigError` unless every share is > 0 and < 1 and the threshold inside the bounds.
        """
        share = np.asarray(tail_share, dtype=np.float64)
        if not ((share > 0) & (share < 1)).all():
            raise ConfigError("tail share: expected shares > 0 and < 1")
        if not self.low_tokens < threshold_tokens < self.high_tokens:
            raise ConfigError(f"threshold_tokens: expected inside the law's bounds, got {threshold_tokens:g}")
        low = np.full(share.shape, np.log(self.low_tokens) - 20.0 * self.sigma)
        high = np.full(share.shape, np.log(self.high_tokens) + 20.0 * self.sigma)
        for _ in range(64):  # bisection: the tail share grows with mu
            middle = 0.5 * (low + high)
            below = 1.0 - self.cdf(threshold_tokens, middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def points(self, n: int) -> LengthPoints:
        """``n`` points of equal weight, at the middles of as many quantile steps."""
        lengths = np.unique(self.quantile((np.arange(n) + 0.5) / n))
        return LengthPoints(lengths, np.full(len(lengths), 1.0 / len(lengths)), np.zeros(len(lengths), dtype=bool))


def _normal_mass(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """P(a < Z ≤ b) of a standard normal, without cancellation in the upper tail."""
    from scipy.special import ndtr

    mirror = np.asarray(a) > 0
    return ndtr(np.where(mirror, -np.asarray(a), b)) - ndtr(np.where(mirror, -np.asarray(b), a))


@dataclass(frozen=True)
class Constant(Record):
    """Every request has the same length."""

    kind: ClassVar[str] = "constant"

    tokens: Tokens

    def quantile(self, u: np.ndarray | float) -> np.ndarray:
        """Length in tokens, the same for every ``u``."""
        return np.full(np.shape(u), self.tokens)

    def cdf(self, length_tokens: np.ndarray | float) -> np.ndarray:
        """P(L ≤ length)."""
        return np.where(np.asarray(length_tokens) >= self.tokens, 1.0, 0.0)

    def mean(self) -> float:
        """Mean length in tokens."""
        return self.tokens

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:  # noqa: ARG002 - every law has this signature
        """``n`` lengths in whole tokens, int64."""
        return np.full(n, round(self.tokens), dtype=np.int64)

    def points(self, n: int) -> LengthPoints:  # noqa: ARG002
        """The one length."""
        return LengthPoints(np.array([self.tokens]), np.ones(1), np.ones(1, dtype=bool))


@dataclass(frozen=True)
class Empirical(Record):
    """Lengths as they were measured; each value is equally likely."""

    kind: ClassVar[str] = "empirical"

    values_tokens: tuple[Tokens, ...]

    def check(self) -> None:
        if not self.values_tokens:
            raise ConfigError("values_tokens: expected at least one length")

    @cached_property
    def _sorted(self) -> np.ndarray:
        return np.sort(np.asarray(self.values_tokens))

    def quantile(self, u: np.ndarray | float) -> np.ndarray:
        """The smallest measured length with at least the share ``u`` at or below it."""
        n = len(self._sorted)
        return self._sorted[np.clip(np.ceil(np.asarray(u) * n).astype(np.int64) - 1, 0, n - 1)]

    def cdf(self, length_tokens: np.ndarray | float) -> np.ndarray:
        """P(L ≤ length)."""
        return np.searchsorted(self._sorted, length_tokens, side="right") / len(self._sorted)

    def mean(self) -> float:
        """Mean length in tokens."""
        return float(self._sorted.mean())

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """``n`` lengths in whole tokens, int64."""
        return np.rint(self.quantile(rng.random(n))).astype(np.int64)

    def points(self, n: int) -> LengthPoints:  # noqa: ARG002
        """The sample itself."""
        values, counts = np.unique(self._sorted, return_counts=True)
        return LengthPoints(values, counts / counts.sum(), np.ones(len(values), dtype=bool))


@dataclass(frozen=True)
class MixturePart(Record):
    """One law of a mixture, with its weight (weights need not sum to 1)."""

    weight: Positive
    law: LengthLaw


@dataclass(frozen=True)
class Mixture(Record):
    """Each request follows one of several laws, chosen by weight."""

    kind: ClassVar[str] = "mixture"

    parts: tuple[MixturePart, ...]

    def check(self) -> None:
        if not self.parts:
            raise ConfigError("parts: expected at least one law")

    @cached_property
    def _shares(self) -> np.ndarray:
        weights = np.array([part.weight for part in self.parts])
        return weights / weights.sum()

    def quantile(self, u: np.ndarray | float) -> np.ndarray:
        """Length in tokens below which the share ``u`` of the whole mixture lies (bisection on the CDF)."""
        u = np.asarray(u, dtype=np.float64)
        ends = np.array([part.law.quantile(np.array([0.0, 1.0])) for part in self.parts])
        low, high = np.full(u.shape, ends.min()), np.full(u.shape, ends.max())
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def cdf(self, length_tokens: np.ndarray | float) -> np.ndarray:
        """P(L ≤ length)."""
        shares = zip(self._shares, self.parts, strict=True)
        return np.asarray(sum(share * part.law.cdf(length_tokens) for share, part in shares))

    def mean(self) -> float:
        """Mean length in tokens."""
        return float(sum(share * part.law.mean() for share, part in zip(self._shares, self.parts, strict=True)))

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """``n`` lengths in whole tokens, int64. One uniform chooses the law and, rescaled, the length within it."""
        u = rng.random(n)
        upper = np.cumsum(self._shares)
        which = np.minimum(np.searchsorted(upper, u, side="right"), len(self.parts) - 1)
        inner = np.clip((u - (upper - self._shares)[which]) / self._shares[which], 0.0, np.nextafter(1.0, 0.0))
        lengths = np.empty(n)
        for k, part in enumerate(self.parts):
            lengths[which == k] = part.law.quantile(inner[which == k])
        return np.rint(lengths).astype(np.int64)

    def points(self, n: int) -> LengthPoints:
        """The points of every part (``n`` each), weighted by its share."""
        own = [part.law.points(n) for part in self.parts]
        return merge_points([p._replace(weights=p.weights * share) for p, share in zip(own, self._shares, strict=True)])


LengthLaw = TruncatedLogNormal | Mixture | Constant | Empirical


@dataclass(frozen=True)
class NominalWorkload(Record):
    """What an operator reckons with: the law of uncached input lengths and the law of output lengths.

    This is all that the closed form needs of a workload, and the content of a workload file:
    ``{lengths: {kind: …}, output_tokens: {kind: …}}``.
    """

    lengths: LengthLaw
    output_tokens: LengthLaw
