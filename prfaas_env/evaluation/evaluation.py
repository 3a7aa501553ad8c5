"""An evaluation from names to files: check everything, run the cells, write results, leaderboard and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import prfaas_env
from prfaas_env.config import ConfigError
from prfaas_env.evaluation.fingerprint import policy_hash
from prfaas_env.evaluation.journal import Journal
from prfaas_env.evaluation.leaderboard import to_markdown
from prfaas_env.evaluation.results import CellResult, Evaluation, prepare_folder, results_json, write_atomically
from prfaas_env.evaluation.runner import Cell, check_policy_of, plan_cells, run_cells
from prfaas_env.evaluation.standings import BASELINE, standings
from prfaas_env.evaluation.suites import resolve_suite
from prfaas_env.parallel.choice import make_executor
from prfaas_env.parallel.cluster import check_cluster
from prfaas_env.parallel.executor import Said
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
    cluster: str | None = None,
    fresh: bool = False,
    command: str = "",
    console: Console | None = None,
) -> Evaluation:
    """Run policies × scenarios × seeds and write ``results.json``, ``leaderboard.md`` and ``report.html`` into ``out``.

    - ``workers``: processes on this machine; ``cluster``: ``ray`` or ``ray://host:port``, see
      :class:`~prfaas_env.parallel.cluster.RayCluster`.
    - ``fresh``: run everything; otherwise what ``out/cells`` holds already is taken from there.

    Everything that can be wrong with the input is found before any work (:class:`ConfigError`). Ctrl-C, or an error in
    a cell, ends the work early: what is finished is written all the same. After Ctrl-C the evaluation returned has
    fewer cells than planned; an error is raised. Progress and notes go to ``console`` (the terminal's error stream).
    """
    console = console or Console(stderr=True)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False)

    prepare_folder(out, ("results.json", "leaderboard.md", "report.html"))
    policies = list(dict.fromkeys(policies))
    check_evaluation_seeds(seeds)
    check_engine_name(engine)
    if cluster is not None:
        check_cluster(cluster)
    suite = resolve_suite(scenarios, seeds[0])
    if not policies:
        raise ConfigError("policies: expected at least one")
    journal = Journal(out / "cells", {policy: policy_hash(policy, suite.scenarios[0]) for policy in policies})
    if fresh:
        journal.clear()
    for line in suite.skipped:
        say(f"skipped: {line}")
    if not _can_report():
        say("no report.html: plotly is not installed (extra 'report')")
    cells = plan_cells(policies, suite.scenarios, seeds, engine)
    done = {i: kept for i, cell in enumerate(cells) if (kept := journal.find(cell)) is not None}
    if done:
        say(f"{len(done)} of {len(cells)} episodes are there already")
    try:
        for i, result in _finish(cells, done, workers, cluster, console, say):
            journal.add(cells[i], result)
            done[i] = result
    except KeyboardInterrupt:
        say(f"interrupted: {len(done)} of {len(cells)} episodes are kept, the same command goes on from there")
    finally:
        evaluation = Evaluation(
            cells=[done[i] for i in sorted(done)],
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
        for line in evaluation.notes:
            say(f"note: {line}")
        if done:
            write_files(evaluation, out)
    return evaluation


def _finish(
    cells: Sequence[Cell],
    done: Mapping[int, CellResult],
    workers: int,
    cluster: str | None,
    console: Console,
    say: Said,
) -> Iterator[tuple[int, CellResult]]:
    """Run the cells that are not done, with a bar; first every policy is loaded on every scenario."""
    left = [i for i in range(len(cells)) if i not in done]
    if not left:
        return
    taken = {(cells[i].policy, cells[i].scenario.name): kept.cpu_s for i, kept in done.items()}
    pairs = list({(cells[i].policy, cells[i].scenario.name): cells[i] for i in left}.values())
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        make_executor(min(workers, len(left)), cluster, say) as executor,
    ):
        bar = progress.add_task("Evaluating", total=len(cells), completed=len(done))
        for _ in executor.run(check_policy_of, pairs):
            pass
        for k, result in run_cells([cells[i] for i in left], executor, taken):
            progress.advance(bar)
            yield left[k], result


def write_files(evaluation: Evaluation, out: Path) -> None:
    """The three files; ``report.html`` only where plotly is installed."""
    board = standings(evaluation)
    write_atomically(out / "results.json", results_json(evaluation))
    write_atomically(out / "leaderboard.md", to_markdown(evaluation, board))
    if _can_report():
        from prfaas_env.evaluation.report import to_html

        write_atomically(out / "report.html", to_html(evaluation, board))


def _can_report() -> bool:
    return find_spec("plotly") is not None
