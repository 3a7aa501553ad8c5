"""Standings by family of scenarios: where a policy is strong, and where it is weak; as ratios, and as scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.leaderboard import label
from prfaas_env.evaluation.score import FULL, cost_s, family_scores, gains, score
from prfaas_env.evaluation.standings import BASELINE, Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.pages.figures import number
from prfaas_env.scenario import Scenario

__all__ = ["FamilyTable", "ratio_table", "score_table"]

BOUND = "hindsight"
STRONGEST = 2.0  # the ratio, or its inverse, from which on a cell has its full colour


@dataclass(frozen=True)
class FamilyTable:
    """A row a policy and a column a family; ``shades`` from −1, good, to 1, bad."""

    header: Sequence[str]
    body: Sequence[Sequence[str]]
    policies: Sequence[str]
    shades: Sequence[Sequence[float]]


def ratio_table(board: Standings, scenarios: Sequence[Scenario]) -> FamilyTable:
    """The ratio of mean TTFT to the baseline's, the geometric mean over the scenarios of each family.

    ▼ is surely faster than the baseline, ▲ surely slower: the 95 % interval excludes 1.
    """
    families: dict[str, list[str]] = {}
    for scenario in scenarios:
        if scenario.name in board.scenarios:
            families.setdefault(scenario.family, []).append(scenario.name)
    policies = [standing.policy for standing in board.ranked]
    found = [[board.against(p, board.baseline, names) for names in families.values()] for p in policies]
    header = ["policy", *(f"{family} ({len(names)})" for family, names in families.items())]
    body = [[label(p), *map(_text, row)] for p, row in zip(policies, found, strict=True)]
    return FamilyTable(header, body, policies, [[_shade(one) for one in row] for row in found])


def score_table(board: Standings, scenarios: Sequence[Scenario]) -> FamilyTable | None:
    """The leaderboard's score, of all families together and of each; ``None`` unless floor and bound both took part.

    A policy is scored on the seeds that it, the floor and the bound have finished.
    """
    policies = [standing.policy for standing in board.ranked]
    if not {BASELINE, BOUND} <= set(policies):
        return None
    present = [scenario for scenario in scenarios if scenario.name in board.scenarios]
    families = [scenario.family for scenario in present]
    rows = {(row["policy"], row["scenario"], row["seed"]): row for row in board.rows}
    seeds = sorted({row["seed"] for row in board.rows})

    def costs_s(policy: str) -> np.ndarray:
        """Float64 (scenarios, seeds)."""
        return np.array(
            [[_cost_s(rows.get((policy, one.name, seed)), one.horizon_s) for seed in seeds] for one in present]
        )

    floor_s, bound_s = costs_s(BASELINE), costs_s(BOUND)
    scores = []
    for policy in policies:
        own_s = costs_s(policy)
        shared = np.isfinite(own_s + floor_s + bound_s)
        gain, possible = (_mean(gains(of, floor_s), shared) for of in (own_s, bound_s))
        scores.append([float(score(gain, possible, families)), *family_scores(gain, possible, families).tolist()])
    header = ["policy", "all", *dict.fromkeys(families)]
    body = [[label(p), *map(_score_text, row)] for p, row in zip(policies, scores, strict=True)]
    shades = [[float(np.clip(np.nan_to_num(-one / FULL), -1.0, 1.0)) for one in row] for row in scores]
    return FamilyTable(header, body, policies, shades)


def _cost_s(row: Mapping[str, Any] | None, horizon_s: float) -> float:
    """NaN for an episode that was not run, or that tells nothing: without requests, or not drained."""
    try:
        return cost_s(row, horizon_s) if row is not None else np.nan
    except ConfigError:
        return np.nan


def _mean(gain: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Means over the known seeds, NaN for a scenario without any."""
    with np.errstate(invalid="ignore"):
        means: np.ndarray = np.where(known, gain, 0.0).sum(axis=-1) / known.sum(axis=-1)
    return means


def _score_text(found: float) -> str:
    return str(round(found)) if np.isfinite(found) else "–"


def _text(found: Comparison) -> str:
    sign = " ▼" if found.better else " ▲" if found.worse else ""
    return f"{number(found.ratio)}{sign}"


def _shade(found: Comparison) -> float:
    if not np.isfinite(found.ratio):
        return 0.0
    return float(np.clip(np.log(found.ratio) / np.log(STRONGEST), -1.0, 1.0))
