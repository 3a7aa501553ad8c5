"""The distribution of TTFT, with room for its tail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from prfaas_env.evaluation.results import TTFT_LEVELS, CellResult
from prfaas_env.evaluation.standings import REFERENCES
from prfaas_env.pages.figures import Chart, aligned, figure, line, log_axis, number

__all__ = ["ttft_chart"]

NAMED = {0.5: "P50", 0.9: "P90", 0.99: "P99", 0.999: "P99.9"}
P99 = int(np.flatnonzero(np.isclose(TTFT_LEVELS, 0.99))[0])


def ttft_chart(
    cells: Sequence[CellResult], objectives_s: Sequence[float], colour: Mapping[str, str], in_sight: Collection[str]
) -> Chart:
    """TTFT over its quantiles, averaged over seeds as in the tables, one line a policy; ``cells`` of one scenario.

    A line ends where the shortest of its episodes has no request slower. The axis is that of the policies ``in_sight``.
    """
    curves = {}
    for policy in colour:
        kept = [cell.ttft_s for cell in cells if cell.row["policy"] == policy and len(cell.ttft_s)]
        if kept:
            curves[policy] = np.mean(kept, axis=0)
    one_in = 1.0 / (1.0 - TTFT_LEVELS)
    traces = [
        line(policy, one_in, ttft_s, colour, "1 request in %{x:.4~g} takes %{y:.3~g} s or more")
        for policy, ttft_s in curves.items()
    ]
    x = {
        "title": {"text": "quantile of requests, the tail spread out (log)"},
        "type": "log",
        "range": [0.0, 3.2],
        "tickvals": [1.0 / (1.0 - level) for level in NAMED],
        "ticktext": list(NAMED.values()),
    }
    peaks = {policy: float(np.nanmax(curve)) for policy, curve in curves.items()}
    top = max([peaks[policy] for policy in curves if policy in in_sight] or [*peaks.values(), *objectives_s])
    lowest = [float(curve[curve > 0].min()) for curve in curves.values() if (curve > 0).any()]
    y = log_axis("TTFT, s (log)", [*lowest, *objectives_s, top])
    beyond = [policy for policy, peak in peaks.items() if peak > 1.2 * max(top, *objectives_s)]
    objectives = " and ".join(f"{value:g}" for value in objectives_s)
    words = f"Lower is faster, and further right is the slower tail; dotted: the objective of {objectives} s."
    known = {p: float(curve[P99]) for p, curve in curves.items() if p not in REFERENCES and np.isfinite(curve[P99])}
    if known:
        best = min(known, key=lambda policy: known[policy])
        words += f" Lowest P99 of a contender: {best}, {number(known[best])} s."
    if beyond:
        words += f" Leaves the panel: {', '.join(beyond)}."
    return Chart("TTFT, median to tail", words, aligned(figure(traces, x, y, horizontal=objectives_s)))
