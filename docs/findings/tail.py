"""The tail behind the averages: mean and P99 of TTFT under load, and what ultra-long requests do to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from docs.findings.buckets import (
    BOUND_TOKENS,
    SCENARIO,
    TIMES,
    bucket_choices,
    large_fleet,
    shared_fleet,
    ultra_long_share,
)
from docs.findings.laboratory import HOMOGENEOUS, NAIVE, PRFAAS, Laboratory, case, estimate, mean_s, p99_s
from docs.findings.markdown import percent, simulated, table
from docs.findings.results import Found
from docs.line_chart import line_chart
from prfaas_env.planner.inputs import Question
from prfaas_env.planner.loaded import LOADS, WARM_UP
from prfaas_env.planner.paper import TABLE_6
from prfaas_env.scenario import Scenario

__all__ = ["NAME", "closed_form", "picture", "section", "simulate"]

NAME = "tail"
DEPLOYMENTS = (PRFAAS, HOMOGENEOUS, NAIVE)
TTFT = {"mean": mean_s, "p99": p99_s}
RATES_RPS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.25)  # ticks of the picture
TAIL_LOADS = (0.5, 0.7)  # of Λ_max of the shared fleet; the second is the scenario's


def closed_form() -> dict[str, Any]:
    """TTFT in an empty system, and what the divided fleets sustain."""
    plans = {name: case(name).plan for name in DEPLOYMENTS}
    choices = bucket_choices()
    large, divided = large_fleet()
    return {
        "unloaded": {
            name: {
                "ttft_mean_s": found.ttft_mean_s,
                "ttft_p90_s": found.ttft_p90_s,
                "lambda_max_rps": found.lambda_max_rps,
            }
            for name, found in plans.items()
        },
        "ultra_long_share": ultra_long_share(),
        "p99_tokens": float(case().workload.lengths.quantile(0.99)),
        "shared_rps": shared_fleet().plan.lambda_max_rps,
        "buckets": {
            name: {"remote": one.remote, "local": one.local, "rps": one.sustained_rps} for name, one in choices.items()
        },
        "large": {
            "times": TIMES,
            "remote": divided.remote,
            "local": divided.local,
            "kept": divided.sustained_rps / large.plan.lambda_max_rps,
        },
    }


def simulate(lab: Laboratory) -> dict[str, Any]:
    homogeneous_rps = case(HOMOGENEOUS).plan.lambda_max_rps
    equal = {f"{load:g}": _compared(lab, load * homogeneous_rps) for load in LOADS}
    own = {f"{load:g}": {name: _own(lab, name, load) for name in DEPLOYMENTS} for load in LOADS}
    return {"equal": equal, "own": own, "ultra_long": {f"{load:g}": _ultra_long(lab, load) for load in TAIL_LOADS}}


def _compared(lab: Laboratory, rate_rps: float) -> dict[str, Any]:
    """All deployments on the same requests; ratios are to PrfaaS-PD."""
    runs = {name: lab.planned(name, case(name), rate_rps, TTFT) for name in DEPLOYMENTS}
    return {
        name: {key: estimate(of[key]) for key in TTFT}
        | {f"{key}_ratio": estimate(of[key], runs[PRFAAS][key]) for key in TTFT}
        for name, of in runs.items()
    }


def _own(lab: Laboratory, name: str, load: float) -> dict[str, Any]:
    """At a share of the deployment's own Λ_max."""
    asked = case(name)
    runs = lab.planned(name, asked, load * asked.plan.lambda_max_rps, TTFT)
    return {key: estimate(values) for key, values in runs.items()}


def _ultra_long(lab: Laboratory, load: float) -> dict[str, Any]:
    """TTFT of ordinary and of ultra-long requests, in one fleet and in two; only what sustains the rate."""
    asked, share = shared_fleet(), ultra_long_share()
    rate_rps = load * asked.plan.lambda_max_rps
    both = lab.planned(f"{SCENARIO}, shared", asked, rate_rps, {"ordinary": p99_ordinary_s, "ultra": p99_ultra_long_s})
    found = {"shared": {key: estimate(values) for key, values in both.items()}}
    for name, choice in bucket_choices().items():
        if choice.sustained_rps > rate_rps:
            found[name] = {
                "ordinary": _p99(lab, f"{SCENARIO}, {name}, ordinary", choice.ordinary, (1.0 - share) * rate_rps),
                "ultra": _p99(lab, f"{SCENARIO}, {name}, ultra-long", choice.ultra_long, share * rate_rps),
            }
    return found


def _p99(lab: Laboratory, label: str, asked: Question, rate_rps: float) -> dict[str, float]:
    return estimate(lab.planned(label, asked, rate_rps, {"p99": p99_s})["p99"])


def p99_ordinary_s(requests: np.ndarray, scenario: Scenario) -> float:
    return _p99_of(requests, scenario, requests["input_tokens"] <= BOUND_TOKENS)


def p99_ultra_long_s(requests: np.ndarray, scenario: Scenario) -> float:
    return _p99_of(requests, scenario, requests["input_tokens"] > BOUND_TOKENS)


def _p99_of(requests: np.ndarray, scenario: Scenario, which: np.ndarray) -> float:
    settled = requests[which & (requests["arrival_s"] >= WARM_UP * scenario.horizon_s)]
    return float(np.nanpercentile(settled["ttft_s"], 99))


def section(found: Found) -> str:
    closed, simulation = found.closed_form, found.simulated
    return "\n".join([*_under_load(closed, simulation), *_buckets(closed, simulation["ultra_long"])])


def _under_load(closed: Mapping[str, Any], simulation: Mapping[str, Any]) -> list[str]:
    unloaded, equal, own = closed["unloaded"], simulation["equal"], simulation["own"]
    paper = {name: TABLE_6[name] for name in DEPLOYMENTS}
    low, high = equal["0.5"], equal["0.95"]
    return [
        "**Answer.** At equal offered load PrfaaS-PD has the shortest tail: P99 of homogeneous PD is "
        f"{low[HOMOGENEOUS]['p99_ratio']['value']:.1f} to {high[HOMOGENEOUS]['p99_ratio']['value']:.1f} times its own, "
        f"that of naive heterogeneous PD {low[NAIVE]['p99_ratio']['value']:.2f} to "
        f"{high[NAIVE]['p99_ratio']['value']:.2f} times; but the naive mean is the better one "
        f"({low[NAIVE]['mean_ratio']['value']:.2f} of PrfaaS-PD's) until that design nears its limit "
        f"({high[NAIVE]['mean_ratio']['value']:.2f}). At equal shares of their own limits the naive "
        "design is no slower, in the mean or in P99: what PrfaaS-PD gains is rate.",
        "",
        f"**Confirmed,** and easily overlooked: unloaded, naive heterogeneous PD has the better mean "
        f"TTFT ({paper[NAIVE]['ttft_mean_s']} against {paper[PRFAAS]['ttft_mean_s']} s in Table 6; "
        f"{unloaded[NAIVE]['ttft_mean_s']:.2f} against {unloaded[PRFAAS]['ttft_mean_s']:.2f} s here): whatever is not "
        "sent is prefilled on the slower chip. **Missing in the paper** is queueing: its TTFT is that of an empty "
        "system. At 80 % of its own Λ_max PrfaaS-PD's mean is "
        f"{own['0.8'][PRFAAS]['mean']['value'] / unloaded[PRFAAS]['ttft_mean_s']:.1f} times that, at 95 % "
        f"{own['0.95'][PRFAAS]['mean']['value'] / unloaded[PRFAAS]['ttft_mean_s']:.1f} times, its P99 then "
        f"{own['0.95'][PRFAAS]['p99']['value']:.0f} s. **Contradicted:** a P99 of input length of about 200K (a "
        f"secondary write-up on PrfaaS); the paper's law, truncated at 128K, has {closed['p99_tokens']:,.0f} tokens.",
        "",
        "Mean and P99 of TTFT in s at one offered load, a share of Λ_max of the *homogeneous* cluster "
        f"({unloaded[HOMOGENEOUS]['lambda_max_rps']:.2f} req/s), all on the same requests; in the last columns ratios "
        "to PrfaaS-PD, in pairs:",
        "",
        table(
            ("load", "deployment", "mean", "P99", "mean, ratio", "P99, ratio"),
            [("empty", name, f"{one['ttft_mean_s']:.2f}", "–", "–", "–") for name, one in unloaded.items()]
            + [
                (
                    load,
                    name,
                    *(simulated(one[key]) for key in ("mean", "p99", "mean_ratio", "p99_ratio")),
                )
                for load, of in equal.items()
                for name, one in of.items()
            ],
        ),
        "At the same shares of *each one's own* Λ_max ("
        + ", ".join(f"{name} {one['lambda_max_rps']:.2f}" for name, one in unloaded.items())
        + " req/s), mean; P99:",
        "",
        table(
            ("load", *DEPLOYMENTS),
            [
                (load, *(f"{simulated(of[name]['mean'])}; {simulated(of[name]['p99'])}" for name in DEPLOYMENTS))
                for load, of in own.items()
            ],
        ),
    ]


def _buckets(closed: Mapping[str, Any], simulation: Mapping[str, Any]) -> list[str]:
    whole = {"remote": 0, "local": 0, "rps": closed["shared_rps"]}
    fleets = {"shared": whole, **closed["buckets"]}
    reserved = {"shared": "none"} | {
        name: f"{one['remote']} remote, {one['local']} local" for name, one in closed["buckets"].items()
    }
    large = closed["large"]
    best = max(one["rps"] for one in closed["buckets"].values())
    shared, one = (simulation["0.7"][name] for name in ("shared", "1 remote"))
    return [
        f"**A bucket for ultra-long requests.** In the scenario [`{SCENARIO}`](scenarios.md) "
        f"{percent(closed['ultra_long_share'], 1)} of the prompts are above 131,072 tokens. A deployment has one t and "
        "queues that serve in order of arrival, so a bucket is expressed as two deployments, each with t and N_p of "
        "its own plan and its part of the line: some instances serve ultra-long requests alone, the others the rest. "
        "No division helps both. With one remote instance and "
        f"{closed['buckets']['1 remote']['local']} local ones reserved P99 of the others falls from "
        f"{shared['ordinary']['value']:.1f} to {one['ordinary']['value']:.1f} s at load .7 and that of the ultra-long "
        f"rises from {shared['ultra']['value']:.0f} to {one['ultra']['value']:.0f} s, since some of them are left to "
        f"H20; and {percent(1.0 - best / closed['shared_rps'])} of the rate are lost at the least, since whole "
        f"instances do not fit so small a load. P99 of TTFT in s, loads as shares of {closed['shared_rps']:.2f} req/s:",
        "",
        table(
            (
                "reserved",
                "Λ_max, req/s",
                *(f"{which}, load {load}" for load in simulation for which in ("others", "ultra-long")),
            ),
            [
                (
                    reserved[name],
                    f"{fleet['rps']:.2f}",
                    *(
                        simulated(simulation[load][name][key], 1) if name in simulation[load] else "not sustained"
                        for load in simulation
                        for key in ("ordinary", "ultra")
                    ),
                )
                for name, fleet in fleets.items()
            ],
        ),
        f"Twelve instances are few. In a fleet {large['times']} times the size, by the closed form, reserving "
        f"{large['remote']} remote and {large['local']} local instances costs {percent(1.0 - large['kept'], 1)} of the "
        "rate.",
    ]


def picture(found: Found) -> str:
    """Mean and P99 over the request rate, each deployment at its own loads."""
    own, unloaded = found.simulated["own"], found.closed_form["unloaded"]
    curves = {}
    for key, label in (("p99", "P99"), ("mean", "mean")):
        for name in DEPLOYMENTS:
            rates = [float(load) * unloaded[name]["lambda_max_rps"] for load in own]
            curves[f"{name.partition('-')[0]}, {label}"] = (rates, [of[name][key]["value"] for of in own.values()])
    most = max(max(ys) for _, ys in curves.values())
    heights = {float(y): f"{y}" for y in range(0, int(most) + 10, 10)}
    return line_chart(curves, "request rate, req/s", "TTFT, s", {x: f"{x:g}" for x in RATES_RPS}, heights)
