"""What entries are measured on: a named suite of scenarios and seeds, and the two entries that fix the scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from prfaas_env.config import ConfigError, Range, Record, nearest
from prfaas_env.evaluation.standings import BASELINE
from prfaas_env.evaluation.suites import members
from prfaas_env.scenario import Scenario, suite, suite_hash

__all__ = ["SUITES", "LeaderboardSuite", "suite_named", "suite_of"]

Count = Annotated[int, Range(ge=1)]


@dataclass(frozen=True)
class LeaderboardSuite(Record):
    """Every scenario of a group (``evaluation.suites.GROUPS``) with the test seeds 0 to ``seeds`` − 1.

    ``version`` goes up whenever the hash changes: entries of two versions never stand in one table. ``floor`` and
    ``bound`` are the entries, by file name, whose scores are 0 and 100.
    """

    name: str
    version: Count
    seeds: Count
    floor: str = BASELINE
    bound: str = "hindsight"

    @cached_property
    def scenarios(self) -> tuple[Scenario, ...]:
        return suite(members(self.name))

    @cached_property
    def hash(self) -> str:
        """Of the scenarios, with their deployments and profiles."""
        return suite_hash(self.scenarios)

    @property
    def families(self) -> tuple[str, ...]:
        """The family of each scenario."""
        return tuple(scenario.family for scenario in self.scenarios)

    def episodes(self, runs: Sequence[str]) -> Iterator[tuple[str, str, int]]:
        """Run, scenario and seed of every episode of an entry, in the order in which its rows stand."""
        return ((run, one.name, seed) for run in runs for one in self.scenarios for seed in range(self.seeds))


SUITES = {one.name: one for one in (LeaderboardSuite("quick", version=1, seeds=10),)}


def suite_named(name: str) -> LeaderboardSuite:
    """Raises :class:`ConfigError` on a name that no suite bears."""
    if name not in SUITES:
        raise ConfigError(f"suite: unknown suite {name!r}{nearest(name, SUITES)}")
    return SUITES[name]


def suite_of(scenarios: Sequence[Scenario], seeds: Sequence[int]) -> LeaderboardSuite:
    """The suite of just these scenarios and seeds. Raises :class:`ConfigError` if there is none."""
    for one in SUITES.values():
        if {s.name: s.hash for s in one.scenarios} == {s.name: s.hash for s in scenarios}:
            if list(seeds) == list(range(one.seeds)):
                return one
            raise ConfigError(f"submit: expected --seeds {one.seeds} from 0 on, as suite {one.name} has")
    known = " or ".join(f"--scenarios {one.name} --seeds {one.seeds}" for one in SUITES.values())
    raise ConfigError(f"submit: expected {known}, got other scenarios")
