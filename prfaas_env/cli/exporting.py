"""``export``: a trained model as a file that acts without what it was trained with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.results import write_atomically
from prfaas_env.policies import agents_module
from prfaas_env.resources import own_path
from prfaas_env.scenario import load_scenario
from prfaas_env.seeds import training_seed

__all__ = ["command"]


@click.command(name="export")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="model.onnx for any ONNX runtime, or model.npz for NumPy alone; by default model.onnx beside MODEL.",
)
@click.option(
    "--ranges",
    is_flag=True,
    help="First play its training scenarios and note in its card what it meets there: for a card without ranges.",
)
def command(model: Path, out: Path | None, ranges: bool) -> None:
    """Write the deterministic policy of MODEL (model.zip, with model.json beside it) as ONNX or as npz.

    The file holds the model's card, and is itself a policy for evaluate.py. Only multilayer perceptrons are exported.
    """
    model = own_path(model)
    if model.is_dir():
        raise ConfigError(f"{model}: is a folder, expected a model.zip")
    target = out or model.with_suffix(".onnx")
    if ranges:
        _note_ranges(model)
    agents_module("export").export(model, target)
    click.echo(target)


def _note_ranges(model: Path) -> None:
    """Put into the card beside ``model`` what it meets on its training scenarios, on training seeds."""
    from prfaas_env.training.ranges import played

    trained: Any = agents_module("trained").Trained(model)
    training = trained.card.training
    scenarios = [load_scenario(name) for name in training.get("scenarios", {})]
    for scenario in scenarios:
        if scenario.hash != training["scenarios"][scenario.name]:
            raise ConfigError(f"{model}: scenario {scenario.name} has changed since the model was trained on it")
    if not scenarios:
        raise ConfigError(f"{model}: training.scenarios: its card names none to play")
    seed, groups = training_seed(training.get("seed", 0), 0), training.get("observation_groups", ())
    seen = played(trained, trained.card.action, scenarios, seed, groups)
    write_atomically(model.with_suffix(".json"), replace(trained.card, ranges=seen.ranges()).text())
