"""Of what hindsight gains over the paper's scheduler, how much a shipped policy gains: the leaderboard's own score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.findings.markdown import percent, table
from docs.learned.results import FOLDER
from docs.learned.shipped import BEST_PRICED
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.score import FULL, cost_s, family_scores, gains, score, score_interval
from prfaas_env.evaluation.standings import BASELINE
from prfaas_env.leaderboard.entry import read_entry
from prfaas_env.leaderboard.suite import SUITES

__all__ = ["measured", "section"]

SUITE = SUITES["quick"]
ENTRY = FOLDER.parent / "leaderboard" / "entries" / f"{SUITE.bound}.json"


def measured(names: Sequence[str], seeds: Sequence[int], planned: int, out: Path, workers: int) -> dict[str, Any]:
    """Scores of the policies on the quick suite. Hindsight's costs are those of the leaderboard's entry, on as many of
    its seeds as are given; without one it plans the first ``planned`` of them here."""
    known = _entry_costs_s()
    seeds = [seed for seed in seeds if seed < SUITE.seeds] if known else list(range(planned))
    policies = [BASELINE, BEST_PRICED, *names, *([] if known else [SUITE.bound])]
    evaluation = evaluate(policies, [SUITE.name], seeds, out, engine=DEFAULT_ENGINE, workers=workers)
    rows = {(row["policy"], row["scenario"], row["seed"]): row for row in evaluation.rows}

    def costs_s(policy: str) -> np.ndarray:
        """Float64 (scenarios, seeds)."""
        if policy == SUITE.bound and known:
            return np.array([[known[one.name, seed] for seed in seeds] for one in SUITE.scenarios])
        return np.array(
            [[cost_s(rows[policy, one.name, seed], one.horizon_s) for seed in seeds] for one in SUITE.scenarios]
        )

    floor_s = costs_s(BASELINE)
    possible = gains(costs_s(SUITE.bound), floor_s)
    found = {}
    for policy in (BEST_PRICED, *names):
        gain = gains(costs_s(policy), floor_s)
        low, high = score_interval(gain[None], possible, SUITE.families)
        means, bounds = gain.mean(axis=1), possible.mean(axis=1)
        found[policy] = {
            "value": float(score(means, bounds, SUITE.families)),
            "low": low,
            "high": high,
            "families": dict(
                zip(dict.fromkeys(SUITE.families), family_scores(means, bounds, SUITE.families).tolist(), strict=True)
            ),
        }
    source = "the leaderboard's entry" if known else "planned for this page"
    return {"source": source, "seeds": list(seeds), "scores": found}


def _entry_costs_s() -> dict[tuple[str, int], float]:
    """Of every scenario and seed of the suite; empty where there is no entry of this suite."""
    if not ENTRY.is_file():
        return {}
    entry = read_entry(ENTRY)
    if entry.suite_hash != SUITE.hash:
        return {}
    horizons_s = {one.name: one.horizon_s for one in SUITE.scenarios}
    return {(one.scenario, one.seed): cost_s(one.figures, horizons_s[one.scenario]) for one in entry.episodes}


def section(found: Mapping[str, Any]) -> list[str]:
    """The scores in Markdown."""
    families = list(next(iter(found["scores"].values()))["families"])
    seeds = found["seeds"]
    return [
        "## The gap to hindsight",
        "",
        f"On the suite `{SUITE.name}`, seeds {seeds[0]} to {seeds[-1]}, `{SUITE.bound}` plans each episode with the "
        f"future known ({found['source']}). The share of its gain over `{BASELINE}` (mean logarithm of the ratio of "
        "mean TTFT, [the leaderboard's score](leaderboard.md)) that a policy gains, by family, and the interquartile "
        "mean over families with its 95 % interval over seeds:",
        "",
        table(
            ("policy", *families, "all"),
            [
                (f"`{policy}`", *(_share(one["families"][family]) for family in families), _overall(one))
                for policy, one in found["scores"].items()
            ],
        ),
    ]


def _share(found: float | None) -> str:
    return "–" if found is None else percent(found / FULL).replace("-", "−")


def _overall(one: Mapping[str, float | None]) -> str:
    interval = "" if one["low"] is None else f" [{_share(one['low'])}, {_share(one['high'])}]"
    return f"{_share(one['value'])}{interval}"
