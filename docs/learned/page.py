"""The page and its pictures, from results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.findings.markdown import wrapped
from docs.learned import bound, comparison, episodes, gap, guarding, responses
from docs.learned.shipped import Shipped
from prfaas_env.evaluation.words import FEW_SEEDS

__all__ = ["COMMAND", "learned_page", "pictures"]

COMMAND = "python -m docs.learned"

HEAD = f"""\
# What the learned policies do

<!-- Written by `{COMMAND}` from docs/results/learned.json; with --from-results from those that are there. -->

Each shipped model (`agents/pretrained/`) beside the scripted policies, on the same requests: by how much, where not,
what it does differently, and when it was held back. Ratios are of mean TTFT, less is better; intervals are 95 %
bootstrap intervals over seeds, in pairs ([evaluation](evaluation.md)); ▼ is surely faster, ▲ surely slower. How the
models were trained stands in their cards and in [training](training.md).
"""


def learned_page(results: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    seeds = len(results["seeds"])
    few = [f"Few seeds ({seeds}): what follows is rough.\n"] if seeds < FEW_SEEDS else []
    parts = [HEAD, *few]
    for name, found in results["policies"].items():
        model = Shipped(**found["model"])
        parts += [
            f"## `{name}`",
            "",
            f"Form `{model.form}`, {model.algorithm}, {model.timesteps:,} steps; its network corrects `{model.base}`.",
            "",
            *comparison.sections(name, found["comparison"]),
            *(bound.section(name, results["bound"][name]) if name in results["bound"] else []),
            *responses.section(model, found["responses"]),
            *episodes.section(model, found["episodes"]),
            *guarding.section(name, model.base, found["guard"]),
        ]
    if results["gap"] is not None:
        parts += gap.section(results["gap"])
    return wrapped("\n".join([*parts, *_provenance(results)]))


def pictures(results: Mapping[str, Any]) -> dict[str, str]:
    """SVG by file name."""
    drawn = {}
    for name, found in results["policies"].items():
        model = Shipped(**found["model"])
        drawn[f"{name}-ratios.svg"] = comparison.picture(found["comparison"])
        drawn[f"{name}-responses.svg"] = responses.picture(model, found["responses"])
        for k, episode in enumerate(found["episodes"]):
            drawn[f"{name}-episode-{k + 1}.svg"] = episodes.picture(episode)
    return drawn


def _provenance(results: Mapping[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in results["libraries"].items())
    seeds = results["seeds"]
    return [
        "## How it came about",
        "",
        f"`{results['command']}`: {len(results['scenarios'])} scenarios, seeds {seeds[0]} to {seeds[-1]}. "
        "[`docs/results/learned.json`](results/learned.json) holds the figures, the mean TTFT of every episode, the "
        f"hash of every scenario and of every model, the commit and the versions (prfaas_env {results['version']}, "
        f"{versions}).",
        "",
    ]
