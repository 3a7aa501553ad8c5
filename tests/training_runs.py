"""Small training runs, for the tests of training; without the extras a file that imports this one is skipped."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
pytest.importorskip("tensorboard", reason="needs the extra 'train'")

import train as command_line
from prfaas_env.cli.errors import run

ROLLOUT = 4 * 10  # steps: copies × rollout_steps
FULL = 4 * ROLLOUT
SMALL = {"--n-envs": "4", "--seed": "3", "--timesteps": str(FULL)}
SMALLER = ("rollout_steps=10", "minibatches=4", f"checkpoint_every={ROLLOUT}", "validation_seeds=2")


def call(*arguments: str | Path) -> int:
    """``train.py`` with these arguments, in this process; its exit code."""
    with pytest.raises(SystemExit) as exit_:
        run(command_line.main, [str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def small(scenarios: str, out: Path) -> list[str]:
    pairs = {"--algo": "ppo", "--scenario": scenarios, "--out": str(out), **SMALL}
    return [part for pair in pairs.items() for part in pair] + [x for more in SMALLER for x in ("--set", more)]


PLAIN = {"--timesteps": "80", "--n-envs": "4", "--seed": "3"}
OWN = {  # two rollouts, or two generations of six steps
    "ppo": ("rollout_steps=10", "minibatches=4", "target_kl=0.05", "entropy_coefficient=0.001"),
    "recurrent-ppo": ("rollout_steps=10", "minibatches=4", "lstm_size=8"),
    "sac": ("rollout_steps=10", "gradient_steps=4", "batch_size=16"),
    "tqc": ("rollout_steps=10", "gradient_steps=4", "batch_size=16"),
    "es": ("perturbation=0.5", "learning_rate=0.1"),
}


def run_of(algo: str, scenarios: str, out: Path, *more: str) -> list[str]:
    named = {"--algo": algo, "--scenario": scenarios, "--out": str(out), **PLAIN}
    settings = (*OWN[algo], "checkpoint_every=40", "validation_seeds=1", *more)
    return [part for pair in named.items() for part in pair] + [x for one in settings for x in ("--set", one)]


def steps_kept(out: Path) -> list[int]:
    return sorted(int(path.name) for path in (out / "checkpoints").iterdir())


def validations(out: Path) -> list[dict[str, float]]:
    with (out / "validation.csv").open(encoding="utf-8") as stream:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream)]


def curves(out: Path) -> dict[str, dict[int, float]]:
    """Every scalar of a run's TensorBoard: {name: {step: value}}."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(out / "tensorboard"))
    accumulator.Reload()
    return {
        name: {event.step: event.value for event in accumulator.Scalars(name)} for name in accumulator.Tags()["scalars"]
    }


def weights(model: Path) -> dict[str, np.ndarray]:
    from stable_baselines3 import PPO

    return {name: value.numpy() for name, value in PPO.load(model, device="cpu").policy.state_dict().items()}
