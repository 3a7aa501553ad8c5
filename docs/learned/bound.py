"""How much a threshold can gain at all: ``hindsight`` that may use no other law, on the episodes aimed at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.findings.markdown import table
from docs.learned.comparison import number
from prfaas_env.evaluation.results import write_atomically
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.standings import BASELINE, METRIC
from prfaas_env.parallel.choice import make_executor
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario

__all__ = ["measured", "section"]

Rows = Sequence[Mapping[str, Any]]
PLAN: Mapping[str, Any] = {
    "laws": ("threshold",),
    "starts": ("windowed-closed-form", BASELINE, "load-aware", "learned"),
    "finalists": 1,
    "stretches_s": (900.0, 300.0, 100.0, 300.0, 100.0),
}
"""A shorter search than the leaderboard's: a minute an episode at most, but for large caches."""


def _planned_s(item: tuple[Scenario, int]) -> float:
    scenario, seed = item
    return float(simulate(scenario, load_policy("hindsight", scenario, **PLAN), seed).summary[METRIC])


def measured(rows: Rows, scenarios: Sequence[Scenario], name: str, planned: int, kept: Path, workers: int) -> Any:
    """Ratios to the baseline of the bound and of the policy ``name``, on the first ``planned`` seeds of each scenario.

    ``kept``: where plans are, that are not made again as long as the scenario is the same.
    """
    seeds = sorted({row["seed"] for row in rows})[:planned]
    plans = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    missing = [(scenario, seed) for scenario in scenarios for seed in seeds if f"{scenario.hash} {seed}" not in plans]
    with make_executor(workers, None, lambda _: None) as executor:
        for number_, mean_s in executor.run(_planned_s, missing):
            scenario, seed = missing[number_]
            plans[f"{scenario.hash} {seed}"] = mean_s
            write_atomically(kept, json.dumps(plans) + "\n")
    means = {(row["policy"], row["scenario"], row["seed"]): row[METRIC] for row in rows}
    return {
        "seeds": seeds,
        "scenarios": {
            scenario.name: {
                "bound": [plans[f"{scenario.hash} {s}"] / means[BASELINE, scenario.name, s] for s in seeds],
                "policy": [means[name, scenario.name, s] / means[BASELINE, scenario.name, s] for s in seeds],
            }
            for scenario in scenarios
        },
    }


def section(name: str, found: Mapping[str, Any]) -> list[str]:
    """What was found, in Markdown."""

    def mean(ratios: Sequence[float]) -> float:
        return float(np.exp(np.log(ratios).mean()))

    pooled = {who: [x for of in found["scenarios"].values() for x in of[who]] for who in ("bound", "policy")}
    seeds = found["seeds"]
    plural = "s" if len(seeds) > 1 else ""
    return [
        "### What a threshold could gain",
        "",
        f"Over the same scenarios the search that knows the future (`hindsight`) was held to the law of `{name}`, a "
        f"threshold and N_p, on {len(seeds)} episode{plural} each (seed{plural} {', '.join(map(str, seeds))}). It does "
        f"not prove that nothing better exists, but it begins with the policies above and with `{name}` itself. Mean "
        f"TTFT over that of `{BASELINE}`, geometric means:",
        "",
        table(
            ("scenario", "future known", f"`{name}`"),
            [
                *(
                    (one, number(mean(of["bound"])), number(mean(of["policy"])))
                    for one, of in found["scenarios"].items()
                ),
                ("all", number(mean(pooled["bound"])), number(mean(pooled["policy"]))),
            ],
        ),
    ]
