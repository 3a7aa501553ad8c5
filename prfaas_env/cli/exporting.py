"""``export``: a trained model as a file that acts without what it was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import click

from prfaas_env.config import ConfigError, Range, Record, from_mapping, nearest
from prfaas_env.environment.observation import GROUPS
from prfaas_env.evaluation.results import write_atomically
from prfaas_env.policies import agents_module
from prfaas_env.resources import own_path
from prfaas_env.scenario import load_scenario
from prfaas_env.seeds import training_seed

__all__ = ["command"]


@dataclass(frozen=True)
class _Training(Record):
    """What of a card's ``training`` says how to play again what the model met."""

    scenarios: Mapping[str, str] = field(default_factory=dict)
    seed: Annotated[int, Range(ge=0)] = 0
    observation_groups: tuple[str, ...] = ()

    def check(self) -> None:
        for group in self.observation_groups:
            if group not in GROUPS:
                raise ConfigError(f"observation_groups: unknown group {group!r}{nearest(group, GROUPS)}")


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
    card = model.with_suffix(".json")
    stated = {key: value for key, value in trained.card.training.items() if key in _Training.__annotations__}
    training = from_mapping(_Training, stated, f"{card}: training")
    scenarios = [load_scenario(name) for name in training.scenarios]
    for scenario in scenarios:
        if scenario.hash != training.scenarios.get(scenario.name):
            raise ConfigError(f"{model}: scenario {scenario.name} has changed since the model was trained on it")
    if not scenarios:
        raise ConfigError(f"{model}: training.scenarios: its card names none to play")
    seed = training_seed(training.seed, 0)
    seen = played(trained, trained.card.action, scenarios, seed, training.observation_groups)
    write_atomically(card, replace(trained.card, ranges=seen.ranges()).text())
