"""``docs/results/findings.json``: what was found, to six digits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "RESULTS", "Found", "estimates", "found_of", "read_results", "rounded"]

FOLDER = Path(__file__).resolve().parents[1]
RESULTS = FOLDER / "results" / "findings.json"


@dataclass(frozen=True)
class Found:
    """What was found of one question."""

    closed_form: Mapping[str, Any]
    simulated: Mapping[str, Any]


def found_of(results: Mapping[str, Any], name: str) -> Found:
    return Found(results["closed_form"][name], results["simulated"][name])


def read_results() -> dict[str, Any]:
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def rounded(found: Any) -> Any:
    """The same with every float to six significant digits."""
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, Mapping):
        return {key: rounded(value) for key, value in found.items()}
    return [rounded(value) for value in found] if isinstance(found, (list, tuple)) else found


def estimates(found: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, float]]]:
    """Every estimate in simulated results, with the keys that lead to it."""
    if found.keys() == {"value", "low", "high"}:
        yield path, found
        return
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from estimates(value, f"{path}/{key}")
