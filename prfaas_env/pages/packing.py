"""What a page carries besides its text, packed: gzip in base64, which browsers unpack (``DecompressionStream``)."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

__all__ = ["packed", "packed_json", "plain_json", "rounded", "unpacked_json"]

DIGITS = 4


def packed(text: str) -> str:
    """Text as base64 of gzip, the same bytes each time; it is safe inside a script element."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def plain_json(content: Any) -> str:
    """JSON of figures and plain data. Plotly's encoder escapes ``<``, so that no text ends a script element."""
    from plotly.io.json import to_json_plotly

    text: str = to_json_plotly(content)
    return text


def packed_json(content: Any) -> str:
    """The same, packed."""
    return packed(plain_json(content))


def unpacked_json(text: str) -> Any:
    """What :func:`packed_json` has packed."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | int | None]:
    """Values to significant digits, more than a chart can show; ``None`` for what is not finite.

    As text these pack to half the size of binary numbers.
    """
    return [_short(float(f"{value:.{digits}g}")) if np.isfinite(value) else None for value in values.tolist()]


def _short(value: float) -> float | int:
    return int(value) if value.is_integer() else value
