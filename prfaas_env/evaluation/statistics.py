"""Paired comparison of a policy with a baseline on common random numbers.

Both ran on the same request streams, so episode-to-episode variance, which is far larger than the difference between
policies, cancels in the pairs. Costs are such that less is better (mean TTFT in seconds).

Intervals are paired bootstrap intervals over seeds on the logarithm of the ratio, each scenario resampled on its own
(:mod:`prfaas_env.evaluation.bootstrap`). The aggregates over scores are those of Agarwal et al., "Deep Reinforcement
Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prfaas_env.evaluation.bootstrap import RESAMPLES, interval

__all__ = [
    "Comparison",
    "compare",
    "interquartile_mean",
    "interquartile_means",
    "optimality_gap",
    "performance_profile",
    "win_share",
]

NAN = float("nan")

Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Comparison:
    """A policy against the baseline; NaN where there are too few pairs.

    - ``ratio``: mean cost of the policy / mean cost of the baseline; over several scenarios the geometric mean of their
      ratios, so that each scenario counts once whatever its scale. ``low`` to ``high`` is its 95 % interval
      (NaN with fewer than two pairs in a scenario).
    - ``interquartile_ratio``: mean of the middle half of the paired ratios, robust to a few collapsed episodes.
    - ``win_share``: share of pairs in which the policy's cost is lower, ties counting half.
    - ``pairs``: number of pairs behind it.
    """

    ratio: float
    low: float
    high: float
    interquartile_ratio: float
    win_share: float
    pairs: int

    @property
    def better(self) -> bool:
        """The whole interval lies below 1."""
        return self.high < 1.0

    @property
    def worse(self) -> bool:
        """The whole interval lies above 1."""
        return self.low > 1.0


def compare(strata: Sequence[Pairs], rng: np.random.Generator, resamples: int = RESAMPLES) -> Comparison:
    """Compare over scenarios: each gives (policy, baseline), two float arrays of one cost a seed, in the same order.

    Pairs in which either side is not finite (an episode without requests) are left out.
    """
    kept = [(x[known], y[known]) for x, y in strata for known in [np.isfinite(x) & np.isfinite(y)]]
    kept = [pair for pair in kept if len(pair[0])]
    if not kept:
        return Comparison(NAN, NAN, NAN, NAN, NAN, pairs=0)
    ratios = np.concatenate([x / y for x, y in kept])
    wins = win_share(*(np.concatenate(side) for side in zip(*kept, strict=True)))
    groups = [np.column_stack(pair) for pair in kept]
    estimate = np.exp(_log_ratio([group.mean(axis=0) for group in groups]))
    low, high = np.exp(interval(groups, _log_ratio, rng, resamples))
    return Comparison(float(estimate), float(low), float(high), interquartile_mean(ratios), wins, len(ratios))


def _log_ratio(means: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over scenarios of log(mean cost of the policy / mean cost of the baseline)."""
    total = sum(np.log(mean[..., 0] / mean[..., 1]) for mean in means)
    return np.asarray(total) / len(means)


def interquartile_mean(values: np.ndarray) -> float:
    """Mean of the middle half: a quarter of the weight is cut at each end, the values at the cuts counting in part."""
    return float(interquartile_means(values))


def interquartile_means(values: np.ndarray) -> np.ndarray:
    """:func:`interquartile_mean` over the last axis."""
    ordered, n = np.sort(values, axis=-1), np.shape(values)[-1]
    if n == 0:
        return np.full(np.shape(values)[:-1], NAN)
    edges = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    return np.asarray((ordered * np.diff(edges)).sum(axis=-1) / (n / 2))


def optimality_gap(scores: np.ndarray, target: float) -> float:
    """Mean of what the scores lack to ``target``; more than the target counts as the target."""
    return float(np.maximum(target - scores, 0.0).mean())


def performance_profile(scores: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """The share of the scores that reach each threshold."""
    return (scores.reshape(-1) >= np.asarray(thresholds)[:, None]).mean(axis=1)


def win_share(costs: np.ndarray, others: np.ndarray) -> float:
    """Probability of improvement, in pairs: the share of pairs in which the cost is lower, ties counting half."""
    return float(((costs < others) + 0.5 * (costs == others)).mean())
