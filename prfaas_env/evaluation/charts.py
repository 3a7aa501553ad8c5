"""Charts as Plotly figures on no ground of their own: the page gives them its light or dark theme.

Every trace carries its policy in ``meta``, by which the page hides and shows it; one without is a reference line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.evaluation.leaderboard import number
from prfaas_env.evaluation.results import CellResult
from prfaas_env.evaluation.standings import BOUNDS, Standings
from prfaas_env.evaluation.statistics import Comparison

__all__ = ["Chart", "colours", "figure", "line", "log_axis", "ranking_chart", "ttft_chart"]

# Mid tones that stand out from white and from near-black alike; the baseline is neutral.
PALETTE = ("#2f7fd1", "#e0731d", "#2c9d5c", "#d6455a", "#8f63c9", "#12a0ad", "#c9559f", "#a5762f", "#6d8b1f")
NEUTRAL = "#8a919c"
CDF_POINTS = 240


@dataclass(frozen=True)
class Chart:
    """A figure with what stands around it: its title and one or two sentences on what to see."""

    title: str
    caption: str
    figure: Mapping[str, Any]


def colours(policies: Sequence[str], baseline: str) -> dict[str, str]:
    """One colour a policy, the same in every chart."""
    others = [p for p in policies if p != baseline]
    found = {policy: PALETTE[i % len(PALETTE)] for i, policy in enumerate(others)}
    return {policy: found.get(policy, NEUTRAL) for policy in policies}


def figure(
    traces: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any], vertical: Sequence[float] = ()
) -> dict[str, Any]:
    """A figure in its plain form, checked by Plotly; dotted reference lines at the ``vertical`` values of x."""
    import plotly.graph_objects as go

    axis = {"automargin": True, "title": {"standoff": 8}}
    dotted = {"type": "line", "y0": 0, "y1": 1, "yref": "paper", "line": {"dash": "dot", "width": 1.5}}
    made = go.Figure(list(traces))
    made.update_layout(
        showlegend=False,
        hovermode="closest",
        margin={"l": 10, "r": 14, "t": 8, "b": 10},
        xaxis={**axis, **x},
        yaxis={**axis, **y},
        shapes=[{**dotted, "x0": value, "x1": value} for value in vertical],
    )
    plain: dict[str, Any] = made.to_plotly_json()
    plain["layout"].pop("template", None)
    return plain


def line(
    policy: str, x: np.ndarray, y: np.ndarray, colour: Mapping[str, str], hover: str, shape: str = "linear"
) -> dict[str, Any]:
    """A line of one policy; ``hover`` is Plotly's template of what a point says."""
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": policy,
        "name": policy,
        "x": x.astype(np.float32),
        "y": y.astype(np.float32),
        "line": {"color": colour[policy], "width": 1.8, "shape": shape},
        "hovertemplate": f"{policy}<br>{hover}<extra></extra>",
    }


def log_axis(title: str, values: Sequence[float]) -> dict[str, Any]:
    """A log axis around positive values with round ticks; Plotly's own leave one of less than a decade bare."""
    low, high = min(values) / 1.15, max(values) * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: Sequence[float] = (1, 2, 5) if high / low > 3 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    if high / low > 1e3:
        steps = (1,)
    ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    return {
        "title": {"text": title, "standoff": 8},
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick / 1000:g}K" if tick >= 1000 else f"{tick:g}" for tick in ticks],
    }


def ranking_chart(board: Standings, scenario: str | None, colour: Mapping[str, str]) -> Chart:
    """Ratio of mean TTFT to the baseline's with its interval, one row a policy; ``None`` is all scenarios together."""

    def of(policy: str) -> Comparison:
        standing = board.of(policy)
        return standing.overall if scenario is None else standing.by_scenario[scenario]

    shown = [s.policy for s in board.ranked if np.isfinite(of(s.policy).ratio)]
    shown.sort(key=lambda policy: of(policy).ratio)
    traces = [_interval(policy, of(policy), colour[policy]) for policy in reversed(shown)]
    ends = [end for p in shown for end in (of(p).ratio, of(p).low, of(p).high) if np.isfinite(end)]
    x = log_axis(f"TTFT ÷ {board.baseline} (log)", [1.0, *ends])
    return Chart(
        scenario or "All scenarios",
        _ranking_words(board.baseline, shown, of),
        figure(traces, x, {"type": "category"}, vertical=[1.0]),
    )


def _interval(policy: str, found: Comparison, colour: str) -> dict[str, Any]:
    known = np.isfinite(found.low)
    return {
        "type": "scatter",
        "mode": "markers",
        "meta": policy,
        "name": policy,
        "x": [found.ratio],
        "y": [policy],
        "marker": {"color": colour, "size": 10},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [found.high - found.ratio if known else 0],
            "arrayminus": [found.ratio - found.low if known else 0],
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "hovertemplate": f"{policy}: %{{x:.3f}} [{number(found.low)}, {number(found.high)}], "
        f"{found.pairs} pairs<extra></extra>",
    }


def _ranking_words(baseline: str, shown: Sequence[str], of: Callable[[str], Comparison]) -> str:
    best = next((policy for policy in shown if policy not in BOUNDS and policy != baseline), None)
    if best is None:
        return "Only the baseline can be placed here."
    found = of(best)
    surely = "the interval excludes 1" if found.better or found.worse else "the interval does not exclude 1"
    return (
        f"Left of the dotted line is faster than {baseline}; bars are 95 % intervals. Best: {best} at "
        f"{number(found.ratio)} ({surely}), faster in {100 * found.win_share:.0f} % of the pairs."
    )


def ttft_chart(cells: Sequence[CellResult], objectives_s: Sequence[float], colour: Mapping[str, str]) -> Chart:
    """Distribution of TTFT of all requests of all seeds, one line a policy."""
    share = (np.arange(CDF_POINTS) + 0.5) / CDF_POINTS
    pooled = {p: np.concatenate([c.ttft_s for c in cells if c.row["policy"] == p] or [np.empty(0)]) for p in colour}
    curves = {policy: np.quantile(ttft_s, share) for policy, ttft_s in pooled.items() if len(ttft_s)}
    hover = "%{x:.2f} s: %{y:.0f} % of requests"
    traces = [line(policy, ttft_s, 100 * share, colour, hover) for policy, ttft_s in curves.items()]
    ends = [end for curve in curves.values() for end in (curve[0], curve[-1])]
    x, y = log_axis("TTFT, s (log)", [*objectives_s, *ends]), {"title": {"text": "requests, %"}, "range": [0, 100]}
    objectives = " and ".join(f"{value:g}" for value in objectives_s)
    words = (
        f"Further left is faster; the height at the dotted line is the share within the objective of {objectives} s."
    )
    if curves:
        best = min(curves, key=lambda p: float(np.median(curves[p])))
        words += f" Lowest median: {best}, {number(float(np.median(curves[best])))} s."
    return Chart("TTFT of all requests", words, figure(traces, x, y, vertical=objectives_s))
