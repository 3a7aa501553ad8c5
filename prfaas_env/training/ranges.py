"""Which values of the observation a model has met in training: what a guard holds it to (``agents/guard.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import COMPONENTS, decode
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Scenario
from prfaas_env.training.settings import Settings

__all__ = ["Seen", "played"]

BINS = 1000
TAIL = 0.001
"""Share of the values left out at each end: what was met once in a thousand steps has taught nothing."""


class Seen:
    """Counts how often each component had which value, so that millions of steps take no more room than one."""

    def __init__(self) -> None:
        self._counts = np.zeros((len(COMPONENTS), BINS), dtype=np.int64)

    def add(self, observations: np.ndarray) -> None:
        """Count observations, float32 (…, k) in [−1, 1]."""
        rows = np.asarray(observations).reshape(-1, len(COMPONENTS))
        bins = np.clip(((rows + 1.0) / 2.0 * BINS).astype(np.int64), 0, BINS - 1)
        for counts, column in zip(self._counts, bins.T, strict=True):
            counts += np.bincount(column, minlength=BINS)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """For each component the .1 % and the 99.9 % quantile, in physical units; empty if nothing was counted."""
        below = np.cumsum(self._counts, axis=1)
        total = below[:, -1:]
        if not total.all():
            return {}
        first = (below <= TAIL * total).sum(axis=1)
        last = (below < (1.0 - TAIL) * total).sum(axis=1)
        low, high = (decode(np.clip(2.0 * edge / BINS - 1.0, -1.0, 1.0)) for edge in (first, last + 1))
        return {name: (_short(low[name]), _short(high[name])) for name in low}


def played(
    policy: Any, action: ActionName, scenarios: Sequence[Scenario], seed: int, copies: int = 64, episodes: int = 2
) -> Seen:
    """What a model meets on its scenarios when nobody counted while it was trained; copy i is seeded ``seed + i``.

    Half of the copies explore around the model's actions, the other half around zero, as training did at its start.
    """
    copies = max(copies, 2 * len(scenarios))
    environments = PrfaaSVectorEnv(copies, [s for s in scenarios for _ in range(2)], action, threads=1)
    noise = np.random.default_rng(seed)
    seen, ended, state, start = Seen(), np.zeros(copies), None, np.ones(copies, dtype=bool)
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
