"""A study from its settings to its files: begun or taken up again, interruptible, the same result either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.statistics import compare
from prfaas_env.evaluation.suites import Suite, resolve_suite
from prfaas_env.parallel.choice import make_executor
from prfaas_env.parallel.executor import Executor
from prfaas_env.policies import load_policy, policy_class
from prfaas_env.scenario import Scenario
from prfaas_env.seeds import tuning_seeds, tuning_validation_seeds
from prfaas_env.study import Study, Validated
from prfaas_env.tuning.episodes import geometric_means, play_all
from prfaas_env.tuning.files import StudyFiles, versions
from prfaas_env.tuning.search import check_spans, propose
from prfaas_env.tuning.settings import Settings
from prfaas_env.tuning.trials import Trial, rounded

__all__ = ["tune"]

Advance = Callable[[], None]
"""Called after each episode."""


def tune(
    settings: Settings,
    out: Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    command: str = "",
    console: Console | None = None,
) -> Study:
    """Tune a policy, or go on with its study in ``out``: ``<policy>.yaml`` and ``<policy>.csv``.

    The trials follow from the settings alone, wherever they run. Every trial is kept when it ends, so that Ctrl-C
    (:class:`KeyboardInterrupt`) loses at most one. The best one is then held against the defaults on other seeds.
    Everything that can be wrong with the input is found before any work (:class:`ConfigError`).
    """
    console = console or Console(stderr=True)
    if find_spec("optuna") is None:
        raise ConfigError("tune: optuna is not installed (extra 'tune')")
    defaults = _defaults(settings.policy)
    suite = resolve_suite(settings.scenarios, tuning_seeds(settings.seeds)[0])
    _remark(suite, console)
    study = _begun(settings, defaults, suite.scenarios, command)
    files = StudyFiles(out, settings.policy)
    trials, validation = files.read(study, defaults)
    if len(trials) > settings.trials:
        raise ConfigError(f"{files.trials}: has {len(trials)} trials: expected at least as many, got {settings.trials}")
    files.prepare()
    done = f"; {len(trials)} trials are done" if trials else ""
    console.print(f"{settings.policy}: {study.budget}{done}", highlight=False)
    seeds, others = tuning_seeds(settings.seeds), tuning_validation_seeds(settings.validation_seeds)
    with (
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as bar,
        make_executor(workers, cluster, bar.console.print) as executor,
    ):
        with _task(bar, "Tuning", (settings.trials - len(trials)) * len(suite.scenarios) * len(seeds)) as advance:
            while len(trials) < settings.trials:
                parameters = propose(trials, study.spans, settings.sampler_seed) if trials else defaults
                trials.append(_tried(executor, settings.policy, parameters, suite.scenarios, seeds, advance))
                validation = None
                study = files.write(study, trials, None)
                if study.best_trial == len(trials) - 1:
                    bar.console.print(f"trial {study.best_trial}: {study.objective:.4f} of the defaults' mean TTFT")
        study = files.write(study, trials, validation)
        if study.best_trial and (validation is None or validation.seeds != len(others)):
            with _task(bar, "Validating", 2 * len(suite.scenarios) * len(others)) as advance:
                validation = _validated(executor, study, suite.scenarios, others, advance)
            study = files.write(study, trials, validation)
    return study


def _defaults(policy: str) -> dict[str, Any]:
    """The published values of what may be tuned. Raises :class:`ConfigError` if nothing may."""
    cls = policy_class(policy)
    spans = getattr(cls, "tunable", {})
    published = cls.Parameters() if spans else None
    defaults: dict[str, Any] = {name: getattr(published, name, None) for name in spans}
    check_spans(policy, spans, defaults)
    return defaults


def _begun(settings: Settings, defaults: Mapping[str, float], scenarios: Sequence[Scenario], command: str) -> Study:
    """The study as it will be, with nothing found yet."""
    return Study(
        policy=settings.policy,
        use="defaults",
        values=defaults,
        best_trial=0,
        objective=1.0,
        trials=settings.trials,
        seeds=settings.seeds,
        first_seed=tuning_seeds(settings.seeds)[0],
        sampler_seed=settings.sampler_seed,
        scenarios={scenario.name: scenario.hash for scenario in scenarios},
        spans=policy_class(settings.policy).tunable,
        command=command,
        versions=versions(),
    )


def _remark(suite: Suite, console: Console) -> None:
    lines = [f"skipped: {line}" for line in suite.skipped] + [f"note: {line}" for line in suite.remarks]
    lines += [
        f"note: {scenario.name} is meant for {scenario.split}: nothing is held out by evaluating on it"
        for scenario in suite.scenarios
        if scenario.split != "train"
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False)


@contextmanager
def _task(bar: Progress, what: str, episodes: int) -> Iterator[Advance]:
    """A line of the bar while the block runs."""
    task = bar.add_task(what, total=episodes)
    yield lambda: bar.advance(task)
    bar.remove_task(task)


def _tried(
    executor: Executor,
    policy: str,
    parameters: Mapping[str, float],
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    advance: Advance,
) -> Trial:
    try:
        for scenario in scenarios:
            load_policy(policy, scenario, tuned=False, **parameters)
    except ConfigError:  # together they break a rule of the policy's; the budget counts the trial all the same
        return Trial(parameters)
    ttft_s = geometric_means(play_all(executor, policy, parameters, scenarios, seeds, advance), scenarios)
    return Trial(parameters, tuple(map(rounded, ttft_s)))


def _validated(
    executor: Executor, study: Study, scenarios: Sequence[Scenario], seeds: Sequence[int], advance: Advance
) -> Validated:
    tuned, published = (
        play_all(executor, study.policy, parameters, scenarios, seeds, advance) for parameters in (study.values, {})
    )
    found = compare(list(zip(tuned, published, strict=True)), np.random.default_rng(0))
    return Validated(
        first_seed=seeds[0],
        seeds=len(seeds),
        **{name: rounded(getattr(found, name)) for name in ("ratio", "low", "high", "win_share")},
        pairs=found.pairs,
        defaults_ttft_s=rounded(_overall(published)),
        tuned_ttft_s=rounded(_overall(tuned)),
    )


def _overall(ttft_s: np.ndarray) -> float:
    """The geometric mean over scenarios of the mean over seeds."""
    return float(np.exp(np.mean(np.log(np.nanmean(ttft_s, axis=1)))))
