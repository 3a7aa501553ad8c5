"""What is shown of a run, in whichever form: the figures of the last control interval, and their course so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from prfaas_env.simulator.signals import SIGNAL

if TYPE_CHECKING:
    from prfaas_env.environment.core import ControlLoop

__all__ = ["Course", "Gauge", "View", "view"]


@dataclass(frozen=True)
class Gauge:
    """A part of the system: the share of it that was busy over the interval, and the rest in words."""

    name: str
    share: float
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Course:
    """A figure over the intervals so far: times in seconds and values, NaN where there was none; both (steps,)."""

    name: str
    times_s: np.ndarray
    values: np.ndarray

    @property
    def last(self) -> str:
        """The latest value known, short; a dash before the first."""
        known = self.values[np.isfinite(self.values)]
        return f"{known[-1]:.4g}" if len(known) else "-"


@dataclass(frozen=True, eq=False)
class View:
    """Heading, clock, named figures, gauges and courses; before the first interval only heading and clock."""

    heading: str
    time_s: float
    horizon_s: float
    figures: tuple[tuple[str, tuple[str, ...]], ...] = ()
    gauges: tuple[Gauge, ...] = ()
    courses: tuple[Course, ...] = ()

    @property
    def clock(self) -> str:
        """Simulated time of all there is."""
        return f"{self.time_s:,.0f} / {self.horizon_s:,.0f} s"


def view(loop: ControlLoop) -> View:
    """What there is to show after the last control interval. Raises ``RuntimeError`` before the first reset."""
    heading = f"{loop.scenario.name} on {loop.scenario.deployment.name}"
    timeline = loop.timeline
    if len(timeline) == 0:
        return View(heading, 0.0, loop.scenario.horizon_s)
    now = {name: float(timeline[-1, index]) for name, index in SIGNAL.items()}
    return View(
        heading, now["time_s"], loop.scenario.horizon_s, _figures(loop, now), _gauges(loop, now), _courses(timeline)
    )


def _figures(loop: ControlLoop, now: dict[str, float]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    control, advice = loop.control, loop.advice
    arrivals = now["arrived"] / now["interval_s"]
    load = f"{arrivals / advice.lambda_max_rps:.2f}" if advice.lambda_max_rps else "-"
    ttft = f"{now['ttft_sum_s'] / now['first_tokens']:.2f} s" if now["first_tokens"] else "-"
    law = f"price {control.price_s:+.2f} s" if control.law == "price" else f"t {_tokens(control.threshold_tokens)}"
    return (
        ("arrivals", (f"{arrivals:.2f} /s", f"load {load}", f"waiting {now['waiting']:.0f}", f"TTFT {ttft}")),
        ("routing", (law, f"(advised t* {_tokens(advice.threshold_tokens)})")),
        (
            "split",
            (
                f"N_p {now['prefill_nodes']:.0f}",
                f"target {now['target_prefill_nodes']:.0f}",
                f"advised {advice.n_prefill}",
                f"N_d {now['decode_nodes']:.0f}",
                f"converting {now['converting_nodes']:.0f}",
            ),
        ),
    )


def _gauges(loop: ControlLoop, now: dict[str, float]) -> tuple[Gauge, ...]:
    sent_share = now["link_sent_bytes"] / now["link_capacity_bytes"] if now["link_capacity_bytes"] else 0.0
    slots = now["decode_nodes"] * loop.scenario.deployment.local.profile.decode.slots
    backlog = f"backlog {now['link_backlog_bytes'] / 1e9:.2f} GB"
    return (
        _pool("remote", now),
        _pool("local", now),
        Gauge("link", sent_share, (backlog, f"capacity {now['link_capacity_gbps']:.0f} Gbps")),
        Gauge(
            "decode",
            now["decode_busy_share"],
            (f"queue {now['decode_queue']:4.0f}", f"active {now['decode_active']:.0f} / {slots:.0f}"),
        ),
    )


def _pool(name: str, now: dict[str, float]) -> Gauge:
    queue, wait = f"queue {now[f'{name}_queue']:4.0f}", f"wait {now[f'{name}_expected_wait_s']:6.1f} s"
    return Gauge(name, now[f"{name}_busy_share"], (queue, wait))


def _courses(timeline: np.ndarray) -> tuple[Course, ...]:
    def signal(name: str) -> np.ndarray:
        return timeline[:, SIGNAL[name]]

    first_tokens = signal("first_tokens")
    ttft_s = np.divide(signal("ttft_sum_s"), first_tokens, out=np.full(len(timeline), math.nan), where=first_tokens > 0)
    values = {
        "TTFT, s": ttft_s,
        "arrivals, /s": signal("arrived") / signal("interval_s"),
        "waiting": signal("waiting"),
        "sent remote, %": 100.0 * _share(signal("routed_remote"), signal("arrived")),
        "N_p": signal("prefill_nodes"),
    }
    return tuple(Course(name, signal("time_s"), course) for name, course in values.items())


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(whole), math.nan), where=whole > 0)


def _tokens(tokens: float) -> str:
    return "all local" if math.isinf(tokens) else f"{tokens:,.0f} tokens"
