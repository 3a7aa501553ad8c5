"""``tune``: search the parameters of a policy on the training split."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from rich.console import Console
from rich.table import Column, Table

from prfaas_env.policies import policy_class
from prfaas_env.study import Study
from prfaas_env.tuning.settings import Settings
from prfaas_env.tuning.tune import tune

__all__ = ["command"]


def _names(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


@click.command(name="tune")
@click.argument("policy")
@click.option("--trials", default=Settings.trials, show_default=True, metavar="N", help="The first is the defaults.")
@click.option("--seeds", default=Settings.seeds, show_default=True, metavar="N", help="Training episodes a scenario.")
@click.option(
    "--scenarios",
    default=",".join(Settings.scenarios),
    show_default=True,
    callback=_names,
    metavar="S,T",
    help="Names, paths to YAML files, or groups.",
)
@click.option("--sampler-seed", default=Settings.sampler_seed, show_default=True, metavar="I", help="Of the search.")
@click.option(
    "--validation-seeds",
    default=Settings.validation_seeds,
    show_default=True,
    metavar="N",
    help="Other episodes a scenario, on which the best trial is held against the defaults.",
)
@click.option("--workers", type=click.IntRange(min=1), metavar="K", help="Processes; one a core if not given.")
@click.option("--cluster", metavar="RAY", help="Run on Ray instead: ray, or ray://host:port (extra 'cluster').")
@click.option(
    "--out",
    default="results/tuning",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the study; one that was interrupted, or had fewer trials, goes on.",
)
def command(
    policy: str,
    trials: int,
    seeds: int,
    scenarios: tuple[str, ...],
    sampler_seed: int,
    validation_seeds: int,
    workers: int | None,
    cluster: str | None,
    out: Path,
) -> None:
    """Tune the parameters of POLICY with a fixed budget: trials × scenarios × seeds episodes.

    DIR gets POLICY.yaml (the values, and how they compare with the defaults on other seeds) and POLICY.csv (all
    trials). The result does not depend on the number of workers. Ctrl-C keeps the trials that are done; the same
    command goes on.
    """
    settings = Settings(policy, scenarios, trials, seeds, sampler_seed, validation_seeds)
    try:
        study = tune(settings, out, workers=workers or os.cpu_count() or 1, cluster=cluster, command=_command(settings))
    except KeyboardInterrupt:
        click.echo(f"what was tried is kept in {out}/{policy}.csv; the same command goes on", err=True)
        raise
    _print(study, Console())
    click.echo(f"written: {out}/{policy}.yaml, {out}/{policy}.csv")


def _command(settings: Settings) -> str:
    """What makes this study again, without what changes no figure: where it goes and how it is computed."""
    parts = ["python", "-m", "prfaas_env", "tune", settings.policy]
    parts += ["--trials", str(settings.trials), "--seeds", str(settings.seeds)]
    parts += ["--scenarios", ",".join(settings.scenarios), "--sampler-seed", str(settings.sampler_seed)]
    return shlex.join([*parts, "--validation-seeds", str(settings.validation_seeds), "--out", "DIR"])


def _print(study: Study, console: Console) -> None:
    published = policy_class(study.policy).Parameters()
    table = Table("parameter", *(Column(title, justify="right") for title in ("span", "default", "best trial")))
    for name, span in study.spans.items():
        shown = f"{span.low:g} to {span.high:g}{' (log)' if span.log else ''}"
        table.add_row(name, shown, f"{getattr(published, name):g}", f"{study.values[name]:g}")
    console.print(table)
    for line in _verdict(study):
        console.print(line, markup=False, highlight=False)


def _verdict(study: Study) -> list[str]:
    """What the search found, what it is worth on other seeds, and what is therefore kept."""
    lines = [f"best: trial {study.best_trial} of {study.trials}, {study.objective:.4f} of the defaults' mean TTFT"]
    if (held := study.validation) is not None:
        interval = f"{held.ratio:.4f} [{held.low:.4f}, {held.high:.4f}]"
        lines.append(f"on {held.seeds} other seeds: {interval}, better in {held.win_share:.0%} of {held.pairs} pairs")
    return [*lines, f"kept: {'the tuned values' if study.use == 'tuned' else 'the defaults'}"]
