"""Plays the recorded controls of an entry again, and holds every figure against what they give."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.controls import CONTROL_DTYPE, PolicyRun, Recorded
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.leaderboard.coding import unpack
from prfaas_env.leaderboard.entry import Entry, Episode, figures
from prfaas_env.leaderboard.suite import LeaderboardSuite, suite_named
from prfaas_env.parallel.executor import Executor
from prfaas_env.scenario import Scenario

__all__ = ["Replay", "check_replay", "chosen", "replays", "verify"]

ROUNDING = 1e-9
"""Figures agree to this part: what the last bits of another processor may make of them, and of use to nobody. Counts
are far below 10⁹, and so agree exactly."""


@dataclass(frozen=True)
class Replay:
    """An episode of an entry with its scenario: what a worker needs."""

    scenario: Scenario
    episode: Episode


def replays(entry: Entry, suite: LeaderboardSuite) -> list[Replay]:
    """Every episode of an entry."""
    scenarios = {one.name: one for one in suite.scenarios}
    return [Replay(scenarios[episode.scenario], episode) for episode in entry.episodes]


def chosen(all_of_them: list[Replay], rng: np.random.Generator) -> list[Replay]:
    """One episode of each scenario, by chance: whoever forges cannot know which."""
    by_scenario: dict[str, list[Replay]] = {}
    for one in all_of_them:
        by_scenario.setdefault(one.episode.scenario, []).append(one)
    return [those[int(rng.integers(len(those)))] for those in by_scenario.values()]


def check_replay(replay: Replay) -> bool:
    """Whether an episode gives its figures to the last bit. Raises :class:`ConfigError` if it does not give them."""
    episode, scenario = replay.episode, replay.scenario
    try:
        controls = unpack(episode.controls, math.ceil(scenario.horizon_s / scenario.control_step_s))
        run = _played(scenario, controls, episode.seed)
        _check_controls(controls, run.controls)
        found = figures(run.summary)
        for key, given in found.items():
            said = episode.figures[key]
            if (said is None) != (given is None) or not math.isclose(said or 0.0, given or 0.0, rel_tol=ROUNDING):
                raise ConfigError(f"{key}: says {said}, its controls give {given}")
    except ConfigError as error:
        raise ConfigError(f"{episode}: {error}") from None
    return found == dict(episode.figures)


def _played(scenario: Scenario, controls: np.ndarray, seed: int) -> PolicyRun:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a trace's end, which the evaluation has said
        return simulate(scenario, Recorded(controls), seed)


def _check_controls(said: np.ndarray, given: np.ndarray) -> None:
    """What the loop put in force is what is recorded: only the rule for the cache is its own."""
    for name in CONTROL_DTYPE.names or ():
        if (differ := np.flatnonzero(said[name] != given[name])).size:
            k = int(differ[0])
            raise ConfigError(f"controls: step {k}: {name} says {said[name][k]}, in force was {given[name][k]}")


def verify(entry: Entry, executor: Executor, quick: bool = False) -> Iterator[bool]:
    """Whether each episode gives its figures to the last bit, as they are done.

    ``quick``: one episode a scenario, drawn anew each time. Raises :class:`ConfigError` at the first that does not
    give its figures.
    """
    todo = replays(entry, suite_named(entry.suite))
    if quick:
        todo = chosen(todo, np.random.default_rng())
    return (exact for _, exact in executor.run(check_replay, todo))
