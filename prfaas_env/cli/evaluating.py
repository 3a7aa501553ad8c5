"""``evaluate``, and ``evaluate.py`` in a checkout: policies on the same requests, as tables, a report, videos."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from rich.console import Console

from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.film import check_films, film, film_of
from prfaas_env.evaluation.leaderboard import print_leaderboard
from prfaas_env.evaluation.results import prepare_folder
from prfaas_env.evaluation.standings import standings
from prfaas_env.evaluation.suites import GROUPS, resolve_suite
from prfaas_env.leaderboard.entry import write_entry
from prfaas_env.leaderboard.submit import About, check_submission, entry_of
from prfaas_env.simulator.engine import ENGINES

__all__ = ["command"]


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


@click.command(name="evaluate", context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option("--cluster", metavar="RAY", help="Run on Ray instead: ray, or ray://host:port (extra 'cluster').")
@click.option("--fresh", is_flag=True, help="Run everything, also what DIR holds already.")
@click.option("--engine", default=DEFAULT_ENGINE, show_default=True, help=f"Simulation engine: {' or '.join(ENGINES)}.")
@click.option(
    "--video",
    "videos",
    multiple=True,
    metavar="POLICY:SCENARIO[:SEED]",
    help="Also an animated picture of this episode, a GIF in DIR (extra 'render'); may be given again.",
)
@click.option(
    "--submit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="ENTRY.json",
    help="Also write an entry for the leaderboard (docs/leaderboard.md): of one policy, or models of one recipe.",
)
@click.option("--entry-name", metavar="TEXT", help="What the leaderboard calls it.")
@click.option("--entry-author", metavar="TEXT")
@click.option("--entry-link", metavar="URL", help="A paper, or the code.")
@click.option("--entry-approach", metavar="TEXT", help="How it decides, in a sentence.")
@click.option("--entry-tuned-on", metavar="TEXT", help="Scenarios and seeds that it was tuned or trained on.")
@click.option("--entry-hardware", metavar="TEXT", help="What it ran on.")
def command(
    policies: list[str],
    scenarios: list[str],
    seeds: int,
    out: Path,
    seed_start: int,
    workers: int | None,
    cluster: str | None,
    fresh: bool,
    engine: str,
    videos: tuple[str, ...],
    submit: Path | None,
    **about: str | None,
) -> None:
    """Compare policies on the same request streams, in pairs.

    DIR gets results.json, leaderboard.md and report.html. The baseline is dual-timescale, or the first policy where
    that one does not take part. Names: python -m prfaas_env list.

    Finished episodes are kept in DIR/cells at once: after an interruption of any kind the same command goes on where
    it stopped, and policies, scenarios and seeds can be added later.
    """
    films = [film_of(text, seed_start) for text in videos]
    check_films(films)
    entry = About(**{key.removeprefix("entry_"): value for key, value in about.items()})
    if submit is not None:
        check_submission(policies, resolve_suite(scenarios).scenarios, range(seed_start, seed_start + seeds), engine)
        prepare_folder(submit.parent)
    evaluation = evaluate(
        policies,
        scenarios,
        range(seed_start, seed_start + seeds),
        out,
        engine=engine,
        workers=workers or os.cpu_count() or 1,
        cluster=cluster,
        fresh=fresh,
        command=_again(policies, scenarios, seeds, seed_start, engine),
    )
    if evaluation.cells:
        print_leaderboard(standings(evaluation), Console())
        click.echo(f"\nwritten: {out}/")
    if len(evaluation.cells) < evaluation.planned:
        raise click.Abort
    for one in films:
        click.echo(f"written: {film(one, out, engine)}")
    if submit is not None:
        write_entry(entry_of(evaluation, entry), submit)
        click.echo(f"written: {submit}; now: python -m prfaas_env verify {submit}")


def _again(policies: list[str], scenarios: list[str], seeds: int, seed_start: int, engine: str) -> str:
    """What makes these results again, without what changes no figure: where they go and how they are computed."""
    here = click.get_current_context().command_path
    parts = here.split() if here.startswith("python -m prfaas_env") else ["python", "evaluate.py"]
    parts += ["--policies", ",".join(policies), "--scenarios", ",".join(scenarios), "--seeds", str(seeds)]
    parts += ["--seed-start", str(seed_start)] if seed_start else []
    parts += ["--engine", engine] if engine != DEFAULT_ENGINE else []
    return shlex.join([*parts, "--out", "DIR"])
