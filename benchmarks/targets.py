"""What the speed figures are held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

__all__ = ["TARGETS", "Target", "verdicts"]

Results = Mapping[str, Any]


class Target(NamedTuple):
    """A figure that can be read from the results, and its bound."""

    name: str
    of: Callable[[Results], float | None]
    at_least: bool
    bound: float


def _pick(rows: Iterable[Mapping[str, Any]], key: str, **where: Any) -> float | None:
    found = [row[key] for row in rows if all(row[name] == value for name, value in where.items())]
    return found[0] if found else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def _by_instances(results: Results) -> float | None:
    rows = results["instances"]
    ends = [_pick(rows, "us_per_request", law="threshold", instances=count) for count in (1200, 12)]
    return _ratio(*ends)


def _by_requests(results: Results) -> float | None:
    by_size = {round(math.log10(row["requests"])): row["us_per_request"] for row in results["requests"]}
    return _ratio(by_size.get(7), by_size.get(5))


def _peak_gib(results: Results) -> float | None:
    return max((row["peak_gib"] for row in results["requests"] if row["requests"] > 9e6), default=None)


TARGETS = (
    Target(
        "compiled / reference engine, paper, full model",
        lambda r: _pick(r["engines"], "compiled_over_reference", scenario="paper", model="full"),
        True,
        100,
    ),
    Target(
        "compiled / reference engine, worst of all runs",
        lambda r: min(row["compiled_over_reference"] for row in r["engines"]),
        True,
        50,
    ),
    Target(
        "compiled engine on the paper scenario, requests/s on one core",
        lambda r: _pick(r["engines"], "compiled_rps", scenario="paper", model="small"),
        True,
        500_000,
    ),
    Target(
        "vector environment / raw engine, requests/s, 64 copies", lambda r: r["share_of_engine"]["share"], True, 0.6
    ),
    Target("PPO end to end, environment steps/s", lambda r: r["ppo"] and r["ppo"]["steps_per_s"], True, 10_000),
    Target("time per request, 1,200 / 12 instances (log 1,200 / log 12)", _by_instances, False, math.log(1200, 12)),
    Target("time per request, 10⁷ / 10⁵ requests", _by_requests, False, 1.5),
    Target("peak memory of a process that draws and runs 10⁷ requests, GiB", _peak_gib, False, 4),
    Target("first step of a fresh installation, s", lambda r: r["starts"]["cold_s"], False, 60),
    Target("first step of the next process, s", lambda r: r["starts"]["warm_s"], False, 3),
)


def verdicts(results: Results) -> list[dict[str, Any]]:
    """Every target with what was measured; targets whose figure is missing are left out."""
    rows = []
    for target in TARGETS:
        value = target.of(results)
        if value is not None:
            met = value >= target.bound if target.at_least else value <= target.bound
            rows.append(
                {"name": target.name, "value": value, "bound": target.bound, "at_least": target.at_least, "met": met}
            )
    return rows
