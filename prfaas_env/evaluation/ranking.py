"""The ranking as a chart, and the colours of policies in every chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prfaas_env.evaluation.leaderboard import label
from prfaas_env.evaluation.standings import FAR, REFERENCES, Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.evaluation.words import ratio_text, short_name
from prfaas_env.pages.figures import NEUTRAL, PALETTE, Chart, figure, log_axis, number

__all__ = ["colours", "ranking_chart"]

ROW_HEIGHT = 36  # pixels of a policy in the ranking: a marker with its figures above
RATIO_TICKS, WIDE_RATIO_TICKS = (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9), (1, 1.5, 2, 3, 5, 7)
NARROWEST = (0.8, 1.25)  # a ranking of near equals does not blow up their differences


def colours(policies: Sequence[str], baseline: str) -> dict[str, str]:
    """One colour a policy, the same in every chart; the baseline is neutral."""
    others = [p for p in policies if p != baseline]
    found = {policy: PALETTE[i % len(PALETTE)] for i, policy in enumerate(others)}
    return {policy: found.get(policy, NEUTRAL) for policy in policies}


def ranking_chart(board: Standings, scenario: str | None, colour: Mapping[str, str]) -> Chart:
    """Ratio of mean TTFT to the baseline's with its interval, one row a policy; ``None`` is all scenarios together.

    The axis is that of the policies in sight of the best; the others stand at its edge, with an arrow.
    """

    def of(policy: str) -> Comparison:
        return board.comparison(policy, scenario)

    shown = [s.policy for s in board.ranked if np.isfinite(of(s.policy).ratio)]
    shown.sort(key=lambda policy: of(policy).ratio)
    window = _window([of(policy) for policy in shown if policy in board.in_sight(scenario)])
    traces = [_interval(policy, of(policy), colour[policy], window) for policy in reversed(shown)]
    ticks = RATIO_TICKS if window[1] <= 3 * window[0] else WIDE_RATIO_TICKS
    x = log_axis("ratio of mean TTFT (log)", window, ticks)
    x["ticktext"] = [text.removeprefix("0") for text in x["ticktext"]]
    y = {"type": "category", "tickvals": shown, "ticktext": [short_name(label(policy)) for policy in shown]}
    made = figure(traces, {**x, "tickangle": 0}, y, vertical=[1.0] if window[0] <= 1.0 <= window[1] else [])
    made["layout"] |= {"height": max(300, 90 + ROW_HEIGHT * len(shown))}
    made["layout"]["margin"] |= {"t": 22}
    made["layout"]["annotations"] = [
        {"text": f"{short_name(board.baseline)} = 1", "x": 0.0, "y": 1, "yref": "paper", "yanchor": "bottom"}
        | {"showarrow": False, "font": {"size": 11}}
    ]
    return Chart("All scenarios" if scenario is None else "Ranking", _ranking_words(board.baseline, shown, of), made)


def _window(found: Sequence[Comparison]) -> tuple[float, float]:
    """The ratios that an axis must show: those of policies in sight with their intervals, and 1 unless it is far."""
    ratios = [c.ratio for c in found]
    if not ratios:
        return NARROWEST
    low, high = min(ratios) / 2, FAR * min(ratios)
    ends = [min(max(end, low), high) for c in found for end in (c.ratio, c.low, c.high) if np.isfinite(end)]
    ends += [end for end in NARROWEST if low <= end <= high]
    return min(ends), max(ends)


def _interval(policy: str, found: Comparison, colour: str, window: tuple[float, float]) -> dict[str, Any]:
    """One row: a marker with its interval and its figures, or an arrow at the edge that it lies beyond."""
    known = np.isfinite(found.low)
    low, high = window
    at = min(max(found.ratio, low), high)
    share = np.log(at / low) / np.log(high / low)
    said, side, symbol = ratio_text(found), "center", "diamond-open" if policy in REFERENCES else "circle"
    if found.ratio > high:
        said, side, symbol, known = f"{said} →", "left", "triangle-right", False
    elif found.ratio < low:
        said, side, symbol, known = f"← {said}", "right", "triangle-left", False
    elif not 0.25 < share < 0.75:
        side = "right" if share <= 0.25 else "left"
    return {
        "type": "scatter",
        "mode": "markers+text",
        "meta": policy,
        "name": policy,
        "x": [at],
        "y": [policy],
        "text": [said],
        "textposition": f"top {side}",
        "textfont": {"size": 11},
        "cliponaxis": False,
        "marker": {"color": colour, "size": 8 if symbol == "circle" else 10, "symbol": symbol},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [found.high - found.ratio if known else 0],
            "arrayminus": [found.ratio - found.low if known else 0],
            "visible": bool(known),
            "color": colour,
            "thickness": 1.5,
            "width": 6,
        },
        "hovertemplate": f"{policy}: {ratio_text(found)}, {found.pairs} pairs<extra></extra>",
    }


def _ranking_words(baseline: str, shown: Sequence[str], of: Callable[[str], Comparison]) -> str:
    best = next((policy for policy in shown if policy not in REFERENCES and policy != baseline), None)
    if best is None:
        return "Only the baseline can be placed here."
    found = of(best)
    surely = "the interval excludes 1" if found.better or found.worse else "the interval does not exclude 1"
    return (
        f"Left of the dotted line is faster than {baseline}; bars are 95 % intervals; an arrow: further out. Best: "
        f"{best} at {number(found.ratio)} ({surely}), faster in {100 * found.win_share:.0f} % of the pairs."
    )
