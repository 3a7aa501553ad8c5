"""``docs/results/learned.json``: what was found, to five digits; ``null`` where there is nothing to know."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "RESULTS", "as_json", "plain", "read_results"]

FOLDER = Path(__file__).resolve().parents[1]
RESULTS = FOLDER / "results" / "learned.json"
_FLAT = re.compile(r"\[\s+([^][{}]+?)\s+\]")


def read_results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def as_json(results: Mapping[str, Any]) -> str:
    """The content of the file; a list of numbers or words is one line."""
    text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
    return _FLAT.sub(lambda flat: f"[{' '.join(flat[1].split())}]", text) + "\n"


def plain(found: Any) -> Any:
    """What JSON can hold: floats to five significant digits, ``None`` for those that are not finite."""
    if isinstance(found, float):
        return float(f"{found:.5g}") if math.isfinite(found) else None
    if isinstance(found, Mapping):
        return {key: plain(value) for key, value in found.items()}
    return [plain(value) for value in found] if isinstance(found, (list, tuple)) else found
