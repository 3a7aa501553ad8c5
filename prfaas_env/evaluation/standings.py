"""Who stands where: the rows of an evaluation, averaged over seeds and compared with the baseline in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.statistics import Comparison, compare

__all__ = ["BASELINE", "REFERENCES", "Standing", "Standings", "standings"]

BASELINE = "dual-timescale"
REFERENCES = {"hindsight": "bound", "mpc": "reference"}
"""Policies that know more than an operator, and as what they are shown: they are no contenders."""
METRIC = "ttft_mean_s"
BOOTSTRAP_SEED = 0
FAR = 4.0  # times the lowest ratio: beyond it a policy would press all others together in a chart

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """One policy: its comparison with the baseline overall and by scenario, and its averages over seeds by scenario."""

    policy: str
    overall: Comparison
    by_scenario: Mapping[str, Comparison]
    means: Mapping[str, Mapping[str, float]]

    def mean(self, scenario: str, key: str) -> float:
        """The average of an aggregate over the seeds of a scenario; NaN if none has one."""
        return self.means[scenario].get(key, float("nan"))

    def order(self, scenario: str) -> float:
        """What sorts policies within a scenario: mean TTFT, the unknown last."""
        return float(np.nan_to_num(self.mean(scenario, METRIC), nan=np.inf))


@dataclass(frozen=True)
class Standings:
    """All policies, the best overall ratio of mean TTFT first."""

    baseline: str
    scenarios: Sequence[str]
    ranked: Sequence[Standing]
    rows: Sequence[Row]

    def of(self, policy: str) -> Standing:
        return next(standing for standing in self.ranked if standing.policy == policy)

    def contenders(self) -> list[Standing]:
        return [standing for standing in self.ranked if standing.policy not in REFERENCES]

    def comparison(self, policy: str, scenario: str | None) -> Comparison:
        """A policy against the baseline in a scenario; ``None`` is all of them together."""
        standing = self.of(policy)
        return standing.overall if scenario is None else standing.by_scenario[scenario]

    def in_sight(self, scenario: str | None) -> frozenset[str]:
        """The policies within ``FAR`` times the lowest ratio of a contender, for which a chart chooses its axis."""
        ratios = {s.policy: self.comparison(s.policy, scenario).ratio for s in self.contenders()}
        lowest = min((ratio for ratio in ratios.values() if np.isfinite(ratio)), default=np.nan)
        return frozenset(policy for policy, ratio in ratios.items() if ratio <= FAR * lowest)

    def against(self, policy: str, other: str, scenarios: Sequence[str], metric: str = METRIC) -> Comparison:
        """Mean TTFT (or another cost of the rows) of ``policy`` against that of ``other`` in these scenarios."""
        pairs = [_pairs(self.rows, policy, other, scenario, metric) for scenario in scenarios]
        return compare(pairs, np.random.default_rng(BOOTSTRAP_SEED))


def standings(evaluation: Evaluation) -> Standings:
    """Standings of the finished cells. A comparison uses the seeds that both policies have finished.

    The bootstrap of every comparison starts from the same seed, so that a figure does not depend on who else took part.
    """
    rows, baseline = evaluation.rows, evaluation.baseline
    present = [s.name for s in evaluation.scenarios if any(row["scenario"] == s.name for row in rows)]
    board = Standings(baseline, present, [], rows)
    found = [
        Standing(
            policy,
            board.against(policy, baseline, present),
            {s: board.against(policy, baseline, [s]) for s in present},
            {s: _means([row for row in rows if (row["policy"], row["scenario"]) == (policy, s)]) for s in present},
        )
        for policy in evaluation.policies
    ]
    ranked = sorted(found, key=lambda standing: np.nan_to_num(standing.overall.ratio, nan=np.inf))
    return Standings(baseline, present, ranked, rows)


def _pairs(rows: Sequence[Row], policy: str, other: str, scenario: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    ours, theirs = (
        {row["seed"]: row[metric] for row in rows if (row["policy"], row["scenario"]) == (name, scenario)}
        for name in (policy, other)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    return np.array([ours[s] for s in seeds], float), np.array([theirs[s] for s in seeds], float)


def _means(rows: Sequence[Row]) -> dict[str, float]:
    """Average over seeds of every number in the rows, seeds without a value left out; NaN if none has one."""
    numbers = [key for key, value in rows[0].items() if isinstance(value, (int, float))] if rows else []
    columns = {key: np.array([row[key] for row in rows], float) for key in numbers if key != "seed"}
    return {
        key: float(c[np.isfinite(c)].mean()) if np.isfinite(c).any() else float("nan") for key, c in columns.items()
    }
