"""Charts over time: what the policies did to the knobs in one episode, and what queues, link and pools made of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prfaas_env.evaluation.results import CellResult
from prfaas_env.pages.figures import Chart, figure, line, log_axis, reference

__all__ = ["QUANTITIES", "Quantity", "timeline_charts"]

# A panel shows a line of the first many points; averages can be told apart with the second.
POINTS, SMOOTH_POINTS = 400, 60
RESTLESS = 0.5  # share of the steps at which a knob moves


@dataclass(frozen=True)
class Quantity:
    """What is drawn over time: how to read it from a timeline (``TIMELINE_DTYPE``), and what to look for.

    ``scale``: ``count`` from zero, ``share`` from 0 to 100 %, ``log``. ``smooth`` draws averages over blocks of control
    steps, for what jumps between them. ``limit`` names a signal drawn as a dotted line.
    """

    title: str
    unit: str
    caption: str
    read: Callable[[np.ndarray], np.ndarray]
    scale: Literal["count", "share", "log"] = "count"
    shape: Literal["linear", "hv"] = "linear"
    smooth: bool = False
    limit: str | None = None


def _signal(name: str, factor: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    return lambda steps: factor * steps[name]


def _threshold(steps: np.ndarray) -> np.ndarray:
    t = steps["threshold_tokens"]
    return np.where(np.isfinite(t) & (t > 0), t, np.nan)


def _busy(title: str, unit: str, signal: str, caption: str) -> Quantity:
    return Quantity(title, unit, caption, _signal(signal, 100.0), scale="share", smooth=True)


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "Routing threshold t",
        "uncached tokens (log)",
        "Requests longer than t go remote. No line: t is 0 (all remote) or infinite, or the policy routes by price.",
        _threshold,
        scale="log",
        shape="hv",
    ),
    Quantity(
        "Local prefill instances N_p",
        "instances",
        "The long timescale: each step is a role conversion. It pays to move before a queue builds up.",
        _signal("prefill_nodes"),
        shape="hv",
    ),
    Quantity(
        "Requests waiting for their first token",
        "requests",
        "The area under a line is the waiting up to the horizon (Little's law). Who waits then is served afterwards, "
        "and the ranking counts it.",
        _signal("waiting"),
    ),
    Quantity(
        "Remote prefill queue",
        "requests",
        "Long here and short at the local pool: t is too low.",
        _signal("remote_queue"),
    ),
    Quantity(
        "Local prefill queue",
        "requests",
        "Long here and short at the remote pool: t is too high, or N_p too low.",
        _signal("local_queue"),
    ),
    Quantity(
        "Decode queue",
        "requests",
        "Requests whose KV has arrived and that find no free slot: N_p is too high.",
        _signal("decode_queue"),
    ),
    Quantity(
        "Egress of the remote cluster",
        "Gbps",
        "KV traffic on the link. The dotted line is the link's capacity, where it comes into the panel.",
        lambda steps: 8e-9 * steps["link_sent_bytes"] / steps["interval_s"],
        smooth=True,
        limit="link_capacity_gbps",
    ),
    _busy(
        "Remote prefill pool busy",
        "% of instances",
        "remote_busy_share",
        "At 100 % the pool is a bottleneck; below, the dearest instances are idle.",
    ),
    _busy(
        "Local prefill pool busy",
        "% of instances",
        "local_busy_share",
        "Both pools near the same level is the balance that the closed form seeks (Eq. 7).",
    ),
    _busy(
        "Decode slots occupied",
        "% of slots",
        "decode_busy_share",
        "Near 100 % decode binds, and prefill instances should turn back (Eq. 8).",
    ),
)


def timeline_charts(cells: Sequence[CellResult], colour: Mapping[str, str], in_sight: Collection[str]) -> list[Chart]:
    """A chart for each of ``QUANTITIES``, a line a policy; ``cells`` are those of one episode, with their timelines.

    The policies ``in_sight`` are seen whole; the others may leave a panel.
    """
    return [_chart(quantity, cells, colour, in_sight) for quantity in QUANTITIES]


def _chart(
    quantity: Quantity, cells: Sequence[CellResult], colour: Mapping[str, str], in_sight: Collection[str]
) -> Chart:
    hover = f"%{{x:.1f}} min: %{{y:.4~g}} {quantity.unit}"
    drawn = {cell.row["policy"]: _points(quantity, cell.timeline) for cell in cells}
    drawn = {policy: points for policy, points in drawn.items() if np.isfinite(points[1]).any()}
    traces = [line(policy, x, y, colour, hover, quantity.shape) for policy, (x, y) in drawn.items()]
    if quantity.shape == "hv":
        traces = _readable(traces)
    if quantity.limit:
        traces.append(_limit(quantity.limit, cells[0].timeline))
    y_axis, beyond = _axis(quantity, {policy: y[np.isfinite(y)] for policy, (_, y) in drawn.items()}, in_sight)
    caption = quantity.caption + (f" Beyond the panel: {', '.join(beyond)}." if beyond else "")
    return Chart(quantity.title, caption, figure(traces, {"title": {"text": "time, minutes"}}, y_axis))


def _readable(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of steps, the restless ones thin, pale and below: a knob turned at every step would hide all others."""

    def moves(trace: Mapping[str, Any]) -> int:
        return int(np.count_nonzero(np.diff(np.nan_to_num(trace["y"]))))

    pale = {"opacity": 0.45}
    traces = sorted(traces, key=moves, reverse=True)
    return [
        {**t, **pale, "line": {**t["line"], "width": 1.0}} if moves(t) > RESTLESS * len(t["y"]) else t for t in traces
    ]


def _axis(
    quantity: Quantity, values: Mapping[str, np.ndarray], in_sight: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """The y axis, and what of the values it does not show.

    One policy that collapses would press all the others onto the axis of a count: out of sight it may leave the panel.
    """
    title = {"title": {"text": quantity.unit}}
    if quantity.scale == "share":
        return {**title, "range": [0, 105]}, []
    if not values:
        return title, []
    if quantity.scale == "log":
        return log_axis(quantity.unit, [float(end) for y in values.values() for end in (y.min(), y.max())]), []
    peaks = {policy: float(y.max()) for policy, y in values.items()}
    seen = [peak for policy, peak in peaks.items() if policy in in_sight] or list(peaks.values())
    top = max(10.0, *seen)
    if max(peaks.values()) < 2 * top:
        top = max(1.0, *peaks.values())
    beyond = [f"{policy} up to {peak:.4g}" for policy, peak in peaks.items() if peak > top]
    return {**title, "range": [0, 1.05 * top]}, beyond


def _points(quantity: Quantity, timeline: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times in minutes and values: averages over blocks, or the steps themselves as far as a line can show them."""
    minutes, values = timeline["time_s"] / 60.0, quantity.read(timeline)
    stride = max(1, math.ceil(len(values) / (SMOOTH_POINTS if quantity.smooth else POINTS)))
    if not quantity.smooth:
        return minutes[::stride], values[::stride]
    starts = np.arange(0, len(values), stride)
    sizes = np.diff(np.append(starts, len(values)))
    return np.add.reduceat(minutes, starts) / sizes, np.add.reduceat(values, starts) / sizes


def _limit(signal: str, timeline: np.ndarray) -> dict[str, Any]:
    stride = max(1, math.ceil(len(timeline) / POINTS))
    return reference(timeline["time_s"][::stride] / 60.0, timeline[signal][::stride], "capacity: %{y:.4~g}")
