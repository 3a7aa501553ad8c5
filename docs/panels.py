"""Small charts in a grid as one SVG file: lines over a common kind of x, a legend on top; colours as in line_chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from docs.line_chart import COLOURS, GREY, text

__all__ = ["Panel", "panels", "ticks"]

WIDTH, LEFT, GAP_X, GAP_Y, LEGEND, BOTTOM = 760, 50, 54, 30, 26, 36
MOST_TICKS = 4

Value = float | None


class Panel(NamedTuple):
    """One chart: curves by name (x and y of each; where y is ``None`` the line has a gap)."""

    title: str
    curves: Mapping[str, tuple[Sequence[float], Sequence[Value]]]
    x_title: str = ""
    log_x: bool = False
    log_y: bool = False


def panels(rows: Sequence[Sequence[Panel]], height: int = 110) -> str:
    """Rows of charts of one size, ``height`` pixels each; a name has the same colour in all of them."""
    columns = max(len(row) for row in rows)
    width = (WIDTH - LEFT - 12 - GAP_X * (columns - 1)) / columns
    names = list(dict.fromkeys(name for row in rows for panel in row for name in panel.curves))
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    parts, x = [], float(LEFT)
    for name in names:
        parts.append(f'<path d="M{x:.0f} 12h16" stroke="{colours[name]}" stroke-width="2"/>')
        parts.append(text(x + 20, 16, name, "start"))
        x += 34 + 6.6 * len(name)
    top = float(LEGEND)
    for row in rows:
        top += 18
        for k, panel in enumerate(row):
            parts += _drawn(panel, LEFT + k * (width + GAP_X), top, width, height, colours)
        top += height + (BOTTOM if any(panel.x_title for panel in row) else GAP_Y)
    size = f'viewBox="0 0 {WIDTH} {top + 4:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, *parts, "</svg>", ""])


def _drawn(panel: Panel, left: float, top: float, width: float, height: float, colours: Mapping[str, str]) -> list[str]:
    xs = np.array([x for own, _ in panel.curves.values() for x in own], float)
    ys = np.array([y for _, own in panel.curves.values() for y in own if y is not None], float)
    scale_x, x_low, x_high = _scale(xs, panel.log_x, tight=True)
    scale_y, y_low, y_high = _scale(ys, panel.log_y, tight=False)

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = (scale_x(x) - x_low) / (x_high - x_low), (scale_y(y) - y_low) / (y_high - y_low)
        return left + width * across, top + height * (1.0 - up)

    parts = [text(left, top - 5, panel.title, "start", extra=' font-weight="bold"')]
    undo_x, undo_y = (np.exp if log else float for log in (panel.log_x, panel.log_y))
    lowest = float(undo_y(y_low))
    for tick in ticks(lowest, float(undo_y(y_high)), panel.log_y):
        y = at(xs[0], tick)[1]
        parts.append(f'<path d="M{left:.1f} {y:.1f}h{width:.1f}" stroke="{GREY}" stroke-opacity=".35"/>')
        parts.append(text(left - 4, y + 4, _label(tick), "end"))
    for tick in ticks(float(undo_x(x_low)), float(undo_x(x_high)), panel.log_x):
        parts.append(text(at(tick, lowest)[0], top + height + 13, _label(tick), "middle"))
    if panel.x_title:
        parts.append(text(left + width / 2, top + height + 27, panel.x_title, "middle"))
    for name, (own_x, own_y) in panel.curves.items():
        line, pen = [], "M"
        for x, known in zip(own_x, own_y, strict=True):
            if known is not None:
                line.append("{}{:.1f} {:.1f}".format(pen, *at(x, known)))
            pen = "M" if known is None else "L"
        parts.append(f'<path d="{"".join(line)}" fill="none" stroke="{colours[name]}" stroke-width="1.6"/>')
    return parts


def _scale(values: np.ndarray, log: bool, tight: bool) -> tuple[type[float] | np.ufunc, float, float]:
    """The scale of an axis and its two ends on it; a y-axis begins at 0 unless it is logarithmic or goes below."""
    scale = np.log if log else float
    low, high = (float(scale(end)) for end in (values.min(), values.max())) if len(values) else (0.0, 1.0)
    if not tight and not log:
        low = min(low, 0.0)
    if high - low < 1e-9:
        low, high = low - (0.5 if log or low < 0 else 0.0), high + 0.5
    margin = 0.0 if tight else 0.05 * (high - low)
    return scale, low - (margin if log else 0.0), high + margin


def ticks(low: float, high: float, log: bool) -> list[float]:
    """At most four round values from ``low`` to ``high``."""
    if log:
        decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**d for d in decades for s in steps if low * 0.999 <= s * 10.0**d <= high * 1.001]
            if len(found) <= MOST_TICKS:
                break
        if len(found) > 1:
            return found[:: -(-len(found) // MOST_TICKS)]
    span = high - low
    raw = 10.0 ** np.floor(np.log10(span / MOST_TICKS))
    step = next(raw * factor for factor in (1, 2, 5, 10, 20) if span / (raw * factor) < MOST_TICKS)
    first = np.ceil(low / step - 1e-9)
    return [float(f"{step * k:.6g}") for k in range(int(first), int(np.floor(high / step + 1e-9)) + 1)]


def _label(tick: float) -> str:
    return f"{tick / 1000:g}k" if abs(tick) >= 1000 else f"{tick:g}".replace("-", "−")
