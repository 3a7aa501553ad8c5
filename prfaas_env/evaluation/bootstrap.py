"""Intervals by resampling: for a figure that is a smooth function of the means of several groups of independent units.

Each group (a scenario, whose units are seeds) is resampled on its own, the values of a unit together (paired). The
interval is *studentised* and symmetric: the estimate, more and less the 95 % quantile of |estimate* − estimate| over
error*, times its error, which is that of the jackknife (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993,
chapter 12; Hall, "The Bootstrap and Edgeworth Expansion", 1992, section 3.6). Below ``FEWEST`` units a resample too
often has no spread to divide by: then it is the percentile interval, expanded for small samples (Hesterberg, "What
Teachers Should Know About the Bootstrap", The American Statistician 69(4), 2015). docs/evaluation.md says how often
either contains the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["CONFIDENCE", "FEWEST", "RESAMPLES", "Statistic", "expanded_tail", "interval"]

RESAMPLES = 5000
CONFIDENCE = 0.95
FEWEST = 5
BATCH = 250  # resamples held at once, with each unit left out in turn
ROUNDING = 1e-9  # of the estimate: a difference below it is none

Statistic = Callable[[Sequence[np.ndarray]], np.ndarray]
"""From the means of every group, (…, values) each, broadcast against one another, to the figure, (…)."""


def interval(
    groups: Sequence[np.ndarray], statistic: Statistic, rng: np.random.Generator, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 95 % interval of ``statistic``; NaN if a group has fewer than two units.

    ``groups``: float64 (units, values) each.
    """
    fewest = min((len(group) for group in groups), default=0)
    if fewest < 2:
        return float("nan"), float("nan")
    if fewest < FEWEST:
        return _percentile(groups, statistic, rng, resamples)
    estimate, error = (float(x) for x in _with_error(groups, statistic))
    least = ROUNDING * max(1.0, abs(estimate))
    if error < least:
        return estimate, estimate
    ratios = []
    for first in range(0, resamples, BATCH):
        drawn = _drawn(groups, rng, min(BATCH, resamples - first))
        estimates, errors = _with_error(drawn, statistic)
        # A resample of equal units that is off all the same counts as infinitely far off.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(np.where(abs(estimates - estimate) < least, 0.0, abs(estimates - estimate) / errors))
    half = error * float(np.quantile(np.concatenate(ratios), CONFIDENCE, method="higher"))
    return estimate - half, estimate + half


def _drawn(groups: Sequence[np.ndarray], rng: np.random.Generator, resamples: int) -> list[np.ndarray]:
    """Resamples of every group, (resamples, units, values)."""
    return [group[rng.integers(len(group), size=(resamples, len(group)))] for group in groups]


def _with_error(groups: Sequence[np.ndarray], statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """The figure and its jackknife error; groups of shape (…, units, values)."""
    means = [group.mean(axis=-2) for group in groups]
    variance = np.zeros(())
    for k, group in enumerate(groups):
        n = group.shape[-2]
        left_out = (n * means[k][..., None, :] - group) / (n - 1)
        others = [mean[..., None, :] for mean in means]
        figures = statistic([*others[:k], left_out, *others[k + 1 :]])
        variance = variance + (n - 1) * figures.var(axis=-1)
    return statistic(means), np.sqrt(variance)


def _percentile(
    groups: Sequence[np.ndarray], statistic: Statistic, rng: np.random.Generator, resamples: int
) -> tuple[float, float]:
    figures = statistic([drawn.mean(axis=-2) for drawn in _drawn(groups, rng, resamples)])
    tail = expanded_tail(min(map(len, groups)), degrees=sum(len(group) - 1 for group in groups))
    low, high = np.quantile(figures, [tail, 1.0 - tail])
    return float(low), float(high)


def expanded_tail(n: int, degrees: int, confidence: float = CONFIDENCE) -> float:
    """Tail probability to cut off on each side, for ``n`` ≥ 2 units a group and ``degrees`` of freedom in all.

    Φ(√(n/(n−1)) · t), t the quantile of Student's t; with one group the degrees are n − 1.
    """
    from scipy.special import ndtr, stdtrit

    return float(ndtr(np.sqrt(n / (n - 1)) * stdtrit(degrees, (1.0 - confidence) / 2.0)))
