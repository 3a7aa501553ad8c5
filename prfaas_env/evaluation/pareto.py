"""What speed costs: mean TTFT against the cost of a million output tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.evaluation.standings import REFERENCES, Standings
from prfaas_env.evaluation.words import short_name
from prfaas_env.pages.figures import Chart, aligned, figure, log_axis, number

__all__ = ["frontier", "pareto_chart"]

TITLE = "Speed and cost"
TTFT, COST = "ttft_mean_s", "usd_per_million_output_tokens"
LINEAR = 3.0  # costs within this ratio are drawn on a linear axis
ROOM = (0.32, 0.08)  # shares of a panel's width and height that a name takes up


@dataclass(frozen=True)
class _Point:
    policy: str
    cost: float
    ttft: float


def pareto_chart(board: Standings, scenario: str | None, colour: Mapping[str, str]) -> Chart:
    """One marker a policy, and the frontier of those that no other beats in both; references are hollow.

    For ``None``, all scenarios together: both as a ratio to the baseline's, the geometric mean over scenarios. Policies
    out of sight of the best are named beside the panel.
    """
    points = [_Point(policy, *_place(board, policy, scenario)) for policy in colour]
    points = [one for one in points if np.isfinite([one.cost, one.ttft]).all() and min(one.cost, one.ttft) > 0]
    near = board.in_sight(scenario) | REFERENCES.keys()
    beyond = [one for one in points if one.policy not in near]
    points = [one for one in points if one.policy in near]
    if not points:
        return Chart(TITLE, "No policy finished a request within the horizon.", figure([], {}, {}))
    unit = f" ÷ {short_name(board.baseline)}" if scenario is None else ""
    costs, ttfts = [one.cost for one in points], [one.ttft for one in points]
    x_title = f"cost{unit}" if scenario is None else "USD per million output tokens"
    x: dict[str, Any] = (
        {"title": {"text": x_title}, "nticks": 6, "range": _padded(costs)}
        if max(costs) < LINEAR * min(costs)
        else log_axis(f"{x_title} (log)", costs)
    )
    y = log_axis(f"TTFT{unit} (log)" if scenario is None else "mean TTFT, s (log)", ttfts)
    front = frontier([(one.cost, one.ttft) for one in points if one.policy not in REFERENCES])
    best = [one for one in points if (one.cost, one.ttft) in front and one.policy not in REFERENCES]
    named = _named(sorted(points, key=lambda one: (one not in best, one.ttft)), x, y)
    traces = [_frontier_line(front)] if len(front) > 1 else []
    traces += [_marker(one, colour, named.get(one.policy)) for one in points]
    *others, last = (one.policy for one in sorted(best, key=lambda one: one.cost)) if best else ("any other",)
    names = f"{', '.join(others)} and {last}" if others else last
    words = (
        f"Left is cheaper, lower is faster; no contender beats {names} in both."
        if len(best) < 4
        else f"Left is cheaper, lower is faster; along the dotted line speed is paid for ({len(best)} contenders)."
    )
    if beyond:
        far = (f"{one.policy} ({number(one.cost)}, {number(one.ttft)})" for one in beyond)
        words += f" Beyond the panel (cost, TTFT): {', '.join(far)}."
    return Chart(TITLE, words, aligned(figure(traces, x, y)))


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other is at least as low in both values and lower in one, by the first value."""
    found: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


def _place(board: Standings, policy: str, scenario: str | None) -> tuple[float, float]:
    of = board.of(policy)
    if scenario is not None:
        return of.mean(scenario, COST), of.mean(scenario, TTFT)
    base = board.of(board.baseline)
    ratios = [of.mean(name, COST) / base.mean(name, COST) for name in board.scenarios]
    return float(np.exp(np.mean(np.log(ratios)))), of.overall.ratio


def _padded(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = max(0.12 * (high - low), 0.01 * high)
    return [low - room, high + room]


def _frontier_line(front: Sequence[tuple[float, float]]) -> dict[str, Any]:
    dotted = {"dash": "dot", "width": 1.5, "shape": "hv"}
    costs, ttfts = zip(*front, strict=True)
    return {"type": "scatter", "mode": "lines", "x": costs, "y": ttfts, "line": dotted, "hoverinfo": "skip"}


def _marker(one: _Point, colour: Mapping[str, str], named: str | None) -> dict[str, Any]:
    symbol = "diamond-open" if one.policy in REFERENCES else "circle"
    return {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "meta": one.policy,
        "name": one.policy,
        "x": [one.cost],
        "y": [one.ttft],
        "text": [short_name(one.policy)],
        "textposition": named,
        "textfont": {"size": 11},
        "cliponaxis": False,
        "marker": {"color": colour[one.policy], "size": 10, "symbol": symbol},
        "hovertemplate": f"{one.policy}<br>cost {number(one.cost)}, mean TTFT {number(one.ttft)}<extra></extra>",
    }


def _named(points: Sequence[_Point], x: Mapping[str, Any], y: Mapping[str, Any]) -> dict[str, str]:
    """Where the names of the first points stand, as far as none hides one before it; the legend has the others."""
    found: dict[str, str] = {}
    taken: list[tuple[float, float]] = []
    for one in points:
        across = _share(one.cost, x)
        at = across if across < 0.6 else across - ROOM[0], _share(one.ttft, y)
        if all(abs(at[0] - a) > ROOM[0] or abs(at[1] - b) > ROOM[1] for a, b in taken):
            taken.append(at)
            found[one.policy] = "middle right" if across < 0.6 else "middle left"
    return found


def _share(value: float, axis: Mapping[str, Any]) -> float:
    low, high = axis["range"]
    return float(((np.log10(value) if axis.get("type") == "log" else value) - low) / (high - low))
