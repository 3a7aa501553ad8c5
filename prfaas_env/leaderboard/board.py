"""All entries of a suite: scores with their intervals, by family, and what else there is to weigh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.statistics import optimality_gap, performance_profile, win_share
from prfaas_env.leaderboard.entry import Entry, read_entry
from prfaas_env.leaderboard.score import FULL, costs_s, family_scores, gains, score, score_interval
from prfaas_env.leaderboard.suite import SUITES, LeaderboardSuite

__all__ = ["PROFILE", "Board", "Placed", "board", "read_entries"]

PROFILE = (-100.0, 0.0, 25.0, 50.0, 75.0, 100.0)


@dataclass(frozen=True)
class Placed:
    """An entry with its figures.

    - ``low`` to ``high``: the 95 % interval of ``score``.
    - ``families``: the score of each family.
    - ``wins``: probability of improvement on the floor, over all episodes in pairs; ``wins_next``: on the contender
      that comes next (NaN for the last one, and for references).
    - ``gap``: optimality gap of the episodes' scores to 100. ``profile``: shares of them that reach ``PROFILE``.
    - ``p99_ttft_s`` (geometric mean over episodes), ``goodput``, ``usd_per_million_output_tokens``, ``conversions``
      (means over episodes).
    """

    entry: Entry
    score: float
    low: float
    high: float
    families: Mapping[str, float]
    wins: float
    wins_next: float
    gap: float
    profile: Sequence[float]
    p99_ttft_s: float
    goodput: float
    usd_per_million_output_tokens: float
    conversions: float


@dataclass(frozen=True)
class Board:
    """The entries of a suite, best score first, references among them."""

    suite: LeaderboardSuite
    placed: Sequence[Placed]


def read_entries(folder: Path) -> dict[str, Entry]:
    """The entries in a folder by file name. Raises :class:`ConfigError` on a bad one, and on two of one name."""
    entries = {path.stem: read_entry(path) for path in sorted(folder.glob("*.json"))}
    names: dict[str, str] = {}
    for file, entry in entries.items():
        if other := names.get(entry.name):
            raise ConfigError(f"{folder}/{file}.json: name: {entry.name!r} is taken by {other}.json")
        names[entry.name] = file
    if not entries:
        raise ConfigError(f"{folder}: expected entries, *.json")
    return entries


def board(entries: Mapping[str, Entry], name: str) -> Board:
    """The board of a suite, of the entries (by file name) that are of it. Raises :class:`ConfigError` where the entries
    that fix the scale are missing, or too near to each other."""
    suite = SUITES[name]
    own = {file: entry for file, entry in entries.items() if entry.suite == name}
    for anchor in (suite.floor, suite.bound):
        if anchor not in own:
            raise ConfigError(f"suite {name}: expected {anchor}.json among the entries, which fixes the scale")
    floor = costs_s(own[suite.floor], suite)[0]
    possible = gains(costs_s(own[suite.bound], suite)[0], floor)
    for family in dict.fromkeys(suite.families):
        if possible[_members(suite, family)].mean() <= 0.0:
            raise ConfigError(f"suite {name}: family {family}: {suite.bound} gains nothing over {suite.floor}")
    placed = [_place(entry, suite, floor, possible) for entry in own.values()]
    placed.sort(key=lambda one: (-one.score, one.entry.name))
    contenders = [one for one in placed if not one.entry.plans]
    after = {id(one): following for one, following in pairwise(contenders)}
    return Board(suite, [_against(one, after.get(id(one)), suite) for one in placed])


def _against(one: Placed, following: Placed | None, suite: LeaderboardSuite) -> Placed:
    """With the probability of improvement on the next contender; several models are their geometric mean."""
    if following is None:
        return one
    ours, theirs = (np.log(costs_s(placed.entry, suite)).mean(axis=0) for placed in (one, following))
    return replace(one, wins_next=win_share(ours, theirs))


def _members(suite: LeaderboardSuite, family: str) -> list[int]:
    return [k for k, of in enumerate(suite.families) if of == family]


def _place(entry: Entry, suite: LeaderboardSuite, floor: np.ndarray, possible: np.ndarray) -> Placed:
    costs = costs_s(entry, suite)
    gain = gains(costs, floor)
    means, bounds = gain.mean(axis=(0, 2)), possible.mean(axis=-1)
    low, high = score_interval(gain, possible, suite.families)
    by_family = family_scores(means, bounds, suite.families)
    families = list(dict.fromkeys(suite.families))
    scale = np.array([bounds[_members(suite, family)].mean() for family in suite.families])
    episodes = FULL * gain / scale[:, None]
    return Placed(
        entry=entry,
        score=float(score(means, bounds, suite.families)),
        low=low,
        high=high,
        families=dict(zip(families, by_family.tolist(), strict=True)),
        wins=win_share(costs, np.broadcast_to(floor, costs.shape)),
        wins_next=float("nan"),
        gap=optimality_gap(episodes, FULL),
        profile=performance_profile(episodes, PROFILE).tolist(),
        p99_ttft_s=float(np.exp(np.log(_column(entry, "ttft_p99_s")).mean())),
        goodput=float(_column(entry, "goodput").mean()),
        usd_per_million_output_tokens=float(_column(entry, "usd_per_million_output_tokens").mean()),
        conversions=float(_column(entry, "conversions").mean()),
    )


def _column(entry: Entry, key: str) -> np.ndarray:
    """A figure of every episode in which it is known."""
    return np.array([value for one in entry.episodes if (value := one.figures[key]) is not None])
