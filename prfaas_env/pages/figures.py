"""Charts as Plotly figures on no ground of their own: the page gives them its light or dark theme.

Every trace carries its series in ``meta``, by which the page hides and shows it; one without is a reference line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.pages.packing import rounded

__all__ = ["NEUTRAL", "PALETTE", "Chart", "aligned", "figure", "line", "log_axis", "log_ticks", "number", "reference"]

# Mid tones that stand out from white and from near-black alike, by a contrast of 3 to 1 at least (WCAG 1.4.11).
PALETTE = (
    *("#2f7fd1", "#dc6d14", "#2c9d5c", "#d6455a", "#8f63c9", "#0f9aa6"),
    *("#c9559f", "#a5762f", "#6d8b1f", "#5b6ee0", "#b8860b", "#b0553a"),
)
NEUTRAL = "#868d98"


@dataclass(frozen=True)
class Chart:
    """A figure with what stands around it: its title and one or two sentences on what to see."""

    title: str
    caption: str
    figure: Mapping[str, Any]


def figure(
    traces: Sequence[Mapping[str, Any]],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    vertical: Sequence[float] = (),
    horizontal: Sequence[float] = (),
) -> dict[str, Any]:
    """A figure in its plain form, checked by Plotly; dotted reference lines at values of x, and ``horizontal`` of y."""
    import plotly.graph_objects as go

    axis = {"automargin": True, "title": {"standoff": 8}}
    dotted = {"type": "line", "layer": "below", "line": {"dash": "dot", "width": 1.5}}
    upright, level = {**dotted, "y0": 0, "y1": 1, "yref": "paper"}, {**dotted, "x0": 0, "x1": 1, "xref": "paper"}
    made = go.Figure(list(traces))
    made.update_layout(
        showlegend=False,
        hovermode="closest",
        margin={"l": 10, "r": 14, "t": 8, "b": 10},
        xaxis={**axis, **x},
        yaxis={**axis, **y},
        shapes=[
            *({**upright, "x0": value, "x1": value} for value in vertical),
            *({**level, "y0": value, "y1": value} for value in horizontal),
        ],
    )
    plain: dict[str, Any] = made.to_plotly_json()
    plain["layout"].pop("template", None)
    return plain


def aligned(made: dict[str, Any]) -> dict[str, Any]:
    """The figure with margins of one size, so that panels beside each other line up; for axes with numbers alone."""
    for name in ("xaxis", "yaxis"):
        made["layout"][name]["automargin"] = False
    made["layout"]["margin"] |= {"l": 56, "b": 42}
    return made


def line(
    name: str, x: np.ndarray, y: np.ndarray, colour: Mapping[str, str], hover: str, shape: str = "linear"
) -> dict[str, Any]:
    """A line of one series; ``hover`` is Plotly's template of what a point says."""
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": name,
        "name": name,
        "x": rounded(x, 5),
        "y": rounded(y, 5),
        "line": {"color": colour[name], "width": 1.8, "shape": shape},
        "hovertemplate": f"{name}<br>{hover}<extra></extra>",
    }


def reference(x: np.ndarray, y: np.ndarray, hover: str) -> dict[str, Any]:
    """A dotted line of steps to compare with, such as a limit."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": rounded(x, 5),
        "y": rounded(y, 5),
        "line": {"dash": "dot", "width": 1.5, "shape": "hv"},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def log_axis(title: str, values: Sequence[float], steps: Sequence[float] | None = None) -> dict[str, Any]:
    """A log axis around positive values with round ticks; Plotly's own leave one of less than a decade bare.

    ``steps`` are the ticks of a decade, from 1 up to 10, where the usual ones do not suit.
    """
    low, high = min(values) / 1.15, max(values) * 1.15
    if steps is None or high / low > 10:
        steps = (1, 2, 5) if high / low > 3 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    if high / low > 1e3:
        steps = (1,)
    return {
        "title": {"text": title, "standoff": 8},
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        **log_ticks(low, high, steps),
    }


def log_ticks(low: float, high: float, steps: Sequence[float] = (1, 2, 5)) -> dict[str, Any]:
    """Ticks of a log axis from ``low`` to ``high``: these steps of every decade."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    return {"tickvals": ticks, "ticktext": [_tick(tick) for tick in ticks]}


def _tick(value: float) -> str:
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def number(value: float) -> str:
    """Three significant digits, without an exponent; a dash for what is unknown."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"
