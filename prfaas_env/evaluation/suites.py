"""Which scenarios an evaluation runs: names, paths, and named groups of shipped ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from prfaas_env.config import ConfigError
from prfaas_env.resources import names
from prfaas_env.scenario import SPLITS, Scenario, Split, load_scenario
from prfaas_env.workload.traces.ending import early_end

__all__ = ["GROUPS", "Suite", "members", "resolve_suite"]

GROUPS: dict[str, tuple[str, ...] | None] = {
    "demo": ("paper-stationary-80", "drift-mix", "mooncake-like", "mooncake-conversation"),
    "quick": ("paper-stationary-80", "drift-mix", "mix-step-up", "burst-on-off", "agentic-sessions", "link-collapse"),
    **dict.fromkeys(SPLITS),  # as the scenarios themselves say
    "all": None,
}


@dataclass(frozen=True)
class Suite:
    """Scenarios in the order named, with a line for each member of a group that was left out (``skipped``), and for
    each thing that an episode warned of (``remarks``)."""

    scenarios: tuple[Scenario, ...]
    skipped: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def members(group: str) -> tuple[str, ...]:
    """The scenarios of a group, by name; those of a split, and of ``all``, are what is shipped."""
    listed = GROUPS[group]
    if listed is not None:
        return listed
    return tuple(name for name, split in _shipped() if group in ("all", split))


@cache
def _shipped() -> tuple[tuple[str, Split], ...]:
    return tuple((name, load_scenario(name).split) for name in names("scenarios"))


def resolve_suite(names: Sequence[str], seed: int = 0) -> Suite:
    """Scenarios by name, path or group; each once. One episode is drawn from each, so that nothing is found out late.

    A member of a group whose trace is not on this machine is left out, with a line that says so; named itself it is an
    error. Raises :class:`ConfigError` also on an unknown name, on two different
    scenarios of one name, and where nothing is left.
    """
    found: dict[str, Scenario] = {}
    called: dict[str, str] = {}
    skipped: list[str] = []
    remarks: list[str] = []
    for name in names:
        for member in members(name) if name in GROUPS else (name,):
            scenario = load_scenario(member)
            absent = scenario.workload.missing()
            if absent and name in GROUPS:
                skipped.append(f"{member}: {absent}")
                continue
            remarks += _tried(scenario, member, seed)
            if found.setdefault(scenario.name, scenario).hash != scenario.hash:
                both = f"{called[scenario.name]} and {member}"
                raise ConfigError(
                    f"scenario {scenario.name!r}: two different scenarios have this name, {both}: add `name:`"
                )
            called.setdefault(scenario.name, member)
    if not found:
        raise ConfigError(f"scenarios: nothing left to run ({'; '.join(skipped) or 'none named'})")
    return Suite(tuple(found.values()), tuple(skipped), tuple(dict.fromkeys(remarks)))


def _tried(scenario: Scenario, called: str, seed: int) -> list[str]:
    """What drawing an episode warns of. Raises :class:`ConfigError` if it cannot be drawn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            stream = scenario.draw(seed).stream
        except ConfigError as error:
            raise ConfigError(f"scenario {called}: {error}") from None
    remarks = [str(one.message) for one in caught]
    if scenario.workload.kind == "trace" and (remark := early_end(stream, scenario.horizon_s)):
        remarks.append(remark)
    return [f"{scenario.name}: {remark}" for remark in remarks]
