"""Estimates with intervals as an SVG file: a row an estimate, a dot and a bar, in groups; colours as in line_chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from docs.line_chart import GREY, text

__all__ = ["interval_chart"]

WIDTH, LEFT, RIGHT, TOP, BOTTOM, ROW, GAP = 760, 210, 24, 10, 48, 17, 14
COLOUR = "#4c78a8"


def interval_chart(
    groups: Mapping[str, Mapping[str, Mapping[str, float]]], x_title: str, x_ticks: Sequence[float], log: bool = False
) -> str:
    """Groups of named rows, each with ``value``, ``low`` and ``high``; what leaves the ticks is cut off at the edge."""
    scale = np.log if log else np.asarray
    low, high = (float(scale(end)) for end in (min(x_ticks), max(x_ticks)))

    def at_x(x: float) -> float:
        share = (float(scale(x)) - low) / (high - low)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)

    parts, y = [], float(TOP)
    for group, rows in groups.items():
        y += GAP + ROW
        parts.append(text(LEFT - 8, y, group, "end", extra=' font-weight="bold"'))
        for name, found in rows.items():
            y += ROW
            parts.append(text(LEFT - 8, y, name, "end"))
            ends = f"M{at_x(found['low']):.1f} {y - 4:.1f}H{at_x(found['high']):.1f}"
            parts.append(f'<path d="{ends}" stroke="{COLOUR}" stroke-width="2"/>')
            parts.append(f'<circle cx="{at_x(found["value"]):.1f}" cy="{y - 4:.1f}" r="4" fill="{COLOUR}"/>')
    bottom = y + 10.0
    for tick in x_ticks:
        parts.append(f'<path d="M{at_x(tick):.1f} {TOP}V{bottom:.1f}" stroke="{GREY}" stroke-opacity=".35"/>')
        parts.append(text(at_x(tick), bottom + 16, f"{tick:g}", "middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, x_title, "middle"))
    size = f'viewBox="0 0 {WIDTH} {bottom + BOTTOM:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, *parts, "</svg>", ""])
