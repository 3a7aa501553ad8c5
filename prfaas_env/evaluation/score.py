"""The score: how far an entry comes from the paper's scheduler (0) to the best sequence that hindsight finds (100).

Of each episode the *gain* is log(TTFT of the floor / TTFT of the entry), capped at a factor of ``CAP`` either way. A
family of scenarios scores 100 × its mean gain / the mean gain of the bound there, and the score is the interquartile
mean over families.

Why a capped ratio: in logarithms an overloaded episode counts as much as any other, and even a collapse no more than
``CAP`` times. A cap on each request's TTFT would instead reward whoever lets late requests starve, and hindsight, which
is chosen by the sum of TTFT, would be no bound any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.bootstrap import RESAMPLES, interval
from prfaas_env.evaluation.statistics import interquartile_means

__all__ = ["CAP", "FULL", "cost_s", "family_scores", "gains", "score", "score_interval"]

CAP = 10.0
FULL = 100.0
BOOTSTRAP_SEED = 0


def cost_s(figures: Mapping[str, float | None], horizon_s: float) -> float:
    """Mean TTFT over every arrival, at equal work: one that was refused counts as the whole horizon.

    Raises :class:`ConfigError` on an episode without requests.
    """
    arrived, completed, rejected = (figures[key] or 0.0 for key in ("arrived", "completed", "rejected"))
    if not arrived or arrived != completed + rejected:
        raise ConfigError(f"expected every one of {arrived:g} requests completed or rejected")
    return ((figures["ttft_mean_s"] or 0.0) * completed + horizon_s * rejected) / arrived


def gains(costs: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """The gain of each episode over the floor's, whatever their shapes."""
    most = math.log(CAP)
    return np.clip(np.log(floor / costs), -most, most)


def score(gain: np.ndarray, possible: np.ndarray, families: Sequence[str]) -> np.ndarray:
    """**The** score, shape (…), of mean gains by scenario, (…, scenarios): an entry's, and the bound's."""
    return interquartile_means(family_scores(gain, possible, families))


def family_scores(gain: np.ndarray, possible: np.ndarray, families: Sequence[str]) -> np.ndarray:
    """The score of each family, (…, families), in the order of their first scenarios."""
    own = np.array(families)
    members = [np.flatnonzero(own == family) for family in dict.fromkeys(families)]
    parts = [gain[..., of].mean(axis=-1) / possible[..., of].mean(axis=-1) for of in members]
    return FULL * np.stack(parts, axis=-1)


def score_interval(
    gain: np.ndarray, possible: np.ndarray, families: Sequence[str], resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 95 % interval of the score, of the gains of every episode: ``gain`` (runs, scenarios, seeds), ``possible``
    (scenarios, seeds).

    One run: seeds are the units, each scenario's resampled on its own, with the bound's gain on the same seed. Several
    models of one recipe: the models are the units, and it speaks of other models of that recipe on these seeds.
    """
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    if len(gain) > 1:
        bound = possible.mean(axis=-1)
        return interval([gain.mean(axis=-1)], lambda means: score(means[0], bound, families), rng, resamples)

    def of_scenarios(means: Sequence[np.ndarray]) -> np.ndarray:
        together = np.stack(np.broadcast_arrays(*means), axis=-2)  # (…, scenarios, 2)
        return score(together[..., 0], together[..., 1], families)

    return interval(
        [np.column_stack(pair) for pair in zip(gain[0], possible, strict=True)], of_scenarios, rng, resamples
    )
