"""Which scenarios an evaluation runs: names, paths, and named groups of shipped ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prfaas_env.config import ConfigError
from prfaas_env.scenario import Scenario, load_scenario

__all__ = ["GROUPS", "Suite", "resolve_suite"]

GROUPS = {"demo": ("paper-stationary-80", "drift-mix", "mooncake-like", "mooncake-conversation")}


@dataclass(frozen=True)
class Suite:
    """Scenarios in the order named, and a line for each member of a group that was left out."""

    scenarios: tuple[Scenario, ...]
    skipped: tuple[str, ...]


def resolve_suite(names: Sequence[str], seed: int = 0) -> Suite:
    """Scenarios by name, path or group; each once. One episode is drawn from each, so that nothing is found out late.

    A member of a group whose trace is not on this machine is left out, with a line that says so; named itself it is an
    error. Raises :class:`ConfigError` also on an unknown name, on two different
    scenarios of one name, and where nothing is left.
    """
    found: dict[str, Scenario] = {}
    skipped = []
    for name in names:
        for member in GROUPS.get(name, (name,)):
            scenario = load_scenario(member)
            absent = scenario.workload.missing()
            if absent and name in GROUPS:
                skipped.append(f"{member}: {absent}")
                continue
            try:
                scenario.draw(seed)
            except ConfigError as error:
                raise ConfigError(f"scenario {member}: {error}") from None
            if found.setdefault(scenario.name, scenario).hash != scenario.hash:
                raise ConfigError(f"scenario {scenario.name!r}: two different scenarios have this name")
    if not found:
        raise ConfigError(f"scenarios: nothing left to run ({'; '.join(skipped) or 'none named'})")
    return Suite(tuple(found.values()), tuple(skipped))
