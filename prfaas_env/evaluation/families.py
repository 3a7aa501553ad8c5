"""Standings by family of scenarios: where a policy is strong, and where it is weak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prfaas_env.evaluation.leaderboard import label
from prfaas_env.evaluation.standings import Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.pages.figures import number
from prfaas_env.scenario import Scenario

__all__ = ["FamilyTable", "family_table"]

STRONGEST = 2.0  # the ratio, or its inverse, from which on a cell has its full colour


@dataclass(frozen=True)
class FamilyTable:
    """Ratios to the baseline, a row a policy and a column a family; ``shades`` from −1, good, to 1, bad."""

    header: Sequence[str]
    body: Sequence[Sequence[str]]
    policies: Sequence[str]
    shades: Sequence[Sequence[float]]


def family_table(board: Standings, scenarios: Sequence[Scenario]) -> FamilyTable:
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


def _text(found: Comparison) -> str:
    sign = " ▼" if found.better else " ▲" if found.worse else ""
    return f"{number(found.ratio)}{sign}"


def _shade(found: Comparison) -> float:
    if not np.isfinite(found.ratio):
        return 0.0
    return float(np.clip(np.log(found.ratio) / np.log(STRONGEST), -1.0, 1.0))
