"""The two files of a study: ``<policy>.yaml``, what it is and what came of it, and ``<policy>.csv``, every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import prfaas_env
from prfaas_env.config import ConfigError, to_yaml
from prfaas_env.evaluation.provenance import libraries
from prfaas_env.evaluation.results import prepare_folder, write_atomically
from prfaas_env.study import Study, Validated, read_study
from prfaas_env.tuning.trials import Trial, best, objective, to_csv, trials_from_csv

__all__ = ["StudyFiles", "versions"]

IDENTITY = ("policy", "scenarios", "seeds", "first_seed", "sampler_seed", "spans")
LIBRARIES = ("python", "numpy", "numba")  # that shape the figures


def versions() -> dict[str, str]:
    """Of the project, the sampler, and what computes the figures."""
    found = {name: number for name, number in libraries().items() if name in LIBRARIES}
    return {"prfaas_env": prfaas_env.__version__, "optuna": version("optuna"), **found}


@dataclass(frozen=True)
class StudyFiles:
    """Where the study of a policy is kept."""

    folder: Path
    policy: str

    @property
    def study(self) -> Path:
        return self.folder / f"{self.policy}.yaml"

    @property
    def trials(self) -> Path:
        return self.folder / f"{self.policy}.csv"

    def prepare(self) -> None:
        """Make the folder. Raises :class:`ConfigError` if it cannot be written into."""
        prepare_folder(self.folder, (self.study.name, self.trials.name))

    def read(self, now: Study, defaults: Mapping[str, float]) -> tuple[list[Trial], Validated | None]:
        """What an earlier run of the study ``now`` left: its trials, and the validation of their best.

        Raises :class:`ConfigError` if what lies there is damaged, or another study.
        """
        if not self.study.is_file():
            if self.trials.exists():
                raise ConfigError(f"{self.trials}: {self.study.name}, which says what it is, is not beside it")
            return [], None
        was = read_study(self.study)
        for key in IDENTITY:
            self._check_same(key, getattr(was, key), getattr(now, key))
        self._check_same("prfaas_env's version", was.versions.get("prfaas_env"), now.versions["prfaas_env"])
        if not self.trials.is_file():
            if was.trials > 1:  # the first trial writes this file before the other
                raise ConfigError(
                    f"{self.trials}: is missing, {self.study.name} says that it has {was.trials} trials; "
                    f"put it back, or delete {self.study.name} to begin anew"
                )
            return [], None
        trials = trials_from_csv(self.trials, now.spans, list(now.scenarios))
        if trials:
            self._check_same("defaults", trials[0].parameters, defaults)
        validated = was.validation if len(trials) == was.trials and best(trials) == was.best_trial else None
        return trials, validated

    def _check_same(self, what: str, was: object, now: object) -> None:
        if was == now and (not isinstance(was, dict) or list(was) == list(now)):  # type: ignore[call-overload]
            return
        shown = f" ({was} then, {now} now)" if isinstance(was, (int, str)) else ""
        raise ConfigError(
            f"{self.study}: {what}: not those that the study began with{shown}; "
            "choose another folder, or delete it to begin anew"
        )

    def write(self, study: Study, trials: Sequence[Trial], validation: Validated | None) -> Study:
        """Write both files; the study with what ``trials`` and ``validation`` have come to."""
        number = best(trials)
        study = replace(
            study,
            use="tuned" if validation is not None and validation.high < 1.0 else "defaults",
            values=trials[number].parameters,
            best_trial=number,
            objective=objective(trials[number], trials[0]),
            trials=len(trials),
            validation=validation,
        )
        text = f"# {study.budget}; every trial is in {self.trials.name}.\n"
        text += to_yaml(study)
        write_atomically(self.study, text)
        write_atomically(self.trials, to_csv(trials, list(study.spans), list(study.scenarios)))
        return study
