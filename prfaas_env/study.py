"""A tuning study as a file: what was searched over which spans, at what budget, and what came of it.

``prfaas_env.tuning`` writes them, and policies take their tuned values from those in ``agents/tuned/``. Beside each
lies a table of all trials, of the same name (``.csv``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from prfaas_env.config import ConfigError, Range, Record, from_mapping, read_yaml

__all__ = ["Span", "Study", "Validated", "read_study"]

Count = Annotated[int, Range(ge=1)]
Whole = Annotated[int, Range(ge=0)]
Number = int | float


@dataclass(frozen=True)
class Span(Record):
    """Where a parameter is looked for when a policy is tuned, in its own unit; ``log``: evenly in its logarithm."""

    low: float
    high: float
    log: bool = False

    def check(self) -> None:
        if not self.low < self.high:
            raise ConfigError(f"high: expected more than low {self.low:g}, got {self.high:g}")
        if self.log and self.low <= 0.0:
            raise ConfigError(f"low: expected a number > 0 with log, got {self.low:g}")


@dataclass(frozen=True)
class Validated(Record):
    """The best values against the defaults, in pairs, on ``seeds`` seeds from ``first_seed`` that no trial has met.

    ``ratio`` is that of the leaderboard: tuned ÷ default mean TTFT, the geometric mean over scenarios, with its 95 %
    interval (``evaluation.statistics``). ``…_ttft_s``: the geometric mean over scenarios of mean TTFT.
    """

    first_seed: Whole
    seeds: Count
    ratio: float
    low: float
    high: float
    win_share: float
    pairs: Count
    defaults_ttft_s: float
    tuned_ttft_s: float


@dataclass(frozen=True)
class Study(Record):
    """The content of a study's YAML file.

    - ``use``: ``tuned`` where the values beat the defaults in ``validation``, else ``defaults``.
    - ``values``: the parameters of the best trial, number ``best_trial`` (0: the defaults themselves).
    - ``objective``: what that trial reached on training seeds, the defaults being 1; too good, as the best of many.
    - ``trials``, ``seeds``, ``scenarios``: the budget; scenarios by name, with the hash of each.
    """

    policy: str
    use: Literal["tuned", "defaults"]
    values: Mapping[str, Number]
    best_trial: Whole
    objective: float
    trials: Count
    seeds: Count
    first_seed: Whole
    sampler_seed: Whole
    scenarios: Mapping[str, str]
    spans: Mapping[str, Span]
    command: str
    versions: Mapping[str, str] = field(default_factory=dict)
    validation: Validated | None = None

    @property
    def episodes(self) -> int:
        """The budget, validation not counted."""
        return self.trials * len(self.scenarios) * self.seeds

    @property
    def budget(self) -> str:
        """The budget in words."""
        parts = f"{self.trials} trials × {len(self.scenarios)} scenarios × {self.seeds} seeds"
        return f"{parts} = {self.episodes:,} episodes"

    @property
    def in_use(self) -> Mapping[str, Number]:
        """The values that replace defaults: none where those are kept."""
        return self.values if self.use == "tuned" else {}


def read_study(path: Path) -> Study:
    """The study in a YAML file. Raises :class:`ConfigError`."""
    return from_mapping(Study, read_yaml(path), f"{path}: ")
