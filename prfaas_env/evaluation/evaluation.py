"""An evaluation from names to files: check everything, run the cells, write results, leaderboard and report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import track

import prfaas_env
from prfaas_env.config import ConfigError
from prfaas_env.evaluation.leaderboard import to_markdown
from prfaas_env.evaluation.results import CellResult, Evaluation, prepare_folder, results_json, write_atomically
from prfaas_env.evaluation.runner import plan_cells, run_cells
from prfaas_env.evaluation.standings import BASELINE, standings
from prfaas_env.evaluation.suites import Suite, resolve_suite
from prfaas_env.policies import load_policy
from prfaas_env.seeds import check_evaluation_seeds
from prfaas_env.simulator.engine import check_engine_name

__all__ = ["evaluate", "write_files"]


def evaluate(
    policies: Sequence[str],
    scenarios: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    engine: str,
    workers: int = 1,
    command: str = "",
    console: Console | None = None,
) -> Evaluation:
    """Run policies × scenarios × seeds and write ``results.json``, ``leaderboard.md`` and ``report.html`` into ``out``.

    Everything that can be wrong with the input is found before any work (:class:`ConfigError`). Ctrl-C, or an error in
    a cell, ends the work early: what is finished is written all the same. After Ctrl-C the evaluation returned has
    fewer cells than planned; an error is raised. Progress and notes go to ``console`` (the terminal's error stream).
    """
    console = console or Console(stderr=True)
    prepare_folder(out, ("results.json", "leaderboard.md", "report.html"))
    policies = list(dict.fromkeys(policies))
    check_evaluation_seeds(seeds)
    suite = resolve_suite(scenarios, seeds[0])
    _check(policies, suite, engine)
    for line in suite.skipped:
        console.print(f"skipped: {line}", markup=False, highlight=False)
    if not _can_report():
        console.print("no report.html: plotly is not installed (extra 'report')", markup=False, highlight=False)
    cells = plan_cells(policies, suite.scenarios, seeds, engine)
    done: list[CellResult] = []
    evaluation = Evaluation(
        cells=done,
        policies=policies,
        scenarios=suite.scenarios,
        seeds=seeds,
        engine=engine,
        baseline=BASELINE if BASELINE in policies else policies[0],
        version=prfaas_env.__version__,
        planned=len(cells),
        command=command,
        skipped=suite.skipped,
        remarks=suite.remarks,
    )
    try:
        finished = run_cells(cells, workers)
        for result in track(finished, "Evaluating", len(cells), console=console, transient=True):
            done.append(result)
    except KeyboardInterrupt:
        console.print(f"interrupted: {len(done)} of {len(cells)} episodes are kept", highlight=False)
    finally:
        order = {(cell.policy, cell.scenario.name, cell.seed): i for i, cell in enumerate(cells)}
        done.sort(key=lambda result: order[result.row["policy"], result.row["scenario"], result.row["seed"]])
        for line in evaluation.notes:
            console.print(f"note: {line}", markup=False, highlight=False)
        if done:
            write_files(evaluation, out)
    return evaluation


def write_files(evaluation: Evaluation, out: Path) -> None:
    """The three files; ``report.html`` only where plotly is installed."""
    board = standings(evaluation)
    write_atomically(out / "results.json", results_json(evaluation))
    write_atomically(out / "leaderboard.md", to_markdown(evaluation, board))
    if _can_report():
        from prfaas_env.evaluation.report import to_html

        write_atomically(out / "report.html", to_html(evaluation, board))


def _check(policies: Sequence[str], suite: Suite, engine: str) -> None:
    """Every policy can be loaded on every scenario, and the engine exists. Raises :class:`ConfigError`."""
    if not policies:
        raise ConfigError("policies: expected at least one")
    check_engine_name(engine)
    for scenario in suite.scenarios:
        for policy in policies:
            load_policy(policy, scenario)


def _can_report() -> bool:
    return find_spec("plotly") is not None
