"""How the planner's numbers are written, in the terminal and on its page."""

from __future__ import annotations

from prfaas_env.pages.figures import number
from prfaas_env.planner.advice import Advice

__all__ = ["judgement", "quantity"]


def quantity(value: float | None) -> str:
    """Three digits; a dash for what is not known."""
    return "–" if value is None else number(value)


def judgement(one: Advice) -> str:
    """``favourable``, ``not favourable``, or ``not stated`` where the input does not say."""
    if one.favourable is None:
        return "not stated"
    return "favourable" if one.favourable else "not favourable"
