"""Which values of the observation a model has met in training: what a guard holds it to (``agents/guard.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import COMPONENTS, GROUPS, decode
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Scenario
from prfaas_env.training.settings import Settings

__all__ = ["SEEN_EVERY", "Ranges", "Seen", "joined", "played"]

BINS = 1000
TAIL = 0.001
"""Share of the values left out at each end: what was met once in a thousand steps has taught nothing."""
SEEN_EVERY = 5
"""Training counts one step in so many: they change slowly, and counting takes a tenth of a step's time."""

Ranges = Mapping[str, tuple[float, float]]
"""For each component the least and the greatest value met, in physical units."""


class Seen:
    """Counts how often each component had which value, so that millions of steps take no more room than one.

    ``groups`` are the parts of the observation that the policy sees; empty: all. Others hold it to nothing.
    """

    def __init__(self, groups: Sequence[str] = ()) -> None:
        self._names = {COMPONENTS[k].name for group in groups or GROUPS for k in GROUPS[group]}
        self._counts = np.zeros((len(COMPONENTS), BINS), dtype=np.int64)

    def add(self, observations: np.ndarray) -> None:
        """Count observations, float32 (…, k) in [−1, 1]."""
        rows = np.asarray(observations).reshape(-1, len(COMPONENTS))
        bins = np.clip(((rows + 1.0) / 2.0 * BINS).astype(np.int64), 0, BINS - 1)
        for counts, column in zip(self._counts, bins.T, strict=True):
            counts += np.bincount(column, minlength=BINS)

    def ranges(self) -> Ranges:
        """For each component the .1 % and the 99.9 % quantile, in physical units; empty if nothing was counted."""
        below = np.cumsum(self._counts, axis=1)
        total = below[:, -1:]
        if not total.all():
            return {}
        first = (below <= TAIL * total).sum(axis=1)
        last = (below < (1.0 - TAIL) * total).sum(axis=1)
        low, high = (decode(np.clip(2.0 * edge / BINS - 1.0, -1.0, 1.0)) for edge in (first, last + 1))
        return {name: (_short(low[name]), _short(high[name])) for name in low if name in self._names}


def joined(one: Ranges, other: Ranges) -> Ranges:
    """The ranges of two spells of training together."""
    wider = dict(one)
    for name, (low, high) in other.items():
        least, greatest = one.get(name, (low, high))
        wider[name] = (min(least, low), max(greatest, high))
    return wider


def played(
    policy: Any,
    action: ActionName,
    scenarios: Sequence[Scenario],
    seed: int,
    groups: Sequence[str] = (),
    copies: int = 64,
    episodes: int = 2,
) -> Seen:
    """What a model meets on its scenarios when nobody counted while it was trained; copy i is seeded ``seed + i``.

    Half of the copies explore around the model's actions, the other half around zero, as training did at its start.
    """
    copies = max(copies, 2 * len(scenarios))
    environments = PrfaaSVectorEnv(copies, [s for s in scenarios for _ in range(2)], action, threads=1)
    noise = np.random.default_rng(seed)
    seen, ended, state, start = Seen(groups), np.zeros(copies), None, np.ones(copies, dtype=bool)
    observations, _ = environments.reset(seed=seed)
    while ended.min() < episodes:
        seen.add(observations)
        actions, state = policy.predict(observations, state, start, deterministic=False)
        around_zero = noise.normal(0.0, np.exp(Settings.log_std), actions.shape)
        actions = np.where(np.arange(copies)[:, None] % 2, around_zero, actions)
        observations, _, _, start, _ = environments.step(np.clip(actions, -1.0, 1.0))
        ended += start
    environments.close()
    return seen


def _short(value: float) -> float:
    return float(f"{value:.4g}")
