"""``python -m benchmarks [--quick] [--out FILE]``: every speed figure in one run."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numba
import numpy as np
from rich.console import Console

from benchmarks.engines import measure_engines, measure_snapshots
from benchmarks.environments import measure_share_of_engine, measure_steps
from benchmarks.growth import measure_growth_in_instances, measure_growth_in_requests
from benchmarks.learning import measure_ppo
from benchmarks.page import PAGE, RESULTS, performance_page
from benchmarks.starting import measure_starts
from benchmarks.tables import print_tables
from benchmarks.targets import verdicts

STAGES = {
    "engines": measure_engines,
    "share_of_engine": measure_share_of_engine,
    "steps": measure_steps,
    "ppo": lambda quick: measure_ppo(quick) if find_spec("stable_baselines3") else None,
    "instances": measure_growth_in_instances,
    "requests": measure_growth_in_requests,
    "snapshots": measure_snapshots,
    "starts": measure_starts,
}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "system": platform.system(),
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="A few seconds, to see that everything runs; the figures mean nothing.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the results go.  [results/bench.json, and the page docs/performance.md; with --quick nowhere]",
)
def main(quick: bool, out: Path | None) -> None:
    """Measure every speed figure, print the tables, write the results as JSON."""
    console = Console()
    begin = time.perf_counter()
    results: dict[str, Any] = {
        "schema": 1,
        "command": "python -m benchmarks" + " --quick" * quick,
        "machine": machine(),
    }
    with console.status("") as status:
        for k, (name, stage) in enumerate(STAGES.items(), 1):
            status.update(f"{name.replace('_', ' ')} ({k} of {len(STAGES)}) …")
            results[name] = stage(quick)
    results["seconds"] = round(time.perf_counter() - begin, 1)
    results["targets"] = [] if quick else verdicts(results)
    print_tables(results, console)
    place = out or (None if quick else RESULTS)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        console.print(f"written: {place}", highlight=False)
    if place == RESULTS:
        PAGE.write_text(performance_page(results), encoding="utf-8")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
