"""The report's own charts: the ranking, and the distribution of TTFT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prfaas_env.evaluation.results import CellResult
from prfaas_env.evaluation.standings import BOUNDS, Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.pages.figures import NEUTRAL, PALETTE, Chart, figure, line, log_axis, number

__all__ = ["colours", "ranking_chart", "ttft_chart"]

CDF_POINTS = 240


def colours(policies: Sequence[str], baseline: str) -> dict[str, str]:
    """One colour a policy, the same in every chart; the baseline is neutral."""
    others = [p for p in policies if p != baseline]
    found = {policy: PALETTE[i % len(PALETTE)] for i, policy in enumerate(others)}
    return {policy: found.get(policy, NEUTRAL) for policy in policies}


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
