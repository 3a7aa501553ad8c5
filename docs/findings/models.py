"""Dense against hybrid models: what the link must carry, and what crossing gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from docs.findings.laboratory import HOMOGENEOUS, Laboratory, case, estimate
from docs.findings.markdown import gain, simulated, table
from docs.findings.results import Found
from docs.line_chart import line_chart
from prfaas_env.attention import ARCHITECTURES, GroupedQuery
from prfaas_env.planner.inputs import Question
from prfaas_env.theory.plan import Plan

__all__ = ["NAME", "closed_form", "picture", "section", "simulate"]

NAME = "models"
PAPER_GBPS, NO_LIMIT_GBPS = 100.0, 1e9
LINKS_GBPS = np.geomspace(1.0, 1000.0, 25)


def closed_form() -> dict[str, Any]:
    """Of each model the gain over 12 local instances alone at every capacity, and what its link carries."""
    asked = case()
    assert asked.deployment.remote is not None
    return {
        "link_full_instances": PAPER_GBPS / asked.plan.egress_gbps * asked.deployment.remote.instances,
        "link_gbps": LINKS_GBPS.tolist(),
        "models": {model: _model(model) for model in ARCHITECTURES},
    }


def _model(model: str) -> dict[str, Any]:
    alone = case(HOMOGENEOUS, model).plan.lambda_max_rps
    asked = case(model=model)
    free, paper = _linked(asked, NO_LIMIT_GBPS), _linked(asked, PAPER_GBPS)
    gains = [_linked(asked, gbps).lambda_max_rps / alone for gbps in LINKS_GBPS.tolist()]
    return {
        "dense": all(type(group.attention) is GroupedQuery for group in ARCHITECTURES[model].groups),
        "homogeneous_rps": alone,
        "paper_link_rps": paper.lambda_max_rps,
        "free_egress_gbps": free.egress_gbps,
        "free_gain": free.lambda_max_rps / alone,
        "paper_link_gain": paper.lambda_max_rps / alone,
        "break_even_gbps": float(np.exp(np.interp(1.0, gains, np.log(LINKS_GBPS)))),  # gains rise with capacity
        "gains": gains,
    }


def _linked(asked: Question, gbps: float) -> Plan:
    """The plan with another capacity of the link."""
    deployment = asked.deployment
    assert deployment.link is not None
    link = replace(deployment.link, capacity_gbps=gbps)
    return asked.plan_of(replace(deployment, link=link), asked.workload)


def simulate(lab: Laboratory) -> dict[str, Any]:
    """The rate that each model sustains with the paper's link and without a remote cluster."""
    found = {}
    for model in ARCHITECTURES:
        crossing = lab.sustained(f"{model}, PrfaaS-PD", case(model=model))
        alone = lab.sustained(f"{model}, homogeneous", case(HOMOGENEOUS, model))
        found[model] = {"rps": estimate(crossing), "gain": estimate(crossing, alone)}
    return found


def section(found: Found) -> str:
    closed, simulation = found.closed_form, found.simulated
    models = closed["models"]
    dense = {name: one for name, one in models.items() if one["dense"]}
    hybrid = {name: one for name, one in models.items() if not one["dense"]}
    header = (
        "model",
        "attention",
        "egress without limit, Gbps",
        "gain without limit",
        "gain at 100 Gbps",
        "simulated gain at 100 Gbps",
        "breaks even at, Gbps",
    )
    rows = [
        (
            name,
            "dense" if one["dense"] else "hybrid",
            f"{one['free_egress_gbps']:.1f}",
            f"{one['free_gain']:.2f}",
            f"{one['paper_link_gain']:.2f}",
            simulated(simulation[name]["gain"], 3),
            f"{one['break_even_gbps']:.1f}",
        )
        for name, one in models.items()
    ]
    needs = [one["free_egress_gbps"] for one in hybrid.values()]
    wants = [one["free_egress_gbps"] for one in dense.values()]
    gains = [one["paper_link_gain"] for one in hybrid.values()]
    breaks = sorted(one["break_even_gbps"] for one in dense.values())
    lost = [f"{name} {gain(one['paper_link_gain'])} of {gain(one['free_gain'])}" for name, one in dense.items()]
    return "\n".join(
        [
            f"**Answer.** For hybrid models a link of 100 Gbps is no limit: they send {min(needs):.0f} to "
            f"{max(needs):.0f} Gbps and gain {gain(min(gains))} to {gain(max(gains))} over 12 × 8×H20; the dense ones "
            f"would send {min(wants):.0f} and {max(wants):.0f} Gbps, and of what an unlimited link would gain them "
            f"they keep at 100 Gbps: {', '.join(lost)}.",
            "",
            "**Confirmed:** that hybrid attention is what lets KV cache cross data centres over an ordinary line. Not "
            "confirmed is that dense models cannot: t rises until the link carries what lies above it, and something "
            f"is gained above {breaks[0]:.0f} to {breaks[1]:.0f} Gbps. Below the last column the four H200 instances "
            "are worth less than four of H20 would be.",
            "",
            "**Contradicted:** that KV compressed ten times would let N_prfaas grow “from 4 to about 30” on the same "
            "link (a secondary write-up on PrfaaS). At the paper's t, 100 Gbps carry what "
            f"{closed['link_full_instances']:.0f} instances send without any compression.",
            "",
            table(header, rows),
            "*Gain*: Λ_max over that of 12 local instances with the same model. *Simulated*: the rates that both keep "
            "up with when offered 2 % more. Times on H20 are assumed for all but the 1T model, and decode is "
            "taken to be the same for all ([models](models.md)).",
        ]
    )


def picture(found: Found) -> str:
    """Gain over homogeneous PD, over link capacity."""
    closed = found.closed_form
    links = closed["link_gbps"]
    curves = {name: (links, one["gains"]) for name, one in closed["models"].items()}
    ticks = {1.0: "1", 3.0: "3", 10.0: "10", 30.0: "30", 100.0: "100", 300.0: "300", 1000.0: "1000"}
    heights = {y / 10: f"{y / 10:.1f}" for y in range(6, 19, 2)}
    return line_chart(curves, "link capacity, Gbps", "Λ_max relative to homogeneous PD", ticks, heights)
