"""A line chart as an SVG file: grey axes that show on light and dark pages, and a name at the end of each curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["GREY", "line_chart", "text"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 56, 150, 16, 48
COLOURS = ("#4c78a8", "#e4572e", "#3a9d5d", "#b279a2", "#c98a00", "#17a2b8", "#8c6d5a")
GREY = "#8a8f98"


def line_chart(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_title: str,
    y_title: str,
    x_ticks: Mapping[float, str],
    y_ticks: Mapping[float, str],
) -> str:
    """Curves (x and y of each) over a logarithmic x-axis and a linear y-axis; the ticks, value to label, span both."""
    x_low, x_high, y_low, y_high = min(x_ticks), max(x_ticks), min(y_ticks), max(y_ticks)

    def at_x(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * float(np.log(x / x_low) / np.log(x_high / x_low))

    def at_y(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - y_low) / (y_high - y_low)

    parts = []
    for x, label in x_ticks.items():
        parts.append(text(at_x(x), HEIGHT - BOTTOM + 18, label, "middle"))
    for y, label in y_ticks.items():
        parts.append(f'<path d="M{LEFT} {at_y(y):.1f}H{WIDTH - RIGHT}" stroke="{GREY}" stroke-opacity=".35"/>')
        parts.append(text(LEFT - 8, at_y(y) + 4, label, "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_title, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(text(14, middle, y_title, "middle", extra=f' transform="rotate(-90 14 {middle:.1f})"'))

    ends = sorted(((at_y(float(y[-1])), name) for name, (_, y) in curves.items()), reverse=True)
    below, labels = HEIGHT - BOTTOM + 15.0, {}
    for end, name in ends:  # from the lowest up, each at least a line above the one before
        below = labels[name] = min(end, below - 15.0)
    drop = max(0.0, TOP - below)  # names that would leave the top move down together
    for colour, (name, (xs, ys)) in zip(COLOURS, curves.items(), strict=False):
        points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(WIDTH - RIGHT + 8, labels[name] + drop + 4, name, "start", colour))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    return "\n".join([f'{head} font-size="12">', *parts, "</svg>", ""])


def text(x: float, y: float, words: str, anchor: str, colour: str = GREY, extra: str = "") -> str:
    """A label; ``extra`` are further attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{extra}>{words}</text>'
