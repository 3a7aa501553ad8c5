"""The state of a run as a panel of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_env.environment.view import view

if TYPE_CHECKING:
    from prfaas_env.environment.core import ControlLoop

__all__ = ["panel"]

_BAR = 20


def panel(loop: ControlLoop) -> str:
    """Clock, knobs, pools, link and decode after the last control interval, in lines of less than 80 characters."""
    shown = view(loop)
    if not shown.figures:
        return f"{shown.heading}\n(no interval yet)"
    rows = [f"{shown.heading}   {shown.clock}"]
    rows += [f"{name:<9} {'   '.join(words)}" for name, words in shown.figures]
    rows += [f"{gauge.name:<9} {_bar(gauge.share)}   {'   '.join(gauge.words)}" for gauge in shown.gauges]
    return "\n".join(rows)


def _bar(share: float) -> str:
    full = round(_BAR * min(max(share, 0.0), 1.0))
    return f"[{'#' * full}{'.' * (_BAR - full)}] {100 * share:3.0f} %"
