"""The page of a sweep: its curves, then the advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prfaas_env.pages.figures import PALETTE, Chart, figure, line, log_axis, number, reference
from prfaas_env.pages.page import Page
from prfaas_env.planner.report import Report
from prfaas_env.planner.sweep import LinkSweep, PriceSweep, ShareSweep, SplitSweep, Sweep
from prfaas_env.planner.words import judgement, quantity

__all__ = ["charts", "to_html"]

LAMBDA_MAX, REMOTE, LOCAL, DECODE, GAIN = "Λ_max", "remote prefill", "local prefill", "decode", "equal-cost ratio"
SERIES = dict(zip((LAMBDA_MAX, REMOTE, LOCAL, DECODE, GAIN), PALETTE, strict=False))
RATE = {"title": {"text": "requests/s"}, "rangemode": "tozero"}


def charts(report: Report, swept: Sweep) -> list[Chart]:
    """The curves that the deployment has. Needs plotly (extra ``report``)."""
    return list(_charts(report, swept))


def _charts(report: Report, swept: Sweep) -> Iterator[Chart]:
    if swept.split:
        yield _split(report, swept.split)
    if swept.share:
        yield _share(report, swept.share)
    if swept.link:
        yield _link(report, swept.link)
    if swept.price:
        yield _price(report, swept.price)


def _split(report: Report, swept: SplitSweep) -> Chart:
    found = report.asked.plan
    trace = {
        "type": "heatmap",
        "meta": LAMBDA_MAX,
        "x": np.array(swept.threshold_tokens, dtype=np.float32),
        "y": swept.n_prefill,
        "z": np.array(swept.lambda_max_rps, dtype=np.float32),
        "colorscale": "Viridis",
        "colorbar": {"title": {"text": "requests/s"}, "thickness": 12},
        "hovertemplate": "t = %{x:,.0f} tokens, N_p = %{y}<br>Λ_max %{z:.3~g} requests/s<extra></extra>",
    }
    words = (
        f"Dotted: the planned t, {found.threshold_tokens or 0:,.0f} tokens; the plan has N_p = {found.n_prefill} and "
        f"sustains {number(found.lambda_max_rps)} requests/s."
    )
    axis = log_axis("t, tokens (log)", swept.threshold_tokens)
    rows: dict[str, Any] = {"title": {"text": "N_p"}, "showgrid": False}
    vertical = [found.threshold_tokens] if found.threshold_tokens else []
    return Chart("Λ_max over t and N_p", words, figure([trace], axis, rows, vertical))


def _share(report: Report, swept: ShareSweep) -> Chart:
    found = report.asked.plan
    x = 100.0 * np.array(swept.offload_fraction)
    top = 2.0 * max(swept.lambda_max_rps)
    curves = {
        REMOTE: swept.remote_rps,
        LOCAL: swept.local_rps,
        DECODE: [swept.decode_rps] * len(x),
        LAMBDA_MAX: swept.lambda_max_rps,
    }
    traces = [
        line(name, x, np.array(y), SERIES, "%{x:.1f} % remote: %{y:.3~g} requests/s") for name, y in curves.items()
    ]
    words = (
        f"What each stage sustains of the whole traffic, at N_p = {found.n_prefill}: best is where remote and local "
        f"prefill cross (Eq. 7). Dotted: the plan, {found.offload_fraction:.1%}."
    )
    axis = {"title": {"text": "P(L > t), %"}, "range": [0, 100]}
    shown = figure(traces, axis, {**RATE, "range": [0, top]}, [100.0 * found.offload_fraction])
    return Chart("Λ_max over the share that crosses", words, shown)


def _link(report: Report, swept: LinkSweep) -> Chart:
    x, link = np.array(swept.link_gbps), report.asked.deployment.link
    traces = [line(LAMBDA_MAX, x, np.array(swept.lambda_max_rps), SERIES, "%{x:.3~g} Gbps: %{y:.3~g} requests/s")]
    words = "The best t and N_p at every capacity. Dotted upright: the planned link."
    if costs := report.equal_cost:
        level = costs.homogeneous_lambda_max_rps
        traces.append(reference(x[[0, -1]], np.array([level, level]), "homogeneous PD: %{y:.3~g} requests/s"))
        words += " Dotted level: local instances alone, for the same money."
    shown = figure(traces, log_axis("link, Gbps (log)", swept.link_gbps), RATE, [link.capacity_gbps] if link else [])
    return Chart("Λ_max over the link", words, shown)


def _price(report: Report, swept: PriceSweep) -> Chart:
    x, y = np.array(swept.price_ratio), np.array(swept.ratio_homogeneous)
    traces = [
        line(GAIN, x, y, SERIES, "price ratio %{x:.3~g}: %{y:.3~g}"),
        reference(x[[0, -1]], np.ones(2), "equal"),
    ]
    deployment = report.asked.deployment
    present = deployment.remote and (
        deployment.remote.profile.price_usd_per_hour / deployment.local.profile.price_usd_per_hour
    )
    words = (
        "Λ_max over that of local instances alone for the same money, by the price of a remote over a local instance. "
        f"Dotted upright: the present {number(present or 0)}."
    )
    axis = log_axis("price of a remote over a local instance (log)", swept.price_ratio)
    vertical = [present] if present else []
    return Chart(
        "Equal-cost ratio over prices", words, figure(traces, axis, {"title": {"text": "ratio of Λ_max"}}, vertical)
    )


def to_html(report: Report, swept: Sweep) -> str:
    """The page. Needs plotly (extra ``report``)."""
    shown = charts(report, swept)
    used = {trace.get("meta") for chart in shown for trace in chart.figure["data"]}
    asked, found = report.asked, report.asked.plan
    page = Page(
        f"A plan of {asked.deployment.name}",
        [report.verdict.crossing_sentence, report.verdict.routing_sentence, *report.notes],
        "What was planned",
        [
            ("Deployment", asked.deployment.name),
            ("Workload", asked.workload_name),
            ("Λ_max", f"{found.lambda_max_rps:.3f} requests/s"),
            ("t", f"{found.threshold_tokens:,.0f} tokens" if found.threshold_tokens is not None else "–"),
            ("N_p / N_d", f"{found.n_prefill or 0} / {found.n_decode}"),
            ("Form", asked.form),
        ],
        {name: colour for name, colour in SERIES.items() if name in used},
        "series",
    )
    page.heading("Sweeps")
    page.charts(shown)
    page.heading("Advice")
    page.table(
        ("number", "value", "", "threshold", "", "way"),
        [
            (
                one.quantity,
                quantity(one.value),
                "≥" if one.at_least else "≤",
                quantity(one.threshold),
                judgement(one),
                one.way,
            )
            for one in report.advice
        ],
    )
    for one in report.advice:
        page.text(f"{one.quantity}: {one.reason}.", quiet=True)
    return page.html()
