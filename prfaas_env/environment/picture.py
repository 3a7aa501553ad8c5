"""The state of a run as a picture: what the panel says, and the episode's course so far, drawn by Pillow."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.view import Course, Gauge, View, view

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from prfaas_env.environment.core import ControlLoop

__all__ = ["PALETTE", "SIZE", "picture"]

SIZE = (960, 540)
"""Width and height in pixels."""
_GROUND, _GRID, _DIM, _LIGHT = (24, 26, 31), (52, 56, 65), (139, 148, 160), (228, 231, 235)
_CALM, _BUSY, _FULL = (86, 180, 140), (230, 180, 80), (226, 104, 92)
_LINE = (110, 170, 240)
_SHADES = 8
PALETTE = np.rint(
    [
        np.array(_GROUND) + shade / _SHADES * (np.array(colour) - _GROUND)
        for colour in (_GRID, _DIM, _LIGHT, _CALM, _BUSY, _FULL, _LINE)
        for shade in range(_SHADES + 1)
    ]
).astype(np.uint8)
"""Colours that do for every picture, the edges of letters included: uint8 (colours, 3)."""
_LEFT, _MIDDLE, _TOP = 24, 500, 72


def picture(loop: ControlLoop, title: str = "") -> np.ndarray:
    """The run after its last control interval, uint8 (540, 960, 3); ``title`` stands before the heading.

    Raises :class:`ConfigError` if Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise ConfigError("render_mode 'rgb_array' needs Pillow: pip install pillow") from None
    shown = view(loop)
    image = Image.new("RGB", SIZE, _GROUND)
    draw = ImageDraw.Draw(image)
    _head(draw, shown, f"{title}: {shown.heading}" if title else shown.heading)
    y = _TOP
    for name, words in shown.figures:
        draw.text((_LEFT, y), name, font=_font(13), fill=_DIM)
        for part in words:
            y += 22
            draw.text((_LEFT, y), part, font=_font(15), fill=_LIGHT)
        y += 32
    for row, gauge in enumerate(shown.gauges):
        _gauge(draw, gauge, _TOP + 112 * row)
    height = (SIZE[1] - _TOP - 8) // max(len(shown.courses), 1)
    for row, course in enumerate(shown.courses):
        _course(draw, course, shown.horizon_s, _TOP + height * row, height - 14)
    return np.asarray(image)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _head(draw: ImageDraw, shown: View, title: str) -> None:
    draw.text((_LEFT, 14), title, font=_font(20), fill=_LIGHT)
    draw.text((SIZE[0] - _LEFT, 18), shown.clock, font=_font(15), fill=_DIM, anchor="ra")
    length = SIZE[0] - 2 * _LEFT
    draw.rectangle((_LEFT, 48, _LEFT + length, 51), fill=_GRID)
    draw.rectangle((_LEFT, 48, _LEFT + length * shown.time_s / shown.horizon_s, 51), fill=_DIM)


def _gauge(draw: ImageDraw, gauge: Gauge, y: int) -> None:
    left, right = 236, _MIDDLE - 32
    share = min(max(gauge.share, 0.0), 1.0)
    draw.text((left, y), gauge.name, font=_font(15), fill=_LIGHT)
    draw.text((right, y), f"{100 * gauge.share:.0f} %", font=_font(15), fill=_LIGHT, anchor="ra")
    draw.rectangle((left, y + 24, right, y + 38), fill=_GRID)
    if share:
        colour = _FULL if share > 0.95 else _BUSY if share > 0.8 else _CALM
        draw.rectangle((left, y + 24, left + share * (right - left), y + 38), fill=colour)
    for row, part in enumerate(gauge.words):
        draw.text((left, y + 46 + 20 * row), " ".join(part.split()), font=_font(14), fill=_DIM)


def _course(draw: ImageDraw, course: Course, horizon_s: float, y: int, height: int) -> None:
    left, right, top, bottom = _MIDDLE, SIZE[0] - _LEFT, y + 20, y + height
    draw.text((left, y), course.name, font=_font(13), fill=_DIM)
    draw.text((right, y), course.last, font=_font(13), fill=_LIGHT, anchor="ra")
    draw.line((left, bottom, right, bottom), fill=_GRID)
    known = np.isfinite(course.values)
    most = max(float(course.values[known].max(initial=0.0)), 1e-9)
    draw.text((left + 2, top - 2), f"{most:.4g}", font=_font(11), fill=_DIM)
    x = left + (right - left) * course.times_s[known] / horizon_s
    heights = bottom - (bottom - top) * course.values[known] / most
    if len(x) > 1:
        draw.line(list(zip(x.tolist(), heights.tolist(), strict=True)), fill=_LINE, width=2)
