"""``plan``: the closed-form optimum of a deployment on a workload."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from prfaas_env.deployment import Deployment
from prfaas_env.planning import DEFAULT_DEPLOYMENT, DEFAULT_WORKLOAD, planned
from prfaas_env.scenario import Scenario
from prfaas_env.theory.plan import Form, HasLengths, HasNominal, Plan, plan, sweep_splits, sweep_thresholds

__all__ = ["command"]


@click.command(name="plan")
@click.option(
    "--deployment",
    "-d",
    help=f"Shipped name or YAML file.  [default: that of the scenario named by --workload, else {DEFAULT_DEPLOYMENT}]",
)
@click.option(
    "--workload",
    "-w",
    default=DEFAULT_WORKLOAD,
    show_default=True,
    help="Shipped scenario, scenario file, or a file with the laws `lengths` and `output_tokens`.",
)
@click.option("--n-prefill", type=int, help="Fix N_p instead of searching it.")
@click.option("--threshold", type=float, metavar="TOKENS", help="Fix t instead of searching it.")
@click.option(
    "--form",
    type=click.Choice(["distribution", "representative"]),
    default="distribution",
    show_default=True,
    help="Stage times as E[T(L)|...], which gives the paper's figures, or T(E[L|...]), as its equations are written.",
)
@click.option("--curves", is_flag=True, help="Also the rate against N_p and against t (the paper's Fig. 5).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    deployment: str | None,
    workload: str,
    n_prefill: int | None,
    threshold: float | None,
    form: Form,
    curves: bool,
    as_json: bool,
) -> None:
    """Closed-form optimum of a deployment: threshold t, split N_p/N_d, stage throughputs, unloaded TTFT.

    Table 6 of the paper is `plan` on prfaas-pd, homogeneous-pd and naive-heterogeneous-pd.
    """
    place, traffic = planned(deployment, workload)
    found = plan(place, traffic, form=form, n_prefill=n_prefill, threshold_tokens=threshold)
    swept = _curves(place, traffic, form, found) if curves else {}
    if as_json:
        named = {"deployment": place.name, "workload": workload, "form": form, "binding_stage": found.binding_stage}
        click.echo(json.dumps(found.as_mapping() | named | swept, indent=2, allow_nan=False))
        return
    console = Console()
    on = f"[bold]{place.name}[/bold] on [bold]{workload}[/bold]"
    if deployment is None and isinstance(traffic, Scenario):
        on = f"[bold]{workload}[/bold] on its own deployment [bold]{place.name}[/bold]"
    console.print(f"{on} ({form} form)\n", soft_wrap=True)
    console.print(_stages(place, found))
    console.print(_figures(place, found))
    for title, rows in swept.items():
        console.print(_sweep(title.replace("_", " "), rows))


def _curves(
    deployment: Deployment, workload: HasLengths | HasNominal, form: Form, found: Plan
) -> dict[str, list[dict[str, Any]]]:
    """Λ_max against N_p, each at its best t, and against t at the plan's N_p, by title."""
    by_split = [
        {key: p.as_mapping()[key] for key in ("n_prefill", "threshold_tokens", "lambda_max_rps")}
        for p in sweep_splits(deployment, workload, form)
    ]
    if deployment.route_pinned is not None or found.n_prefill is None:
        return {"by_split": by_split}
    thresholds = np.geomspace(1000.0, 100_000.0, 21)
    rates = sweep_thresholds(deployment, workload, found.n_prefill, thresholds, form)
    pairs = zip(thresholds.tolist(), rates.tolist(), strict=True)
    return {"by_split": by_split, "by_threshold": [{"threshold_tokens": t, "lambda_max_rps": r} for t, r in pairs]}


def _stages(deployment: Deployment, found: Plan) -> Table:
    table = Table("stage", "instances", "Θ req/s", "traffic", "Θ / traffic", "")
    p = found.offload_fraction
    link = deployment.link
    full = link is not None and found.egress_gbps > 0.999 * link.capacity_gbps
    rows = (
        ("remote prefill", found.n_prfaas, found.theta_prfaas_rps, p, " (the link)" if full else ""),
        ("local prefill", found.n_prefill, found.theta_pd_p_rps, 1.0 - p, ""),
        ("decode", found.n_decode, found.theta_pd_d_rps, 1.0, ""),
    )
    for name, instances, theta, share, by in rows:
        if theta is None:
            table.add_row(name, str(instances or "–"), "–", "–", "–", "")
            continue
        sustains = theta / share
        binds = f"binds{by}" if sustains < 1.001 * found.lambda_max_rps else ""
        table.add_row(name, str(instances), f"{theta:.2f}", f"{share:.1%}", f"{sustains:.2f}", binds)
    return table


def _figures(deployment: Deployment, found: Plan) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("Λ_max", f"[bold]{found.lambda_max_rps:.3f}[/bold] req/s")
    table.add_row("routing threshold t", _tokens(found.threshold_tokens) or f"– (all {deployment.route_pinned})")
    table.add_row("mean length, remote / local", f"{_tokens(found.l_long_tokens)} / {_tokens(found.l_short_tokens)}")
    if deployment.link:
        share = found.egress_gbps / deployment.link.capacity_gbps
        table.add_row(
            "egress at Λ_max", f"{found.egress_gbps:.1f} of {deployment.link.capacity_gbps:g} Gbps ({share:.1%})"
        )
    table.add_row("TTFT in an empty system", f"mean {found.ttft_mean_s:.2f} s, P90 {found.ttft_p90_s:.2f} s")
    return table


def _tokens(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} tokens"


def _sweep(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(_cell(key, value) for key, value in row.items()))
    return table


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if key.endswith("_tokens") else f"{value:.3f}" if isinstance(value, float) else str(value)
