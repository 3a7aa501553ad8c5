"""``python -m docs.learned [--from-results]``: run the comparison, store the results, write page and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import prfaas_env
from docs.learned import bound, comparison, episodes, gap, guarding, responses
from docs.learned.page import COMMAND, learned_page, pictures
from docs.learned.results import FOLDER, RESULTS, as_json, plain, read_results
from docs.learned.shipped import SCRIPTED, shipped
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.provenance import git_commit, libraries
from prfaas_env.evaluation.standings import METRIC, standings

__all__ = ["measured"]

OUT = FOLDER.parent / "results" / "learned"


def measured(scenarios: Sequence[str], seeds: int, planned_seeds: int, out: Path, workers: int) -> dict[str, Any]:
    """Everything that the page says. Finished episodes stay in ``out``, where a second run takes them from."""
    models = shipped()
    names = [model.name for model in models]
    tried = range(seeds)
    evaluation = evaluate([*SCRIPTED, *names], scenarios, tried, out, engine=DEFAULT_ENGINE, workers=workers)
    if len(evaluation.cells) < evaluation.planned:
        raise click.Abort
    board, suite = standings(evaluation), evaluation.scenarios
    policies = {
        model.name: {
            "model": asdict(model),
            "comparison": comparison.compared(board, suite, model),
            "responses": responses.responses(model),
            "episodes": episodes.chosen(evaluation.rows, suite, model),
            "guard": guarding.counted(evaluation.rows, suite, model.name),
        }
        for model in models
    }
    by_threshold = [model.name for model in models if not model.by_price]
    bounds = {
        name: bound.measured(
            evaluation.rows,
            comparison.aimed_scenarios(suite),
            name,
            planned_seeds,
            out / "bound-threshold.json",
            workers,
        )
        for name in by_threshold[: bool(planned_seeds)]
    }
    closed = gap.measured(names, tried, planned_seeds, out / "quick", workers) if planned_seeds else None
    return {
        "schema": 1,
        "version": prfaas_env.__version__,
        "git_commit": git_commit(),
        "libraries": libraries(),
        "seeds": list(tried),
        "scenarios": {one.name: one.hash for one in suite},
        "policies": plain(policies),
        "gap": plain(closed),
        "bound": plain(bounds),
        METRIC: {
            one.name: {
                p: plain([r[METRIC] for r in evaluation.rows if (r["policy"], r["scenario"]) == (p, one.name)])
                for p in evaluation.policies
            }
            for one in suite
        },
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(min=2), default=10, show_default=True, help="Episodes a scenario.")
@click.option("--scenarios", default="test", show_default=True, help="Names, paths and groups, with commas.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@click.option(
    "--hindsight-seeds",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    help="Episodes a scenario that hindsight plans by thresholds alone, and by any law where the leaderboard has no "
    "entry of it; 0 leaves both out.",
)
@click.option("--from-results", is_flag=True, help=f"Run nothing: render {RESULTS.relative_to(FOLDER.parent)} anew.")
def main(seeds: int, scenarios: str, workers: int, hindsight_seeds: int, from_results: bool) -> None:
    """Compare the shipped learned policies, store the results, write docs/learned.md and its pictures."""
    if not from_results:
        command = f"{COMMAND} --seeds {seeds} --scenarios {scenarios} --hindsight-seeds {hindsight_seeds}"
        results = {"command": command, **measured(scenarios.split(","), seeds, hindsight_seeds, OUT, workers)}
        RESULTS.write_text(as_json(results), encoding="utf-8")
    results = read_results()
    (FOLDER / "learned.md").write_text(learned_page(results), encoding="utf-8")
    for name, picture in pictures(results).items():
        (FOLDER / "images" / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
