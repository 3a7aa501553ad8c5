"""The table and the figure, from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docs.findings.laboratory import estimate
from docs.findings.markdown import percent, simulated, table, wrapped
from docs.interval_chart import interval_chart
from prfaas_env.evaluation.standings import BASELINE
from prfaas_env.evaluation.statistics import compare

__all__ = ["COMMAND", "PAGE", "PICTURE", "RESULTS", "ablations_page", "against", "picture", "summed_up"]

COMMAND = "python -m benchmarks.ablations"
DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS, PAGE = DOCS / "results" / "ablations.json", DOCS / "results" / "ablations.md"
PICTURE = DOCS / "images" / "ablations.svg"
RATIOS = {"ttft_mean_s": "mean TTFT", "ttft_p99_s": "P99", "usd_per_million_output_tokens": "cost per token"}
TICKS = (0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)


def against(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """One model against another policy on the same episodes: geometric means over scenarios of the ratios of means, and
    goodput."""

    def column(of: Mapping[str, Any], scenario: str, key: str) -> np.ndarray:
        return np.array([episode[key] for episode in of[scenario]], float)

    found = {
        # Resampling is for an interval over episodes, and those here are over training seeds.
        key: compare([(column(own, s, key), column(other, s, key)) for s in own], np.random.default_rng(0), 1).ratio
        for key in RATIOS
    }
    return found | {"goodput": float(np.mean([column(own, s, "goodput").mean() for s in own]))}


def summed_up(models: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Mean over training seeds of every figure, with its 95 % interval where there are two or more."""
    return {
        key: {name: round(value, 5) for name, value in estimate(np.array([one[key] for one in models])).items()}
        if len(models) > 1
        else dict.fromkeys(("value", "low", "high"), round(models[0][key], 5))
        for key in models[0]
    }


def ablations_page(results: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    rows = results["variants"]
    seeds = max(len(of["seeds"]) for of in rows.values())
    lines = [
        "# Ablations",
        "",
        f"<!-- Written by `{COMMAND}` into docs/results/ablations.json; edit benchmarks/ablations/page.py. -->",
        "",
        f"What a choice in training is worth at a small budget: {results['timesteps']:,} steps a run but where the "
        "budget itself is varied, training "
        f"seeds 0 to {seeds - 1}. Each variant differs from `reference`, the recommended settings, in one thing. The "
        f"last model of every run plays {results['episodes']} episodes of each validation scenario "
        f"({', '.join(results['scenarios'])}), its guard in place. Ratios are to `{BASELINE}` (tuned) on the same "
        "episodes, geometric means over scenarios, less is better; goodput is a share of the requests. Intervals are "
        "95 % over training seeds: they say how another seed would do, and with three seeds they are wide. What holds "
        "at this budget need not hold at ten times as much.",
        "",
        "![Mean TTFT of every variant relative to dual-timescale](../images/ablations.svg)",
        "",
        table(
            ("choice", "variant", "seeds", *RATIOS.values(), "goodput"),
            [
                (
                    of["question"],
                    f"`{name}`",
                    len(of["seeds"]),
                    *(_cell(of, key) for key in RATIOS),
                    percent(of["figures"]["goodput"]["value"], 1),
                )
                for name, of in rows.items()
            ],
        ),
        "On the same episodes without any training: "
        + ", ".join(f"`{name}` {found['ttft_mean_s']:.2f}" for name, found in results["scripted"].items())
        + ".",
        "",
        "Settings that differ: "
        + "; ".join(f"`{name}`: {_settings(of['settings'])}" for name, of in rows.items() if of["settings"])
        + ".",
        "",
        f"`{results['command']}`, prfaas_env {results['version']}.",
        "",
    ]
    return wrapped("\n".join(lines))


def _cell(of: Mapping[str, Any], key: str) -> str:
    found = of["figures"][key]
    return simulated(found) if len(of["seeds"]) > 1 else f"{found['value']:.2f}"


def _settings(given: Mapping[str, Any]) -> str:
    if "observation_groups" in given:
        return "all other groups of the observation"
    shown = {key: value for key, value in given.items() if key != "checkpoint_every"}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def picture(results: Mapping[str, Any]) -> str:
    """Mean TTFT relative to the baseline, a row a variant, in groups by choice."""
    groups: dict[str, dict[str, Mapping[str, float]]] = {}
    for name, of in results["variants"].items():
        groups.setdefault(of["question"], {})[name] = of["figures"]["ttft_mean_s"]
    return interval_chart(groups, f"mean TTFT relative to {BASELINE}", TICKS, log=True)
