"""Figures in words, as the tables, the charts and the verdict have them."""

from __future__ import annotations

import math

from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.pages.figures import number

__all__ = ["FEW_SEEDS", "ratio_text", "share", "short_name"]

FEW_SEEDS = 10
"""Fewer than that, and an interval is a hint (docs/evaluation.md: how often intervals contain the truth)."""
NAME_LENGTH = 22


def ratio_text(comparison: Comparison) -> str:
    """``0.87 [0.80, 0.95]``; the interval only where there is one."""
    if not math.isfinite(comparison.ratio):
        return "–"
    if comparison.low == comparison.high == 1.0:
        return "1"  # the baseline itself, or a policy that did exactly the same
    interval = f" [{_ratio(comparison.low)}, {_ratio(comparison.high)}]" if math.isfinite(comparison.low) else ""
    return f"{_ratio(comparison.ratio)}{interval}"


def _ratio(value: float) -> str:
    """Two decimals, fewer from ten on."""
    return f"{value:.2f}" if value < 10 else number(value)


def short_name(policy: str) -> str:
    """A policy's name; the end of a path that is too long for an axis or a terminal."""
    return policy if len(policy) <= NAME_LENGTH else f"…{policy[1 - NAME_LENGTH :]}"


def share(value: float) -> str:
    """Per cent."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else "–"
