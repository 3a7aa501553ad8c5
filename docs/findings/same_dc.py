"""The missing baseline: length routing with both GPU types in one data centre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.findings.laboratory import (
    HOMOGENEOUS,
    NAIVE,
    PRFAAS,
    SAME_DC,
    Laboratory,
    case,
    estimate,
    mean_s,
    p99_s,
)
from docs.findings.markdown import gain, percent, simulated, table
from docs.findings.results import Found
from docs.interval_chart import interval_chart
from prfaas_env.planner.cost import equal_cost
from prfaas_env.planner.paper import TABLE_6

__all__ = ["NAME", "closed_form", "picture", "section", "simulate"]

NAME = "same-dc"
MODELS = ("hybrid-1t", "minimax-m2.5", "qwen3-235b")
LINKS_GBPS = (100.0, 25.0, 13.0, 10.0)
STEPS = {
    "12 × H20": HOMOGENEOUS,
    "4 × H200 prefill, 8 × H20 decode": NAIVE,
    "with length routing": SAME_DC,
    **{f"across {gbps:g} Gbps": f"{gbps:g} Gbps" for gbps in LINKS_GBPS},
}
EGRESS_USD_PER_GB = (0.0, 0.005, 0.01, 0.02, 0.05)
FABRIC_GBPS = 3200.0  # that of the deployment same-dc-heterogeneous, for naive heterogeneous PD in one place
LOAD = 0.8  # of Λ_max within one data centre


def closed_form() -> dict[str, Any]:
    return {"rates": {model: _rates(model) for model in MODELS}, "premium_usd_per_hour": _premiums()}


def _rates(model: str) -> dict[str, float]:
    """Λ_max, a row a step from homogeneous to crossing."""
    inside = {name: case(name, model).plan.lambda_max_rps for name in (HOMOGENEOUS, SAME_DC)}
    inside[NAIVE] = case(NAIVE, model, link_gbps=FABRIC_GBPS).plan.lambda_max_rps
    return inside | {f"{gbps:g} Gbps": case(model=model, link_gbps=gbps).plan.lambda_max_rps for gbps in LINKS_GBPS}


def _premiums() -> dict[str, float]:
    """By egress price: how much dearer a remote instance may be inside the local data centre before crossing pays."""
    found = {}
    for egress in EGRESS_USD_PER_GB:
        costs = equal_cost(case(prices=[f"egress={egress}"]))
        assert costs is not None
        found[f"{egress:g}"] = costs.same_dc_premium_usd_per_hour
    return found


def simulate(lab: Laboratory) -> dict[str, Any]:
    """Of the 1T model: sustained rates, and TTFT at one offered rate, in pairs with the same data centre."""
    inside = case(SAME_DC)
    rate_rps = LOAD * inside.plan.lambda_max_rps
    measures = {"mean": mean_s, "p99": p99_s}
    base = lab.planned("same data centre", inside, rate_rps, measures)
    base_rps = lab.sustained("same data centre", inside)
    found = {SAME_DC: _estimates(base, base, base_rps, base_rps)}
    for gbps in LINKS_GBPS:
        label, asked = f"{gbps:g} Gbps", case(PRFAAS, link_gbps=gbps)
        ttft_s = lab.planned(label, asked, rate_rps, measures)
        found[label] = _estimates(ttft_s, base, lab.sustained(label, asked), base_rps)
    alone = lab.sustained("homogeneous", case(HOMOGENEOUS))
    found[HOMOGENEOUS] = {"rps": estimate(alone), "rps_ratio": estimate(alone, base_rps)}
    return found


def _estimates(ttft_s: Mapping[str, Any], base: Mapping[str, Any], rps: Any, base_rps: Any) -> dict[str, Any]:
    return {
        "rps": estimate(rps),
        "rps_ratio": estimate(rps, base_rps),
        **{f"ttft_{name}_s": estimate(values) for name, values in ttft_s.items()},
        **{f"ttft_{name}_ratio": estimate(values, base[name]) for name, values in ttft_s.items()},
    }


def section(found: Found) -> str:
    closed, simulation = found.closed_form, found.simulated
    rates, ours = closed["rates"], closed["rates"]["hybrid-1t"]
    alone, naive, routed = (ours[name] for name in (HOMOGENEOUS, NAIVE, SAME_DC))
    crossing = ours["100 Gbps"]
    dense = rates["minimax-m2.5"]
    paper_gain = TABLE_6[PRFAAS]["lambda_max_rps"] / TABLE_6[HOMOGENEOUS]["lambda_max_rps"]
    paper, slow = simulation["100 Gbps"], simulation["10 Gbps"]
    return "\n".join(
        [
            f"**Answer.** Of the {gain(crossing / alone)} over homogeneous PD, {gain(naive / alone)} come from having "
            f"H200 at all and {gain(routed / naive)} on top of it from routing by length; crossing data centres adds "
            f"nothing to the rate ({gain(crossing / routed)}). It costs {extra(paper)} of mean TTFT at 100 Gbps, "
            f"{extra(simulation['13 Gbps'])} at 13 Gbps, and {extra(slow)} at 10 Gbps, which no longer carry what the "
            "four instances send.",
            "",
            f"**Qualified:** the paper compares with H20 alone ({gain(paper_gain)}) and with H200 that prefill "
            "everything, so that its gain mixes hardware, routing and crossing. Crossing makes nothing faster: it is "
            "what one does where H200 cannot be had beside the H20. Where it can, the same routing inside one data "
            "centre gives the same rate for the "
            f"hybrid model and {dense[SAME_DC] / dense['100 Gbps']:.2f} times that of 100 Gbps for the dense "
            "MiniMax-M2.5. Where it cannot (power, export, stock), homogeneous PD is the only baseline left and the "
            f"whole {gain(crossing / alone)} are owed to the link.",
            "",
            "Λ_max in req/s, closed form; the first three in one data centre:",
            "",
            table(
                ("step", *MODELS),
                [(name, *(f"{rates[model][key]:.2f}" for model in MODELS)) for name, key in STEPS.items()],
            ),
            f"Simulated, 1T model; TTFT at {LOAD * routed:.2f} req/s ({LOAD:g} of Λ_max), ratios to the same "
            "data centre on the same requests:",
            "",
            table(
                ("", "sustained, req/s", "mean TTFT, s", "P99 of TTFT, s", "mean, ratio", "P99, ratio"),
                [
                    (
                        name,
                        simulated(one["rps"]),
                        *(
                            simulated(one[key], digits) if key in one else "–"
                            for key, digits in (
                                ("ttft_mean_s", 2),
                                ("ttft_p99_s", 1),
                                ("ttft_mean_ratio", 3),
                                ("ttft_p99_ratio", 3),
                            )
                        ),
                    )
                    for name, one in simulation.items()
                ],
            ),
            "What an H200 instance may cost more inside the local data centre, in USD/h, before crossing is the "
            "cheaper way (1T model, Λ_max, list price 28 USD/h; the line itself is not in it):",
            "",
            table(
                ("egress, USD/GB", *closed["premium_usd_per_hour"]),
                [("premium, USD/h", *(f"{usd:.1f}" for usd in closed["premium_usd_per_hour"].values()))],
            ),
        ]
    )


def extra(found: Mapping[str, Mapping[str, float]]) -> str:
    """What mean TTFT is more than inside one data centre."""
    return percent(found["ttft_mean_ratio"]["value"] - 1.0, 1)


def picture(found: Found) -> str:
    """Λ_max of every step relative to homogeneous PD, a group a model."""
    groups = {}
    for model, rates in found.closed_form["rates"].items():
        ratios = {name: rates[key] / rates[HOMOGENEOUS] for name, key in STEPS.items()}
        groups[model] = {name: {"value": x, "low": x, "high": x} for name, x in ratios.items()}
    return interval_chart(groups, "Λ_max relative to homogeneous PD", [x / 10 for x in range(6, 19, 2)])
