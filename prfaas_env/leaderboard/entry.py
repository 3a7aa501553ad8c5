"""An entry: who, how, on what, the controls of every episode, and the figures that they gave. One JSON file."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

from prfaas_env.config import ConfigError, Range, Record, from_mapping, nearest, to_mapping
from prfaas_env.evaluation.results import ROW_KEYS, write_atomically
from prfaas_env.leaderboard.suite import LeaderboardSuite, suite_named

__all__ = ["FIGURES", "Entry", "Episode", "figures", "read_entry", "write_entry"]

SCHEMA = 1
MOST_BYTES = 8_000_000
LONGEST_TEXT = 400

FIGURES = tuple(key for key in ROW_KEYS if key not in ("policy", "scenario", "seed"))
"""What an entry says of each episode."""

Whole = Annotated[int, Range(ge=0)]


def figures(row: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures of a row of results, or of a summary; what is unknown is ``None``."""
    return {key: float(row[key]) if math.isfinite(row[key]) else None for key in FIGURES}


@dataclass(frozen=True)
class Episode(Record):
    """One of ``runs`` on one scenario and seed: the controls as :func:`~prfaas_env.leaderboard.coding.pack` writes
    them, and ``FIGURES``."""

    run: str
    scenario: str
    seed: Whole
    figures: Mapping[str, float | None]
    controls: str

    def check(self) -> None:
        for key in self.figures:
            if key not in FIGURES:
                raise ConfigError(f"figures.{key}: unknown key{nearest(key, FIGURES)}")
        if missing := [key for key in FIGURES if key not in self.figures]:
            raise ConfigError(f"figures: missing keys: {', '.join(missing)}")
        for key, value in self.figures.items():
            if value is not None and (value < 0.0 or (value == 0.0 and key.startswith("ttft"))):
                raise ConfigError(
                    f"figures.{key}: expected a number {'>' if key.startswith('ttft') else '≥'} 0, got {value:g}"
                )

    def __str__(self) -> str:
        return f"{self.scenario}, seed {self.seed}"


@dataclass(frozen=True)
class Entry(Record):
    """A submission.

    - ``runs``: the policy; or several models of one recipe, trained with different seeds, which are then the units
      of its interval.
    - ``plans``: a reference, which sees more than the observation: no contender.
    - ``decision_ms``: mean wall-clock time of a decision on ``hardware``. What it says cannot be checked here.
    - ``suite``, ``suite_version``, ``suite_hash``: what it was measured on; ``version``: that of this project.
    """

    schema: int
    name: str
    author: str
    link: str
    date: str
    hardware: str
    approach: str
    tuned_on: str
    plans: bool
    decision_ms: Annotated[float, Range(ge=0)]
    runs: tuple[str, ...]
    version: str
    suite: str
    suite_version: int
    suite_hash: str
    episodes: tuple[Episode, ...]

    def check(self) -> None:
        if self.schema != SCHEMA:
            raise ConfigError(f"schema: expected {SCHEMA}, got {self.schema}")
        for key in ("name", "author", "link", "date", "hardware", "approach", "tuned_on"):
            text = getattr(self, key)
            if len(text) > LONGEST_TEXT or not text.isprintable():
                raise ConfigError(f"{key}: expected printable text on one line, at most {LONGEST_TEXT} characters")
        if self.link and not self.link.startswith(("https://", "http://")):
            raise ConfigError(f"link: expected an address that begins with https://, got {self.link[:60]!r}")
        try:
            datetime.date.fromisoformat(self.date)
        except ValueError:
            raise ConfigError(f"date: expected a day as 2026-01-31, got {self.date[:60]!r}") from None
        if not self.runs or len(set(self.runs)) < len(self.runs):
            raise ConfigError("runs: expected one policy, or several models, each once")

    def check_suite(self) -> LeaderboardSuite:
        """The suite that the entry is complete for. Raises :class:`ConfigError` if it is of another one, or if
        episodes are missing, there twice, too many or in another order."""
        suite = suite_named(self.suite)
        for key, expected in (("suite_version", suite.version), ("suite_hash", suite.hash)):
            if getattr(self, key) != expected:
                raise ConfigError(f"{key}: expected {expected}, got {getattr(self, key)}: measured on another suite")
        expected_keys = list(suite.episodes(self.runs))
        keys = [(one.run, one.scenario, one.seed) for one in self.episodes]
        told = "{1}, seed {2} (run {0})".format
        if twice := [key for key, times in Counter(keys).items() if times > 1]:
            raise ConfigError(f"episodes: {told(*twice[0])} is there twice")
        if extra := _without(keys, expected_keys):
            raise ConfigError(f"episodes: {told(*extra[0])} is no part of suite {suite.name}")
        if missing := _without(expected_keys, keys):
            raise ConfigError(f"episodes: {told(*missing[0])} is missing")
        if moved := [(key, other) for key, other in zip(keys, expected_keys, strict=True) if key != other]:
            raise ConfigError(f"episodes: {told(*moved[0][0])} stands where {told(*moved[0][1])} belongs")
        return suite


def _without(
    keys: Iterable[tuple[str, str, int]], others: Iterable[tuple[str, str, int]]
) -> list[tuple[str, str, int]]:
    taken = set(others)
    return [key for key in keys if key not in taken]


def write_entry(entry: Entry, path: Path) -> None:
    """One line an episode."""
    plain = to_mapping(entry)
    episodes = ",\n".join("  " + _json(one) for one in plain.pop("episodes"))
    head = ",\n".join(f" {_json(key)}: {_json(value)}" for key, value in plain.items())
    write_atomically(path, f'{{\n{head},\n "episodes": [\n{episodes}\n ]\n}}\n')


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def read_entry(path: Path) -> Entry:
    """The entry in a file, complete for its suite. Raises :class:`ConfigError` on everything that is wrong with it,
    but for figures that its controls do not give: see :func:`~prfaas_env.leaderboard.verify.verify`."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ConfigError(f"{path}: expected at most {MOST_BYTES:,} bytes, got {size:,}")
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, a number of thousands of digits, deep nesting
        raise ConfigError(f"{path}: not valid JSON ({' '.join(str(error).split())[:160]})") from None
    entry = from_mapping(Entry, content, f"{path}: ")
    try:
        entry.check_suite()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return entry


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice, the last would win unseen."""
    if twice := [key for key, times in Counter(key for key, _ in pairs).items() if times > 1]:
        raise ConfigError(f"{twice[0]!r}: key given twice")
    return dict(pairs)


def _refuse(constant: str) -> NoReturn:
    raise ConfigError(f"expected finite numbers, got {constant}")
