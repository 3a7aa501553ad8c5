"""``python -m benchmarks.sweep``: what evaluations cost, and what two workers gain; writes docs/results/sweep.md."""

from __future__ import annotations

import heapq
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from benchmarks.starting import used_cpu_s
from benchmarks.tables import number
from benchmarks.timing import seconds
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.fingerprint import policy_hash
from prfaas_env.evaluation.journal import Journal
from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.runner import Cell
from prfaas_env.evaluation.suites import members

__all__ = ["Costs", "finished_s", "page", "sweep_hours"]

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PAGE = ROOT / "docs" / "results" / "sweep.md"
POLICIES = "static,dual-timescale,least-completion,learned"
CORES, SEEDS = 1000, 100


class Costs(NamedTuple):
    """What was measured: the cells, wall and processor time of the whole command by number of workers, and the
    processor time to keep one finished cell."""

    evaluation: Evaluation
    wall_s: dict[int, float]
    cpu_s: dict[int, float]
    keep_s: float

    def mean_s(self, policy: str) -> float:
        """Processor seconds of an episode of a policy, averaged over scenarios and seeds."""
        return float(np.mean([cell.cpu_s for cell in self.evaluation.cells if cell.row["policy"] == policy]))


def finished_s(cells_s: Sequence[float], workers: int) -> float:
    """When the last of the cells is done that workers take one after the other, in this order."""
    free_s = [0.0] * workers
    for cell_s in cells_s:
        heapq.heappush(free_s, heapq.heappop(free_s) + cell_s)
    return max(free_s)


def sweep_hours(mean_s: float, longest_s: float, keep_s: float, cells: int, cores: int) -> tuple[float, float]:
    """Core hours of a sweep, and its hours on so many cores: none waits longer than the last of the longest cells,
    and one process keeps all that is finished."""
    work_s = mean_s * cells
    return work_s / 3600, max(work_s / cores + longest_s, keep_s * cells) / 3600


def measure(policies: str, scenarios: str, seeds: int) -> Costs:
    """Evaluate in fresh processes with one worker and with two."""
    with tempfile.TemporaryDirectory() as folder:
        wall_s, cpu_s = {}, {}
        for workers in (1, 2):
            before_s = used_cpu_s()
            wall_s[workers] = _wall_s(policies, scenarios, seeds, workers, Path(folder))
            cpu_s[workers] = used_cpu_s() - before_s
        names = policies.split(",")
        found = evaluate(names, scenarios.split(","), range(seeds), Path(folder) / "1", engine=DEFAULT_ENGINE)
        keep_s = _keep_s(found, Path(folder) / "kept")
    return Costs(found, wall_s, cpu_s, keep_s)


def _wall_s(policies: str, scenarios: str, seeds: int, workers: int, folder: Path) -> float:
    given = {
        "policies": policies,
        "scenarios": scenarios,
        "seeds": seeds,
        "workers": workers,
        "out": folder / str(workers),
    }
    parts = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "evaluate.py", *parts]
    return seconds(lambda: subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL))


def _keep_s(found: Evaluation, folder: Path) -> float:
    """Processor seconds to write one finished cell into a journal."""
    scenarios = {scenario.name: scenario for scenario in found.scenarios}
    journal = Journal(folder, {policy: policy_hash(policy, found.scenarios[0]) for policy in found.policies})
    rows = [
        (Cell(r["policy"], scenarios[r["scenario"]], r["seed"], found.engine), c) for c in found.cells for r in [c.row]
    ]
    begin_s = time.process_time()
    for cell, result in rows:
        journal.add(cell, result)
    return (time.process_time() - begin_s) / len(rows)


def page(costs: Costs, command: str, usd_per_core_hour: float, load: float) -> str:
    """The page in Markdown."""
    cells_s = [cell.cpu_s for cell in costs.evaluation.cells]
    work_s, scenarios = sum(cells_s), len(members("all"))
    around_s = costs.cpu_s[1] - work_s
    more_s = max(0.0, costs.cpu_s[2] - costs.cpu_s[1])  # both workers start
    two_s = around_s + more_s / 2 + finished_s(cells_s, 2)
    per_policy = scenarios * SEEDS
    rows = []
    for policy in costs.evaluation.policies:
        longest_s = max(cell.cpu_s for cell in costs.evaluation.cells if cell.row["policy"] == policy)
        core_h, wall_h = sweep_hours(costs.mean_s(policy), longest_s, costs.keep_s, per_policy, CORES)
        rows.append(
            f"| {policy} | {number(costs.mean_s(policy))} | {number(longest_s)} | {number(core_h)} | "
            f"{number(wall_h * 60)} | {number(core_h * usd_per_core_hour)} |"
        )
    return "\n".join(
        [
            "# What evaluations cost",
            "",
            f"`{command}` on {os.cpu_count()} cores, which had a load of {load:.1f} from other work when it began.",
            "",
            f"{len(cells_s)} episodes ({len(costs.evaluation.policies)} policies × {len(costs.evaluation.scenarios)} "
            f"scenarios × {len(costs.evaluation.seeds)} seeds) take {number(work_s)} s of processor time, all that "
            f"surrounds them (start, check, report) {number(around_s)} s, the start of two workers {number(more_s)} s "
            f"more. Two free workers would be {costs.cpu_s[1] / two_s:.2f} times as fast as one, if what surrounds the "
            f"episodes gains nothing; with many episodes the ratio nears {work_s / finished_s(cells_s, 2):.2f}. By the "
            f"clock the whole command took {number(costs.wall_s[1])} s with one worker and {number(costs.wall_s[2])} s "
            f"with two, {costs.wall_s[1] / costs.wall_s[2]:.2f} times as fast.",
            "",
            f"A sweep of all {scenarios} shipped scenarios and {SEEDS} seeds, {per_policy:,} episodes a policy, on "
            f"{CORES:,} cores at USD {usd_per_core_hour:g} a core hour:",
            "",
            "| policy | s an episode | longest, s | core hours | minutes | USD |",
            "|---|---:|---:|---:|---:|---:|",
            *rows,
            "",
            f"The process that collects them keeps {1 / costs.keep_s:,.0f} finished episodes a second, so more than "
            f"{math.floor(min(costs.mean_s(p) for p in costs.evaluation.policies) / costs.keep_s):,} cores are of no "
            "use to the shortest episodes; the minutes reckon with that.",
            "",
        ]
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--policies", default=POLICIES, show_default=True, metavar="A,B")
@click.option("--scenarios", default="quick", show_default=True, metavar="S,T")
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--usd-per-core-hour", default=0.05, show_default=True, type=click.FloatRange(min=0))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=DEFAULT_PAGE, help="The page written.")
def main(policies: str, scenarios: str, seeds: int, usd_per_core_hour: float, out: Path) -> None:
    """Measure what evaluations cost with one worker and with two, and say what a large sweep would."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan
    given: dict[str, Any] = {"policies": policies, "scenarios": scenarios, "seeds": seeds}
    command = " ".join(["python -m benchmarks.sweep", *(f"--{name} {value}" for name, value in given.items())])
    text = page(measure(**given), command, usd_per_core_hour, load)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    click.echo(f"{text}\nwritten: {out}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.sweep")
