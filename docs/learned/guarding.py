"""On how many steps, and where, a shipped policy was held back because it saw what training had not shown it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from docs.findings.markdown import percent, table
from prfaas_env.evaluation.standings import Row
from prfaas_env.scenario import Scenario

__all__ = ["counted", "section"]


def counted(rows: Sequence[Row], scenarios: Sequence[Scenario], name: str) -> dict[str, Any] | None:
    """Steps of every scenario, and those held back; ``None`` for a model without ranges, which has no guard."""
    own = [row for row in rows if row["policy"] == name]
    if not all("held_back_share" in row for row in own):
        return None
    found = {}
    for one in scenarios:
        shares = [row["held_back_share"] for row in own if row["scenario"] == one.name]
        steps = ceil(one.horizon_s / one.control_step_s)
        found[one.name] = {
            "steps": steps * len(shares),
            "held_back": round(sum(shares) * steps),
            "episodes": len(shares),
            "touched": sum(share > 0.0 for share in shares),
        }
    return found


def section(name: str, base: str, found: Mapping[str, Any] | None) -> list[str]:
    """The count in Markdown; scenarios without a step held back are only named."""
    head = ["### Where it was held back", ""]
    if found is None:
        return [*head, f"The card of `{name}` names no ranges of training, so that nothing holds it back.", ""]
    steps, held = (sum(of[key] for of in found.values()) for key in ("steps", "held_back"))
    free = [scenario for scenario, of in found.items() if not of["held_back"]]
    touched = [(scenario, of) for scenario, of in found.items() if of["held_back"]]
    lines = [
        *head,
        f"Outside the ranges of its training it gives way, wholly or in part, to `{base}` ([guard](training.md"
        f"#outside-what-was-trained-on)): on {held:,} of {steps:,} steps ({percent(held / steps, 1)})"
        + (f", none of them on {', '.join(free)}" if free and touched else "")
        + ".",
        "",
    ]
    if touched:
        lines.append(
            table(
                ("scenario", "steps held back", "of", "share", "episodes touched"),
                [
                    (
                        scenario,
                        f"{of['held_back']:,}",
                        f"{of['steps']:,}",
                        percent(of["held_back"] / of["steps"], 1),
                        f"{of['touched']} of {of['episodes']}",
                    )
                    for scenario, of in sorted(touched, key=lambda one: -one[1]["held_back"] / one[1]["steps"])
                ],
            )
        )
    return lines
