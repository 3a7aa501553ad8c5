"""``plan``: the closed-form optimum of a deployment on a workload."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from prfaas_env.cli.plan_tables import tables
from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.loaded import SEEDS
from prfaas_env.planner.report import Report, report
from prfaas_env.planning import DEFAULT_DEPLOYMENT, DEFAULT_WORKLOAD
from prfaas_env.theory.plan import Form, HasLengths, HasNominal, Plan, sweep_splits, sweep_thresholds

__all__ = ["command"]

DEFAULT_OUT = Path("results/plan")


@click.command(name="plan")
@click.option(
    "--deployment",
    "-d",
    help=f"Shipped name or YAML file.  [default: that of the scenario named by --workload, else {DEFAULT_DEPLOYMENT}]",
)
@click.option(
    "--workload",
    "-w",
    help="Shipped scenario, scenario file, or a file with the laws `lengths` and `output_tokens`.  "
    f"[default: {DEFAULT_WORKLOAD}]",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="remote|local=NAME_OR_FILE",
    help="Hardware profile of a cluster in place of the deployment's; both clusters must serve one model.",
)
@click.option("--trace", metavar="FILE", help="Uncached input lengths and outputs of a trace file, as the workload.")
@click.option(
    "--columns",
    metavar="arrival=NAME,input=NAME,output=NAME",
    help="What holds what in a trace file of no published format, as for `describe`.",
)
@click.option("--link-gbps", type=float, metavar="GBPS", help="Capacity of the link in place of the deployment's.")
@click.option(
    "--prices",
    multiple=True,
    metavar="FILE|KEY=USD,…",
    help="Prices: an instance type (8xH20), `remote` or `local` per hour of an instance, `egress` per GB.",
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
@click.option("--slo-ttft", type=float, metavar="SECONDS", help="Find the rate up to which P90 of TTFT is within it.")
@click.option("--simulation/--no-simulation", default=True, show_default=True, help="Simulate TTFT under load.")
@click.option("--seeds", type=click.IntRange(2, 100), default=SEEDS, show_default=True, help="Runs at each load.")
@click.option("--curves", is_flag=True, help="Also the rate against N_p and against t (the paper's Fig. 5).")
@click.option("--sweep", is_flag=True, help="Write a page of curves: t × N_p, link, P(L > t), prices; and plan.json.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help=f"Folder of --sweep.  [default: {DEFAULT_OUT}]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    profiles: tuple[str, ...],
    prices: tuple[str, ...],
    threshold: float | None,
    slo_ttft: float | None,
    simulation: bool,
    seeds: int,
    curves: bool,
    sweep: bool,
    out: Path | None,
    as_json: bool,
    **asked_by: Any,
) -> None:
    """Which threshold t and split N_p/N_d, what limits them, TTFT under load, cost, and is crossing worth it.

    Table 6 of the paper is `plan` on prfaas-pd, homogeneous-pd and naive-heterogeneous-pd.
    """
    if slo_ttft is not None and not simulation:
        raise ConfigError("--slo-ttft: expected without --no-simulation: the rate that meets it is simulated")
    if out is not None and not sweep:
        raise ConfigError("--out: expected with --sweep")
    out = out or DEFAULT_OUT
    if sweep:
        _check_out(out)
    with Console(stderr=True).status("Planning …") as status:
        asked = question(profiles=profiles, prices=prices, threshold_tokens=threshold, **asked_by)
        if sweep and asked.deployment.remote is None:
            raise ConfigError(
                f"--sweep: deployment {asked.deployment.name!r} has no remote cluster, so nothing to sweep; "
                "--curves shows the rate against N_p"
            )
        found = report(asked, simulated=simulation, seeds=seeds, slo_ttft_s=slo_ttft, progress=status.update)
        swept = _curves(asked.deployment, asked.workload, asked.form, asked.plan) if curves else {}
        named = {
            "deployment": asked.deployment.name,
            "workload": asked.workload_name,
            "form": asked.form,
            "binding_stage": asked.plan.binding_stage,
        }
        plain = asked.plan.as_mapping() | named | swept | found.as_mapping()
        if sweep:
            status.update("Drawing curves …")
            plain["sweep"] = _write_sweep(found, plain, out)
    if as_json:
        click.echo(json.dumps(plain, indent=2, allow_nan=False))
        return
    _print(asked, found, swept, Console(), own_deployment=asked_by["deployment"] is None)
    if sweep:
        click.echo(f"\nwritten: {out / 'plan.html'}, {out / 'plan.json'}")


def _check_out(out: Path) -> None:
    from prfaas_env.evaluation.results import prepare_folder

    if find_spec("plotly") is None:
        raise ConfigError("--sweep: plotly is not installed (extra 'report')")
    prepare_folder(out, ("plan.html", "plan.json"))


def _write_sweep(found: Report, plain: dict[str, Any], out: Path) -> dict[str, Any]:
    """Page and numbers; returns the curves as plain data."""
    from prfaas_env.evaluation.results import write_atomically
    from prfaas_env.planner.page import to_html
    from prfaas_env.planner.sweep import sweep

    curves = sweep(found.asked)
    write_atomically(out / "plan.html", to_html(found, curves))
    content = plain | {"sweep": asdict(curves)}
    write_atomically(out / "plan.json", json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    return asdict(curves)


def _print(
    asked: Question, found: Report, swept: dict[str, list[dict[str, Any]]], console: Console, *, own_deployment: bool
) -> None:
    place, workload = asked.deployment, asked.workload_name
    on = f"[bold]{place.name}[/bold] on [bold]{workload}[/bold]"
    if own_deployment and asked.of_scenario:
        on = f"[bold]{workload}[/bold] on its own deployment [bold]{place.name}[/bold]"
    console.print(f"{on} ({asked.form} form)", soft_wrap=True)
    if asked.changes:
        console.print(f"with {', '.join(asked.changes)}", highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(_stages(place, asked.plan))
    console.print(_figures(place, asked.plan))
    for title, rows in swept.items():
        console.print(_sweep(title.replace("_", " "), rows))
    for part in tables(found):
        console.print()
        console.print(part, highlight=False)


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
