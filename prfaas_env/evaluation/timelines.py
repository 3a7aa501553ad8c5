"""What an episode was like over time: the knobs that a policy turned, and what queues, link and pools made of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prfaas_env.pages.explorer import Panel
from prfaas_env.pages.figures import Chart, aligned, figure, log_ticks
from prfaas_env.pages.packing import rounded

__all__ = ["QUANTITIES", "Quantity", "limits", "minutes", "panel", "values"]

Values = list[float | int | None]

# Points of a line: as many as a panel can show, and a page can carry for every policy and scenario; and as many as let
# two lines be told apart that jump from step to step.
RESOLUTIONS = FINE, SMOOTH = (180, 60)
MEASURED_DIGITS = 3


@dataclass(frozen=True)
class Quantity:
    """What is drawn over time: how to read it from a timeline (``TIMELINE_DTYPE``), and what to look for.

    ``scale``: ``count`` from zero, ``share`` from 0 to 100 %, ``log``, ``plain``. ``knob``: set, not measured, so that
    it moves in steps and is not averaged; averages of others are weighted by the signal ``weight``, and longer where
    ``smooth``. ``limit`` names a signal drawn as a dotted line.
    """

    title: str
    unit: str
    caption: str
    read: Callable[[np.ndarray], np.ndarray]
    scale: Literal["count", "share", "log", "plain"] = "count"
    knob: bool = False
    smooth: bool = False
    weight: str = "interval_s"
    limit: str | None = None

    @property
    def points(self) -> int:
        """The most that a line of it has."""
        return SMOOTH if self.smooth else FINE


def _signal(name: str, factor: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    return lambda steps: factor * steps[name]


def _threshold(steps: np.ndarray) -> np.ndarray:
    t = steps["threshold_tokens"]
    return np.where(np.isfinite(t) & (t > 0), t, np.nan)


def _price(steps: np.ndarray) -> np.ndarray:
    """Nothing for a policy that never routes by price."""
    return np.where(steps["price_s"].any(), steps["price_s"], np.nan)


def _ttft(steps: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return steps["ttft_sum_s"] / steps["first_tokens"]


def _busy(title: str, unit: str, signal: str, caption: str) -> Quantity:
    return Quantity(title, unit, caption, _signal(signal, 100.0), scale="share", smooth=True)


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "Arrivals",
        "requests per second",
        "The same for every policy: common random numbers. Watch what follows a burst in the other panels.",
        lambda steps: steps["arrived"] / steps["interval_s"],
        smooth=True,
    ),
    Quantity(
        "Mean TTFT",
        "s (log)",
        "Of the requests whose first token came then: a queue shows here some minutes after it began.",
        _ttft,
        scale="log",
        weight="first_tokens",
    ),
    Quantity(
        "Routing threshold t",
        "uncached tokens (log)",
        "Requests longer than t go remote. No line: t is 0 (all remote) or infinite, or the policy routes by price.",
        _threshold,
        scale="log",
        knob=True,
    ),
    Quantity(
        "Price β",
        "s",
        "Requests go remote where they are done sooner by more than β. Only of policies that route by price.",
        _price,
        scale="plain",
        knob=True,
    ),
    Quantity(
        "Local prefill instances N_p",
        "instances",
        "The long timescale: each step is a role conversion. It pays to move before a queue builds up.",
        _signal("prefill_nodes"),
        knob=True,
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


def panel(quantity: Quantity) -> Panel:
    """The panel of a quantity, without lines: its axes, its title and what to see."""
    y: dict[str, Any] = {"title": {"text": quantity.unit}}
    if quantity.scale == "log":
        y |= {"type": "log", **log_ticks(1e-3, 1e7)}
    elif quantity.scale == "share":
        y |= {"range": [0, 105]}
    elif quantity.scale == "count":
        y |= {"rangemode": "tozero"}
    chart = Chart(quantity.title, quantity.caption, aligned(figure([], {"title": {"text": "time, minutes"}}, y)))
    digits = 4 if quantity.knob else MEASURED_DIGITS
    hover = f"%{{x:.1f}} min: %{{y:.{digits}~g}} {quantity.unit.removesuffix(' (log)')}"
    return Panel(chart, hover, "hv" if quantity.knob else "linear", RESOLUTIONS.index(quantity.points))


def minutes(timeline: np.ndarray, points: int) -> Values:
    """The times of what :func:`values` gives, at most ``points``."""
    return rounded(_averaged(timeline["time_s"] / 60.0, timeline["interval_s"], points))


def values(quantity: Quantity, timeline: np.ndarray) -> Values | None:
    """A line's values: averages over blocks of control steps, of a knob the last of each; ``None`` without any."""
    steps = quantity.read(timeline)
    if not np.isfinite(steps).any():
        return None
    if quantity.knob:
        return rounded(_last(steps, quantity.points))
    return rounded(_averaged(steps, timeline[quantity.weight], quantity.points), MEASURED_DIGITS)


def limits(timeline: np.ndarray) -> dict[int, Values]:
    """The dotted lines, by the number of their quantity."""
    return {i: rounded(_last(timeline[q.limit], q.points)) for i, q in enumerate(QUANTITIES) if q.limit}


def _last(steps: np.ndarray, points: int) -> np.ndarray:
    return _blocks(steps, points, mode="edge")[:, -1]


def _averaged(steps: np.ndarray, weights: np.ndarray, points: int) -> np.ndarray:
    """Weighted means of what is known in each block."""
    known = np.isfinite(steps) & (weights > 0)
    weights = np.where(known, weights, 0.0)
    sums, of = (_blocks(one, points).sum(axis=1) for one in (np.where(known, steps, 0.0) * weights, weights))
    with np.errstate(invalid="ignore"):
        means: np.ndarray = sums / of
    return means


def _blocks(steps: np.ndarray, points: int, **padding: Any) -> np.ndarray:
    """Control steps in at most ``points`` blocks of one length, the last filled up: by 0, or as ``padding`` says."""
    size = math.ceil(len(steps) / points)
    return np.pad(steps, (0, -len(steps) % size), **padding).reshape(-1, size)
