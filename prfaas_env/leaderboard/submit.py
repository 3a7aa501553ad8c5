"""Makes an entry of a finished evaluation; what cannot be played again is not written."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import prfaas_env
from prfaas_env.config import ConfigError, Record
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.results import CellResult, Evaluation
from prfaas_env.evaluation.verdict import is_learned
from prfaas_env.leaderboard.coding import pack
from prfaas_env.leaderboard.entry import SCHEMA, Entry, Episode, figures
from prfaas_env.leaderboard.suite import LeaderboardSuite, suite_of
from prfaas_env.policies import load_policy, plans, policy_line, policy_names, tuning_study
from prfaas_env.scenario import Scenario

__all__ = ["About", "check_submission", "entry_of"]


@dataclass(frozen=True)
class About(Record):
    """What a submitter says; where nothing is said, what is known of a shipped policy, of this machine and of today."""

    name: str | None = None
    author: str | None = None
    link: str | None = None
    date: str | None = None
    hardware: str | None = None
    approach: str | None = None
    tuned_on: str | None = None


def check_submission(
    policies: list[str], scenarios: tuple[Scenario, ...], seeds: range, engine: str
) -> LeaderboardSuite:
    """The suite that an evaluation of these is one of. Raises :class:`ConfigError` if no entry can come of it."""
    suite = suite_of(scenarios, seeds)
    if engine != DEFAULT_ENGINE:
        raise ConfigError(f"submit: expected the engine {DEFAULT_ENGINE}, got {engine}")
    if len(policies) > 1 and not all(is_learned(policy) for policy in policies):
        raise ConfigError("submit: expected one policy, or several models of one recipe")
    return suite


def entry_of(evaluation: Evaluation, about: About) -> Entry:
    """The entry of an evaluation. Raises :class:`ConfigError` if it is of no suite, or not complete."""
    policies = list(dict.fromkeys(evaluation.policies))
    suite = check_submission(policies, tuple(evaluation.scenarios), range(len(evaluation.seeds)), evaluation.engine)
    runs = [Path(policy).name if len(policies) == 1 else policy for policy in policies]
    cells = {(c.row["policy"], c.row["scenario"], c.row["seed"]): c for c in evaluation.cells}
    shipped = policies[0] if policies[0] in policy_names() else None
    said = {
        "name": runs[0],
        "author": "prfaas_env" if shipped else "anonymous",
        "link": "",
        "date": datetime.date.today().isoformat(),
        "hardware": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "approach": policy_line(shipped) if shipped else "",
        "tuned_on": _tuned_on(shipped) if shipped else "",
    } | {key: value for key, value in vars(about).items() if value is not None}
    episodes = []
    for run, scenario, seed in suite.episodes(runs):
        policy = policies[runs.index(run)]
        if (cell := cells.get((policy, scenario, seed))) is None:
            raise ConfigError(f"submit: {policy} on {scenario}, seed {seed} is not finished")
        episodes.append(_episode(run, cell))
    return Entry(
        schema=SCHEMA,
        **said,
        plans=plans(load_policy(policies[0], suite.scenarios[0])),
        decision_ms=float(f"{1000 * np.mean([cell.decision_s for cell in evaluation.cells]):.2g}"),
        runs=tuple(runs),
        version=prfaas_env.__version__,
        suite=suite.name,
        suite_version=suite.version,
        suite_hash=suite.hash,
        episodes=tuple(episodes),
    )


def _episode(run: str, cell: CellResult) -> Episode:
    return Episode(run, cell.row["scenario"], cell.row["seed"], figures(cell.row), pack(cell.controls))


def _tuned_on(policy: str) -> str:
    if is_learned(policy):
        return "training split, training seeds"
    study = tuning_study(policy)
    return "nothing" if study is None else f"training split, training seeds: {study.budget}"
