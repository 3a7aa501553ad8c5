"""``train``, and ``train.py`` in a checkout: a policy by reinforcement learning."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from prfaas_env.training.run import train
from prfaas_env.training.settings import Settings

__all__ = ["command"]

_DEFAULT = {field.name: f"  [{field.default}]" for field in fields(Settings)}


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def _assignments(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    given = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"expected KEY=VALUE, got {text!r}")
        try:
            given[key] = json.loads(value)
        except (ValueError, RecursionError):
            given[key] = value
    return given


@click.command(name="train", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--algo", metavar="NAME", help="Learner: ppo, recurrent-ppo, sac, tqc or es." + _DEFAULT["algo"])
@click.option(
    "--scenario",
    "scenarios",
    callback=_names,
    metavar="S,T",
    help="Names, paths to YAML files, or groups (train); copies are spread.",
)
@click.option("--timesteps", type=int, metavar="N", help="Control intervals, over all copies." + _DEFAULT["timesteps"])
@click.option("--n-envs", type=int, metavar="K", help="Environment copies." + _DEFAULT["n_envs"])
@click.option("--seed", type=int, metavar="I", help="Of the network and of the training episodes." + _DEFAULT["seed"])
@click.option("--action", metavar="FORM", help="residual, absolute or price." + _DEFAULT["action"])
@click.option("--reward", metavar="KIND", help="mean-ttft, ttft, goodput or cost." + _DEFAULT["reward"])
@click.option(
    "--set",
    "more",
    multiple=True,
    callback=_assignments,
    metavar="KEY=VALUE",
    help="Any other setting (docs/training.md).",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the run: new or empty.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="DIR", help="Go on with the run in this folder.")
def command(more: dict[str, Any], out: Path | None, resume: Path | None, **given: Any) -> None:
    """Train a policy and keep the best model by validation.

    DIR gets model.zip, a policy for evaluate.py, beside config.yaml, validation.csv, checkpoints/ and tensorboard/.
    Ctrl-C, or SIGTERM, keeps what was learnt.
    """
    named = {key: value for key, value in given.items() if value is not None}
    here = click.get_current_context().command_path
    words = (
        [*here.split(), *sys.argv[2:]]
        if here.startswith("python -m prfaas_env")
        else ["python", "train.py", *sys.argv[1:]]
    )
    folder = train({**named, **more}, out, resume, command=shlex.join(words))
    click.echo(f"written: {folder}/")
