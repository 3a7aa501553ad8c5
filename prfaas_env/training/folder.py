"""The folder of a run: what it was asked for and by which code, its checkpoints, its best model, its validations.

::

    config.yaml              settings, versions, hashes of scenarios and observation, git commit, every command
    model.zip, model.json    the best model by validation, a policy for evaluate.py
    validation.csv           one line a checkpoint: model against zero action
    checkpoints/000250000/   model with optimiser, card, reward statistics: what --resume goes on from
    tensorboard/             curves
"""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import prfaas_env
from prfaas_env.config import ConfigError, from_mapping, read_yaml, to_mapping, to_yaml
from prfaas_env.environment.observation import layout_hash
from prfaas_env.evaluation.results import prepare_folder, write_atomically
from prfaas_env.scenario import Scenario, suite_hash
from prfaas_env.training.lock import LOCK
from prfaas_env.training.settings import ALGORITHMS, Settings

__all__ = ["RunFolder"]

_PACKAGES = ("gymnasium", "numba", "numpy", "sb3_contrib", "stable_baselines3", "torch")
_EXTENDABLE = {"timesteps"}
"""Settings that a resumed run may change; the learning rate then falls to 0 at the new last step."""


@dataclass(frozen=True)
class RunFolder:
    """A folder and the settings of the run in it."""

    path: Path
    settings: Settings

    # --- beginning and going on ---------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, path: Path, settings: Settings, scenarios: Sequence[Scenario], command: str) -> RunFolder:
        """A new run. Raises :class:`ConfigError` if the folder holds anything, or cannot be written into.

        What a run left that ended before its first checkpoint is nothing: it is begun anew.
        """
        folder = cls(path, settings)
        folder.check_free()
        for left in ("tensorboard", "checkpoints"):
            shutil.rmtree(path / left, ignore_errors=True)
        folder._write_config(_origin(scenarios), [command])
        return folder

    def check_free(self) -> None:
        """:class:`ConfigError` if the folder holds anything but what a run writes before its first checkpoint."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        barely_begun = {"config.yaml"} <= names <= {"config.yaml", "tensorboard", "checkpoints", LOCK}
        if not names <= {LOCK} and not (barely_begun and not self.checkpoints()):
            raise ConfigError(f"{self.path}: not empty; name another folder, or go on with --resume {self.path}")

    @classmethod
    def read(cls, path: Path, given: Mapping[str, Any]) -> RunFolder:
        """A run that is to go on; ``given`` are the settings named anew.

        Raises :class:`ConfigError` if it is no run, if ``given`` would make it a different one, or if it has no steps
        left.
        """
        where = path / "config.yaml"
        config = read_yaml(where)
        if not isinstance(config, Mapping) or not {"settings", "origin", "commands"} <= config.keys():
            raise ConfigError(f"{where}: expected the keys settings, origin and commands, as train.py writes them")
        if not isinstance(config["origin"], Mapping) or "suite_hash" not in config["origin"]:
            raise ConfigError(f"{where}: origin: expected a mapping with suite_hash, as train.py writes it")
        if not isinstance(config["commands"], list):
            raise ConfigError(f"{where}: commands: expected a list, as train.py writes it")
        was = from_mapping(Settings, config["settings"], f"{where}: settings.")
        settings = from_mapping(Settings, {**to_mapping(was), **given})
        for key in given:
            if getattr(settings, key) != getattr(was, key) and key not in _EXTENDABLE:
                raise ConfigError(f"{key}: a resumed run keeps {getattr(was, key)!r}, got {getattr(settings, key)!r}")
        folder = cls(path, settings)
        if folder.steps >= settings.timesteps:
            raise ConfigError(f"{path}: has its {folder.steps} steps already; name more --timesteps to go on")
        folder.best_ratio()  # a broken table is found out now
        return folder

    def copied_to(self, path: Path) -> RunFolder:
        """The same run in another folder, which must be empty; the old one is left as it is."""
        if path.resolve().is_relative_to(self.path.resolve()):
            raise ConfigError(f"{path}: lies in the run that it is to be a copy of")
        if path.is_dir() and any(path.iterdir()):
            raise ConfigError(f"{path}: not empty; a resumed run goes on in its own folder, or in an empty one")
        prepare_folder(path)
        shutil.copytree(self.path, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))
        return RunFolder(path, self.settings)

    def go_on(self, scenarios: Sequence[Scenario], command: str) -> None:
        """Write down that the run goes on. Raises :class:`ConfigError` if its scenarios are not what they were."""
        config = read_yaml(self.path / "config.yaml")
        was, now = config["origin"]["suite_hash"], suite_hash(scenarios)
        if was != now:
            raise ConfigError(f"{self.path}: its scenarios have changed since it began (suite {was}, now {now})")
        self._write_config(config["origin"], [*config["commands"], command])

    def _write_config(self, origin: Mapping[str, Any], commands: Sequence[str]) -> None:
        content = {"settings": self.settings, "origin": origin, "commands": list(commands)}
        write_atomically(self.path / "config.yaml", to_yaml(content))

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def checkpoint(self, steps: int) -> Path:
        return self.path / "checkpoints" / f"{steps:09d}"

    def checkpoints(self) -> list[Path]:
        """The complete ones, oldest first."""
        return sorted(p for p in (self.path / "checkpoints").glob("[0-9]*") if p.name.isdecimal() and p.is_dir())

    @property
    def steps(self) -> int:
        """Steps at the newest checkpoint. Raises :class:`ConfigError` if there is none."""
        if not self.checkpoints():
            raise ConfigError(f"{self.path}: has no checkpoint to go on from")
        return int(self.checkpoints()[-1].name)

    def drop_old_checkpoints(self) -> None:
        for old in self.checkpoints()[: -self.settings.keep_checkpoints]:
            shutil.rmtree(old)

    def card(self, steps: int, scenarios: Sequence[Scenario]) -> dict[str, Any]:
        """What must be known of a model of this run (``agents.trained.ModelCard``)."""
        return {
            "algorithm": ALGORITHMS[self.settings.algo],
            "action": self.settings.action,
            "observation": layout_hash(),
            "training": {
                "timesteps": steps,
                "of_timesteps": self.settings.timesteps,
                "algo": self.settings.algo,
                "teacher": self.settings.teacher,
                "seed": self.settings.seed,
                "observation_groups": list(self.settings.observation_groups),
                "reward": self.settings.reward,
                "scenarios": {scenario.name: scenario.hash for scenario in scenarios},
                "suite_hash": suite_hash(scenarios),
                "version": prfaas_env.__version__,
            },
        }

    def ranges(self, steps: int) -> dict[str, Any]:
        """What the checkpoint at ``steps`` says of the values met until then; empty if it says nothing."""
        card = json.loads((self.checkpoint(steps) / "model.json").read_text(encoding="utf-8"))
        ranges: dict[str, Any] = card.get("ranges", {})
        return ranges

    # --- validations --------------------------------------------------------------------------------------------------

    def validations(self) -> list[dict[str, str]]:
        """The lines of ``validation.csv``, oldest first."""
        path = self.path / "validation.csv"
        if not path.is_file():
            return []
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                return list(csv.DictReader(stream))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{path}: cannot be read ({' '.join(str(error).split())[:120]})") from None

    def best_ratio(self) -> float:
        """The least ``objective_ratio`` so far, infinite before the first. Raises :class:`ConfigError`."""
        try:
            return min((float(row["objective_ratio"]) for row in self.validations()), default=math.inf)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"{self.path / 'validation.csv'}: expected numbers under objective_ratio") from None

    def add_validation(self, line: Mapping[str, Any]) -> None:
        """Append a line; a reader sees all of it or nothing."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(line), lineterminator="\n")
        writer.writeheader()
        writer.writerows([*self.validations(), line])
        write_atomically(self.path / "validation.csv", text.getvalue())


def _origin(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """The code and the data behind a run."""
    versions = {"prfaas_env": prfaas_env.__version__, "python": platform.python_version()}
    return {
        "suite_hash": suite_hash(scenarios),
        "scenarios": {scenario.name: scenario.hash for scenario in scenarios},
        "observation": layout_hash(),
        "versions": versions | {name: version(name) for name in _PACKAGES},
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    """The commit of a checkout, with ``-dirty`` if files differ from it; None elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
