"""Numbers and tables of the page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["gain", "percent", "simulated", "table", "wrapped"]

WIDTH = 120


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; cells are shown as they are."""
    lines = [list(header), ["---"] * len(header), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines) + "\n"


def simulated(found: Mapping[str, float], digits: int = 2) -> str:
    """An estimate with its interval."""
    return f"{found['value']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent."""
    return f"{100.0 * share:.{digits}f} %"


def gain(ratio: float) -> str:
    """A ratio as what it is more or less than 1."""
    percent = round(100.0 * (ratio - 1.0))
    return f"{percent:+d} %".replace("-", "−")


def wrapped(page: str) -> str:
    """The page with its paragraphs in lines of at most 120 characters; tables and pictures keep theirs."""
    lines = []
    for line in page.splitlines():
        plain = len(line) > WIDTH and not line.startswith(("|", "!", "<"))
        lines += textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) if plain else [line]
    return "\n".join(lines) + "\n"
