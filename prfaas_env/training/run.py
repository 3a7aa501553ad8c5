"""A training run from settings to a folder: begun or gone on with, interruptible, the same schedule either way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.environment.actions import ActionName
from prfaas_env.evaluation.results import prepare_folder
from prfaas_env.evaluation.suites import resolve_suite
from prfaas_env.policies import agents_module
from prfaas_env.resources import own_path
from prfaas_env.scenario import Scenario
from prfaas_env.seeds import lesson_seeds, training_seed, validation_seeds
from prfaas_env.training.folder import RunFolder
from prfaas_env.training.lock import locked
from prfaas_env.training.settings import OFF_POLICY, Settings

__all__ = ["train"]


def train(
    given: Mapping[str, Any],
    out: Path | None,
    resume: Path | None,
    *,
    command: str = "",
    console: Console | None = None,
) -> Path:
    """Train by the settings ``given`` in the new folder ``out``, or go on with the run in ``resume``; its folder.

    A resumed run keeps its settings (``timesteps`` may be raised) and goes on in its own folder, or in a copy at
    ``out``. Everything that can be wrong with the input is found before any work (:class:`ConfigError`). Ctrl-C ends
    the run in order: what was learnt is kept as a checkpoint, then :class:`KeyboardInterrupt` is raised.
    """
    console = console or Console(stderr=True)
    _need_extra()
    for key in ("scenarios", "validation_scenarios"):
        if isinstance(given.get(key), (list, tuple)):
            given = {**given, key: [_anchored(name) for name in given[key]]}
    with ExitStack() as closing:
        folder, scenarios = _folder(given, out, resume, command, console, closing)
        return _run(folder, scenarios, console)


def _folder(
    given: Mapping[str, Any],
    out: Path | None,
    resume: Path | None,
    command: str,
    console: Console,
    closing: ExitStack,
) -> tuple[RunFolder, tuple[Scenario, ...]]:
    """The folder of a run, begun or gone on with and held by this process until ``closing``, and its scenarios."""
    if resume is not None:
        folder = RunFolder.read(resume, given)
        scenarios = _scenarios(folder.settings, console)
        if out is not None and out.resolve() != resume.resolve():
            folder = folder.copied_to(out)
        closing.enter_context(locked(folder.path))
        folder = RunFolder.read(folder.path, given)  # the one that held it may have gone on meanwhile
        folder.go_on(scenarios, command)
    elif out is None:
        raise ConfigError("out: expected a folder for the run (--out)")
    else:
        settings = from_mapping(Settings, given)
        scenarios = _scenarios(settings, console)
        RunFolder(out, settings).check_free()  # before anything is written there
        prepare_folder(out)
        closing.enter_context(locked(out))
        folder = RunFolder.begin(out, settings, scenarios, command)
    return folder, scenarios


def _run(folder: RunFolder, scenarios: Sequence[Scenario], console: Console) -> Path:
    """The run in its folder, to its last step, or until it is interrupted (:class:`KeyboardInterrupt`)."""
    validated = _validated(folder.settings) or scenarios
    for scenario in scenarios:
        if scenario.split != "train":
            console.print(
                f"note: {scenario.name} is meant for {scenario.split}: nothing is held out by evaluating on it",
                highlight=False,
            )
    with _interruptible(console) as interrupted:
        done = _learn(folder, scenarios, validated, interrupted, console)
    if not done:
        if folder.checkpoints():
            console.print(f"interrupted: kept {folder.steps} steps; go on with --resume {folder.path}", highlight=False)
        else:
            console.print(f"interrupted before its first step: delete {folder.path} and begin again", highlight=False)
        raise KeyboardInterrupt
    return folder.path


def _learn(
    folder: RunFolder,
    scenarios: Sequence[Scenario],
    validated: Sequence[Scenario],
    interrupted: threading.Event,
    console: Console,
) -> bool:
    """The run itself, to its last step (True) or until ``interrupted``."""
    # Before torch is loaded: a second thread only waits here, and a spinning one starves its neighbours.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch
    from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
    from stable_baselines3.common.utils import set_random_seed

    from prfaas_env.training.callbacks import Figures, Milestones, Pace
    from prfaas_env.training.imitation import CriticFirst
    from prfaas_env.training.learners import new_model
    from prfaas_env.training.model import load_state, training_environments
    from prfaas_env.training.validation import Validator

    settings = folder.settings
    begun = folder.steps if folder.checkpoints() else 0
    torch.set_num_threads(1)
    set_random_seed((settings.seed + begun) % 2**32)
    pace = Pace(settings.timesteps, console, interrupted.is_set)
    with ExitStack() as closing:
        closing.callback(pace.close)
        environments = training_environments(settings, scenarios, training_seed(settings.seed, begun))
        closing.callback(environments.close)
        if begun:
            model = load_state(settings, folder.checkpoint(begun), environments)
        else:
            model = new_model(settings, environments, _scaling(settings, scenarios))
            if settings.teacher is not None and not _taught(model, settings, scenarios, interrupted, console):
                return False
        logger = Logger(str(folder.path), [TensorBoardOutputFormat(str(folder.path / "tensorboard"))])
        closing.callback(logger.close)
        model.set_logger(logger)
        validator = Validator(settings, validated, interrupted.is_set)
        milestones = Milestones(folder, scenarios, validator, console)
        callbacks = [pace, milestones, Figures()]
        if settings.critic_rollouts and not begun:
            callbacks.append(CriticFirst(settings.critic_rollouts))
        log_interval: Any = None if settings.algo in OFF_POLICY else 1
        model.learn(settings.timesteps - begun, callbacks, log_interval=log_interval, reset_num_timesteps=False)
        if pace.cut_short:
            milestones.keep(pace.learnt_steps)
        else:
            milestones.reached()
    return not pace.cut_short


def _scaling(settings: Settings, scenarios: Sequence[Scenario]) -> Any:
    """How large the network sees each component."""
    from prfaas_env.training.features import Scaling, measured_scaling

    if not settings.normalised:
        return Scaling.unit()
    return measured_scaling(settings.action, scenarios, lesson_seeds(settings.seed, 1)[0])


def _taught(
    model: Any, settings: Settings, scenarios: Sequence[Scenario], interrupted: threading.Event, console: Console
) -> bool:
    """Give the model its lessons from the teacher, to the end (True) or until ``interrupted``; their episodes come
    before the run's own."""
    from prfaas_env.training.imitation import imitate

    assert settings.teacher is not None
    seeds = lesson_seeds(settings.seed, settings.teacher_episodes)
    console.print(f"learning from {settings.teacher} first, {len(seeds)} episodes a scenario", highlight=False)
    error = imitate(
        model, settings.teacher, settings.action, scenarios, seeds, settings.teacher_moves, interrupted.is_set
    )
    if error is not None:
        console.print(f"learnt from {settings.teacher}: its actions to {error:.3f} (root mean square)", highlight=False)
    return error is not None


@contextmanager
def _interruptible(console: Console) -> Iterator[threading.Event]:
    """An event that Ctrl-C or a request to terminate (SIGTERM) sets; a second one ends the process at once."""
    event = threading.Event()

    def first(_signal: int, _frame: Any) -> None:
        event.set()
        restore()
        console.print("stopping after this step …", highlight=False)

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    previous = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        restore()


def _scenarios(settings: Settings, console: Console) -> tuple[Scenario, ...]:
    """The scenarios of a run; one episode is drawn from each, so that nothing is found out late."""
    suite = resolve_suite(settings.scenarios, training_seed(settings.seed, 0))
    for line in (*suite.skipped, *suite.remarks):
        console.print(f"note: {line}", highlight=False)
    scenarios = suite.scenarios
    least = settings.least_copies * len(scenarios)
    if settings.n_envs < least:
        raise ConfigError(
            f"n_envs: expected at least {least}, {settings.least_copies} for each of {len(scenarios)} scenarios, "
            f"got {settings.n_envs}"
        )
    seeds = validation_seeds(settings.validation_seeds)
    if settings.teacher is not None:
        _check_teacher(settings.teacher, settings.action, scenarios[0])
    validated = _validated(settings) or scenarios
    if not any(len(scenario.draw(seed).stream) for scenario in validated for seed in seeds):
        raise ConfigError("scenarios: no request arrives in any episode of validation: nothing could be compared")
    return scenarios


def _check_teacher(named: str, action: ActionName, scenario: Scenario) -> None:
    """A teacher must act by what the form of action sets. Raises :class:`ConfigError`."""
    try:
        agents_module("teacher").Teacher(named, action, scenario)
    except ConfigError as error:
        raise ConfigError(f"teacher: {error}") from None


def _validated(settings: Settings) -> tuple[Scenario, ...]:
    """The scenarios that models are compared on; none where they are the run's own."""
    if not settings.validation_scenarios:
        return ()
    try:
        return resolve_suite(settings.validation_scenarios, validation_seeds(1)[0]).scenarios
    except ConfigError as error:
        raise ConfigError(f"validation_scenarios: {error}") from None


def _anchored(name: Any) -> Any:
    """A scenario by its name, or by a path that holds wherever the run is resumed from."""
    if not isinstance(name, str):
        return name  # refused by the settings
    path = own_path(name)
    return str(path.resolve()) if path.is_file() else name


def _need_extra() -> None:
    for module in ("stable_baselines3", "sb3_contrib", "torch", "tensorboard"):
        if find_spec(module) is None:
            raise ConfigError(f"training needs {module}: pip install 'prfaas_env[train]'")
