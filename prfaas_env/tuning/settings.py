"""Everything that makes one study different from another, as one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from prfaas_env.config import ConfigError, Range, Record

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(Record):
    """The budget is trials × scenarios × seeds episodes; the first trial are the defaults.

    ``validation_seeds``: episodes a scenario on which the best trial is held against the defaults, not of the budget.
    """

    policy: str
    scenarios: tuple[str, ...] = ("train",)
    trials: Annotated[int, Range(ge=2, le=10_000)] = 60
    seeds: Annotated[int, Range(ge=1, le=1000)] = 3
    sampler_seed: Annotated[int, Range(ge=0, lt=2**32)] = 0
    validation_seeds: Annotated[int, Range(ge=2, le=1000)] = 10

    def check(self) -> None:
        if not self.scenarios:
            raise ConfigError("scenarios: expected at least one")
