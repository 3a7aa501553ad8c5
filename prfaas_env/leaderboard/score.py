"""The score of entries (``prfaas_env.evaluation.score``), and what an entry costs in every episode."""

from __future__ import annotations

import numpy as np

from prfaas_env.evaluation.score import CAP, FULL, cost_s, family_scores, gains, score, score_interval
from prfaas_env.leaderboard.entry import Entry
from prfaas_env.leaderboard.suite import LeaderboardSuite

__all__ = ["CAP", "FULL", "cost_s", "costs_s", "family_scores", "gains", "score", "score_interval"]


def costs_s(entry: Entry, suite: LeaderboardSuite) -> np.ndarray:
    """:func:`cost_s` of every episode, float64 (runs, scenarios, seeds)."""
    horizons_s = {scenario.name: scenario.horizon_s for scenario in suite.scenarios}
    costs = [cost_s(one.figures, horizons_s[one.scenario]) for one in entry.episodes]
    return np.array(costs).reshape(len(entry.runs), len(suite.scenarios), suite.seeds)
