"""Evaluate policies on scenarios: ``python evaluate.py --policies A,B --scenarios S,T --seeds N --out DIR``."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console

from prfaas_env.cli.errors import run
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.leaderboard import print_leaderboard
from prfaas_env.evaluation.standings import standings
from prfaas_env.evaluation.suites import GROUPS
from prfaas_env.simulator.engine import ENGINES


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--policies", required=True, callback=_names, metavar="A,B", help="Names, or paths to model.zip or mine.py."
)
@click.option(
    "--scenarios",
    required=True,
    callback=_names,
    metavar="S,T",
    help=f"Names, paths to YAML files, or groups ({', '.join(GROUPS)}).",
)
@click.option("--seeds", required=True, type=click.IntRange(1, 1_000_000), metavar="N", help="Episodes a scenario.")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Output folder.")
@click.option("--seed-start", default=0, show_default=True, type=click.IntRange(min=0), help="The first seed.")
@click.option("--workers", type=click.IntRange(min=1), metavar="K", help="Processes; one a core if not given.")
@click.option("--engine", default=DEFAULT_ENGINE, show_default=True, help=f"Simulation engine: {' or '.join(ENGINES)}.")
def main(
    policies: list[str],
    scenarios: list[str],
    seeds: int,
    out: Path,
    seed_start: int,
    workers: int | None,
    engine: str,
) -> None:
    """Compare policies on the same request streams, in pairs.

    DIR gets results.json, leaderboard.md and report.html. The baseline is dual-timescale, or the first policy where
    that one does not take part. Names: python -m prfaas_env list.
    """
    evaluation = evaluate(
        policies,
        scenarios,
        range(seed_start, seed_start + seeds),
        out,
        engine=engine,
        workers=workers or os.cpu_count() or 1,
        command=shlex.join(["python", "evaluate.py", *sys.argv[1:]]),
    )
    if evaluation.cells:
        print_leaderboard(standings(evaluation), Console())
        click.echo(f"\nwritten: {out}/")
    if len(evaluation.cells) < evaluation.planned:
        raise click.Abort


if __name__ == "__main__":
    run(main, prog_name="evaluate.py")
