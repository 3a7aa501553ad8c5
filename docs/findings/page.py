"""The page and its pictures, from results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.findings import drift, equal_cost, models, pipelining, same_dc, tail
from docs.findings.laboratory import HOMOGENEOUS, NAIVE, SAME_DC
from docs.findings.markdown import gain, wrapped
from docs.findings.results import found_of

__all__ = ["COMMAND", "MODULES", "findings_page", "pictures", "striking"]

COMMAND = "python -m docs.findings"
MODULES = (models, pipelining, equal_cost, tail, drift, same_dc)

TITLES = {
    models.NAME: ("Dense against hybrid models", "Gain over homogeneous PD over link capacity, a curve a model"),
    pipelining.NAME: ("Without layer-wise pipelining", "Sustained rate over link capacity, with and without"),
    equal_cost.NAME: ("At equal cost", "Gain at equal cost over the price ratio, a curve an egress price"),
    tail.NAME: ("The tail behind the averages", "Mean and P99 of TTFT over the request rate, by deployment"),
    drift.NAME: ("A fixed t against a re-solved one", "Mean TTFT of policies relative to static, by scenario"),
    same_dc.NAME: (
        "The missing baseline: one data centre",
        "Λ_max relative to homogeneous PD, step by step, of three models",
    ),
}

HEAD = f"""\
# Findings

<!-- Written by `{COMMAND}` from docs/results/findings.json; with --from-results from those that are there. -->

Six questions put to the paper (PrfaaS, arXiv:2604.15039v2), whose own figures come from feeding a profile into a
throughput model and not from a run. Each is asked of the same [closed form](closed-form.md), and of the
[simulator](model.md) wherever queueing matters. Simulated figures are means over seeds with 95 % intervals (bootstrap
over seeds, in pairs where it is a ratio: [evaluation](evaluation.md)); figures without an interval are closed form.
Unless said otherwise: the paper's deployment (4 × 8×H200 remote, 8 × 8×H20 local, 100 Gbps), its traffic, and as the
homogeneous one 12 × 8×H20. H20 prefill times and decode rates are calibrated to the paper's Table 6, so that absolute
figures are no surer than it.
"""


def findings_page(results: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    parts = [HEAD]
    for number, module in enumerate(MODULES, start=1):
        title, alt = TITLES[module.NAME]
        parts += [
            f"## {number}. {title}\n",
            f"![{alt}](images/findings-{module.NAME}.svg)\n",
            module.section(found_of(results, module.NAME)).rstrip() + "\n",
        ]
    return wrapped("\n".join([*parts, _provenance(results)]))


def pictures(results: Mapping[str, Any]) -> dict[str, str]:
    """SVG by file name."""
    return {f"findings-{m.NAME}.svg": m.picture(found_of(results, m.NAME)) for m in MODULES}


def striking(results: Mapping[str, Any]) -> str:
    """The two findings that the README names, in one line."""
    costs = found_of(results, equal_cost.NAME).closed_form
    rates = found_of(results, same_dc.NAME).closed_form["rates"]["hybrid-1t"]
    alone, naive, routed = (rates[name] for name in (HOMOGENEOUS, NAIVE, SAME_DC))
    return (
        f"of the paper's gain over homogeneous PD ({gain(routed / alone)} here) {gain(naive / alone)} come from having "
        f"H200 at all, {gain(routed / naive)} on top from routing by length and nothing from crossing data centres; "
        f"and at equal cost the gain ({gain(costs['by_egress']['0']['gain'])}) is gone once egress costs "
        f"{costs['break_even_egress_usd_per_gb']:.4f} USD/GB"
    )


def _provenance(results: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["libraries"].items())
    first, last = results["seeds"][0], results["seeds"][-1]
    return "\n".join(
        [
            "## How they came about",
            "",
            f"`{results['command']}` ran all of it in {results['cpu_s']:.0f} s of one processor: "
            f"{len(results['scenarios'])} scenarios on seeds {first} to {last}. "
            "[`docs/results/findings.json`](results/findings.json) holds every figure, the hash of every scenario, the "
            f"commit and the versions (prfaas_env {results['version']}, {versions}). `make test` checks that the page "
            "is what the results say and that the closed form still gives its part; `make test-slow` simulates again "
            "with other seeds.",
            "",
        ]
    )
