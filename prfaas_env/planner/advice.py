"""Advice in the four ways of the literature: request lengths, traffic, the model's KV weight, infrastructure.

Every judgement is one number against one threshold, and :data:`THRESHOLDS` is where thresholds and their reasons are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from prfaas_env.planner.cost import EqualCost, RemoteSize
from prfaas_env.planner.inputs import EDGE_SHARE, Question
from prfaas_env.planner.prices import unpriced
from prfaas_env.planner.traffic import Traffic
from prfaas_env.theory import closed_form as eq
from prfaas_env.theory.plan import GIGA

__all__ = ["THRESHOLDS", "Advice", "Threshold", "Verdict", "advice", "verdict"]

Way = Literal["request lengths", "traffic pattern", "KV weight", "infrastructure"]


AT_EQUAL_COST = "Λ_max over homogeneous PD, equal cost"


@dataclass(frozen=True)
class Threshold:
    """Where a number turns: favourable at or above ``value`` (``at_least``), or at or below it. ``reason``: why there.

    ``value`` of ``None`` is reckoned from the prices.
    """

    value: float | None
    at_least: bool
    reason: str


THRESHOLDS: Mapping[str, Threshold] = {
    "P(L > t), the share that crosses": Threshold(
        0.05, True, "with next to nothing on one side there is nothing to route (judgement); 49.6 % in the paper"
    ),
    "P(L ≤ t), the share that stays": Threshold(0.05, True, "the same on the other side"),
    "index of dispersion over 1 min": Threshold(
        3.0, False, "waits grow about as (index + 1) / 2 (Kingman): at 3 they are twice those of Poisson arrivals"
    ),
    "capacity that adapting t and N_p saves": Threshold(
        0.05, False, "a window of 400 requests or more tells its load to about 5 %; less is not to be followed"
    ),
    "N_prfaas · Φ_kv over the link": Threshold(
        0.8,
        False,
        "the paper's scheduler backs off near congestion, about 80 % in a write-up; on a shared line reckon with 20 %",
    ),
    "local over remote prefill time": Threshold(
        None, True, "price of a remote instance, its egress included, over a local one: below it a USD does less there"
    ),
    "transfer rate over Φ_kv": Threshold(
        1.0, True, "below 1 the KV of a single request comes later than its prefill ends, even on an empty link"
    ),
    AT_EQUAL_COST: Threshold(
        1.05, True, "the closed form is within 2 % of the paper's Table 6, its two forms within 3 % of each other"
    ),
}


@dataclass(frozen=True)
class Advice:
    """One judgement. ``favourable`` is ``None``, and so is ``value``, where the input does not state it."""

    way: Way
    quantity: str
    value: float | None
    threshold: float | None
    at_least: bool
    favourable: bool | None
    reason: str


@dataclass(frozen=True)
class Verdict:
    """``routing``: ``"static"``, ``"adaptive"`` or ``"not stated"``; ``crossing``: worth it, or ``None`` if not to be
    told; each with its sentence."""

    routing: Literal["static", "adaptive", "not stated"]
    routing_sentence: str
    crossing: bool | None
    crossing_sentence: str


def _judged(way: Way, quantity: str, value: float | None, threshold: float | None = None) -> Advice:
    rule = THRESHOLDS[quantity]
    limit = rule.value if rule.value is not None else threshold
    good = None if value is None or limit is None else (value >= limit if rule.at_least else value <= limit)
    return Advice(way, quantity, value, limit, rule.at_least, good, rule.reason)


def advice(asked: Question, of_trace: Traffic | None, costs: EqualCost | None) -> tuple[Advice, ...]:
    """All judgements; without a remote cluster those of the traffic alone."""
    pattern = (
        _judged("traffic pattern", "index of dispersion over 1 min", of_trace.dispersion_1min if of_trace else None),
        _judged(
            "traffic pattern", "capacity that adapting t and N_p saves", of_trace.adapting_gain if of_trace else None
        ),
    )
    deployment, share = asked.deployment, asked.plan.offload_fraction
    if deployment.remote is None or deployment.link is None:
        return pattern
    local_s, remote_s, phi_bps = _long_requests(asked)
    rate_bps = GIGA * min(deployment.link.capacity_gbps, deployment.link.flow_cap_gbps)
    egress_usd = 3600.0 * phi_bps / 8e9 * deployment.link.price_usd_per_gb  # an hour, of an instance that never idles
    remote_usd = deployment.remote.profile.price_usd_per_hour + egress_usd
    ratio = None if unpriced(deployment) else remote_usd / deployment.local.profile.price_usd_per_hour
    lengths = (
        _judged("request lengths", "P(L > t), the share that crosses", share),
        _judged("request lengths", "P(L ≤ t), the share that stays", 1.0 - share),
    )
    demand = deployment.remote.instances * phi_bps / (GIGA * deployment.link.capacity_gbps)
    return (
        *(lengths if deployment.route_pinned is None else ()),
        *pattern,
        _judged("KV weight", "N_prfaas · Φ_kv over the link", demand),
        _judged("infrastructure", "local over remote prefill time", local_s / remote_s, ratio),
        _judged("infrastructure", "transfer rate over Φ_kv", rate_bps / phi_bps),
        _judged("infrastructure", AT_EQUAL_COST, costs.ratio_homogeneous if costs else None),
    )


def _long_requests(asked: Question) -> tuple[float, float, float]:
    """Mean prefill time, local and remote, and Φ_kv in bit/s, of the requests that cross (of all, if none does)."""
    model = asked.model
    cut = np.array([asked.cut if asked.plan.offload_fraction > EDGE_SHARE else 0.0])
    on_local = eq.stage_loads(model.points.weights, model.local_s, model.local_s, model.kv_bits)
    at, local_s = eq.loads_at(model.loads, cut), float(eq.loads_at(on_local, cut)[eq.REMOTE, 0])
    crossing, remote_s = 1.0 - float(at[eq.KEPT, 0]), float(at[eq.REMOTE, 0])
    return local_s / crossing, remote_s / crossing, float(eq.kv_throughput_bps(at[eq.SENT, 0], remote_s))


def verdict(
    asked: Question, judged: tuple[Advice, ...], costs: EqualCost | None, sizes: tuple[RemoteSize, ...]
) -> Verdict:
    """Static or adaptive t, and whether crossing is worth it, each in one sentence with the number that decided."""
    routing, why = _routing({one.quantity: one for one in judged})
    crossing, sentence = _crossing(asked, costs, sizes)
    return Verdict(routing, why, crossing, sentence)


def _routing(judged: Mapping[str, Advice]) -> tuple[Literal["static", "adaptive", "not stated"], str]:
    drift = judged["capacity that adapting t and N_p saves"]
    bursts = judged["index of dispersion over 1 min"]
    if drift.value is None:
        return "not stated", (
            "Static or adaptive t: not stated. For a steady mix at a steady load static is optimal; give a trace of "
            "some hours (--trace) to see whether yours is."
        )
    saves = f"adapting t and N_p to each window of the trace saves {drift.value:.1%} of capacity"
    if drift.favourable:
        burst = (
            bursts.favourable is False and f"; its bursts (dispersion {bursts.value:.1f}) need headroom, not a new t"
        )
        return "static", f"Static t: {saves}, no more than the {drift.threshold:.0%} that can be told from chance" + (
            f"{burst or ''}."
        )
    return "adaptive", f"Adaptive t: {saves}, more than {drift.threshold:.0%}; compare policies on it by evaluate.py."


def _crossing(asked: Question, costs: EqualCost | None, sizes: tuple[RemoteSize, ...]) -> tuple[bool | None, str]:
    if asked.deployment.remote is None:
        return None, "Crossing: this deployment has no remote cluster; plan one that has (--deployment) to compare."
    if asked.plan.offload_fraction <= EDGE_SHARE:
        return False, "Crossing is not worth it: at the optimum nothing is sent; keep everything local."
    if costs is None:
        return None, "Crossing: not to be told without prices of all instances (--prices)."
    rule = THRESHOLDS[AT_EQUAL_COST]
    assert rule.value is not None
    worth = costs.ratio_homogeneous >= rule.value
    against = (
        f"at equal cost ({costs.usd_per_hour:,.0f} USD/h) its rate is {costs.ratio_homogeneous - 1.0:+.1%} against "
        f"that of {costs.homogeneous_instances:.1f} local instances alone (asked: {rule.value - 1.0:+.0%})"
    )
    best = max(sizes, key=lambda one: one.ratio_homogeneous)
    there = f"with N_prfaas = {best.n_prfaas}"
    if not worth:
        better = f"; {there} it is, {best.ratio_homogeneous - 1.0:+.1%}"
        other = better if best.ratio_homogeneous >= rule.value else "; nor is it with fewer or more remote instances"
        return False, f"Crossing is not worth it with N_prfaas = {asked.plan.n_prfaas}: {against}{other}."
    premium = costs.same_dc_premium_usd_per_hour
    inside = (
        f"where the remote instances cannot be had in the local data centre, or cost {premium:,.2f} USD/h more there"
        if premium > 0.005
        else "where the remote instances cannot be had in the local data centre at their price"
    )
    more = f"; {there} {best.ratio_homogeneous - 1.0:+.1%}" if best.n_prfaas != asked.plan.n_prfaas else ""
    return True, f"Crossing is worth it {inside}: {against}{more}."
