"""The planner's answers as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from prfaas_env.planner.loaded import WARM_UP
from prfaas_env.planner.report import Report
from prfaas_env.planner.sensitivity import Sensitivity
from prfaas_env.planner.words import judgement, quantity

__all__ = ["tables"]


def tables(report: Report) -> Iterator[RenderableType]:
    """Everything but the plan itself, from what limits it to the verdict."""
    yield _limits(report)
    if report.paper:
        yield _paper(report)
    yield _sensitivity(report.sensitivity)
    if report.loaded or report.cost:
        yield _loads(report)
        yield from _under_loads(report)
    if report.least_ttft:
        yield _least_ttft(report)
    if report.equal_cost:
        yield _equal_cost(report)
        yield _break_even(report.equal_cost.break_even_remote_usd_per_hour)
        yield _sizes(report)
    if report.trace:
        yield _trace(report)
    yield _advice(report)
    yield _reasons(report)
    for note in report.notes:
        yield f"[yellow]Note[/yellow]: {note}"
    yield f"[bold]{report.verdict.routing_sentence}[/bold]"
    yield f"[bold]{report.verdict.crossing_sentence}[/bold]"


def _break_even(most_usd_per_hour: float) -> str:
    if most_usd_per_hour < 0:
        return "No break-even with homogeneous PD: remote instances would not be worth it if they cost nothing."
    usd = f"[bold]{most_usd_per_hour:,.2f}[/bold] USD/h for a remote instance"
    return f"Break-even with homogeneous PD: {usd}, all else equal."


def _limits(report: Report) -> str:
    limiting = " and ".join(one.stage for one in report.stages if one.limits)
    others = [f"{one.stage} at {one.utilisation_at_lambda_max:.0%}" for one in report.stages if not one.limits]
    return f"Λ_max is limited by [bold]{limiting}[/bold]" + (f"; then {', '.join(others)}" if others else "") + "."


def _paper(report: Report) -> Table:
    table = Table("figure", "paper", "here", "error", title=f"Table 6 of the paper, {report.asked.paper}")
    for one in report.paper:
        table.add_row(one.key, f"{one.paper:g}", f"{one.here:.5g}", f"{one.relative_error:+.1%}")
    return table


def _sensitivity(rows: tuple[Sensitivity, ...]) -> Table:
    """One line an input on a terminal of 80 columns."""
    title = "Λ_max in req/s with one input lower / higher, t and N_p solved again"
    heads = ("input", "change", "Λ low", "Λ high", "t low", "t high", "N_p", "% per %")
    table = Table(*heads, title=title, box=SIMPLE_HEAD, pad_edge=False)
    for one in rows:
        table.add_row(
            one.input,
            f"{'+' if one.low_ratio is None else '±'}{100.0 * (one.high_ratio - 1.0):.3g}%",
            _figure(one.lambda_max_low_rps, ".3f"),
            f"{one.lambda_max_high_rps:.3f}",
            _figure(one.threshold_low_tokens, ",.0f"),
            _figure(one.threshold_high_tokens, ",.0f"),
            f"{_figure(one.n_prefill_low, 'd')}/{_figure(one.n_prefill_high, 'd')}",
            f"{one.elasticity:+.2f}",
        )
    return table


def _figure(value: float | int | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _loads(report: Report) -> Table:
    heads = ("load", "req/s", "TTFT mean, s", "P50", "P90", "P99", "USD / M output tokens")
    table = Table(*heads, title="At a share of Λ_max", box=SIMPLE_HEAD, pad_edge=False)
    found = report.asked.plan
    table.add_row("empty", "", f"{found.ttft_mean_s:.2f}", "", f"{found.ttft_p90_s:.2f}", "", "")
    runs = {one.load: one for one in (*report.loaded, *([report.slo.at] if report.slo else []))}
    bills = {one.load: one for one in report.cost}
    rates = {load: bill.rate_rps for load, bill in bills.items()} | {load: run.rate_rps for load, run in runs.items()}
    for load, rate in sorted(rates.items()):
        run, bill = runs.get(load), bills.get(load)
        table.add_row(
            f"{load:.1%}",
            f"{rate:.3f}",
            f"{run.ttft_mean_s:.2f} ± {run.ttft_mean_high_s - run.ttft_mean_s:.2f}" if run else "–",
            _figure(run.ttft_p50_s if run else None, ".2f"),
            f"{run.ttft_p90_s:.2f} ± {run.ttft_p90_high_s - run.ttft_p90_s:.2f}" if run else "–",
            _figure(run.ttft_p99_s if run else None, ".2f"),
            _figure(bill.usd_per_million_output_tokens if bill else None, ".2f"),
        )
    return table


def _under_loads(report: Report) -> Iterator[str]:
    if report.loaded:
        one = report.loaded[0]
        yield (
            f"Simulated: Poisson arrivals, t and N_p kept, seeds 0 to {one.seeds - 1} of about "
            f"{one.requests // one.seeds:,} requests, the first {WARM_UP:.0%} of the time left out; ± is a 95 % "
            "interval over seeds. `empty` is the closed form."
        )
    if report.slo:
        at_least = "at least " if report.slo.at_least else ""
        at = report.slo.at
        yield (
            f"P90 of TTFT within {report.slo.ttft_p90_objective_s:g} s: up to {at_least}[bold]{at.rate_rps:.3f}[/bold] "
            f"req/s, {at.load:.1%} of Λ_max."
        )


def _least_ttft(report: Report) -> Table:
    heads = ("load", "t tokens", "N_p", "TTFT mean, s", "predicted", "P90", "mean over the plan's")
    table = Table(
        *heads, title="t and N_p for the least mean TTFT instead of the highest rate", box=SIMPLE_HEAD, pad_edge=False
    )
    of_plan = {one.load: one for one in report.loaded}
    for one in report.least_ttft:
        table.add_row(
            f"{one.load:.1%}",
            _figure(one.threshold_tokens, ",.0f"),
            str(one.n_prefill),
            f"{one.ttft_mean_s:.2f} ± {one.ttft_mean_high_s - one.ttft_mean_s:.2f}",
            _figure(one.predicted_mean_s, ".2f"),
            f"{one.ttft_p90_s:.2f}",
            f"{one.ttft_mean_s / of_plan[one.load].ttft_mean_s - 1.0:+.1%}",
        )
    return table


def _equal_cost(report: Report) -> Table:
    costs, found = report.equal_cost, report.asked.plan
    assert costs is not None
    table = Table("at equal cost", "instances", "USD/h", "Λ_max req/s", "this plan", title="The same money otherwise")
    table.add_row("this plan", "", f"{costs.usd_per_hour:,.2f}", f"{found.lambda_max_rps:.3f}", "")
    table.add_row(
        "homogeneous PD, fractions allowed",
        f"{costs.homogeneous_instances:.2f} local",
        f"{costs.usd_per_hour:,.2f}",
        f"{costs.homogeneous_lambda_max_rps:.3f}",
        f"{costs.ratio_homogeneous - 1.0:+.1%}",
    )
    if costs.homogeneous_whole_lambda_max_rps and costs.ratio_homogeneous_whole:
        whole = int(costs.homogeneous_instances + 1e-9)
        table.add_row(
            "homogeneous PD, whole instances",
            f"{whole} local",
            f"{whole * report.asked.deployment.local.profile.price_usd_per_hour:,.2f}",
            f"{costs.homogeneous_whole_lambda_max_rps:.3f}",
            f"{costs.ratio_homogeneous_whole - 1.0:+.1%}",
        )
    table.add_row(
        "same instances in one data centre",
        "the same",
        f"{costs.same_dc_usd_per_hour:,.2f}",
        f"{costs.same_dc_lambda_max_rps:.3f}",
        f"{costs.ratio_same_dc - 1.0:+.1%} per USD",
    )
    return table


def _sizes(report: Report) -> Table:
    heads = ("N_prfaas", "Λ_max req/s", "USD/h", "over homogeneous PD")
    table = Table(*heads, title="By the size of the remote cluster", box=SIMPLE_HEAD, pad_edge=False)
    for one in report.remote_sizes:
        style = "bold" if one.n_prfaas == report.asked.plan.n_prfaas else None
        ratio = f"{one.ratio_homogeneous - 1.0:+.1%}"
        table.add_row(str(one.n_prfaas), f"{one.lambda_max_rps:.3f}", f"{one.usd_per_hour:,.2f}", ratio, style=style)
    return table


def _trace(report: Report) -> Table:
    trace = report.trace
    assert trace is not None
    table = Table.grid(padding=(0, 2))
    table.add_row("trace", f"{trace.requests:,} requests in {trace.horizon_s:,.0f} s, {trace.rate_rps:.3f} req/s")
    table.add_row("its load", f"{trace.load:.1%} of Λ_max")
    table.add_row("left out as cached", f"{trace.cached_share:.1%} of input tokens (a cache without limits)")
    table.add_row(
        "busiest of its windows", f"{quantity(trace.busiest_window_ratio)} × the mean ({trace.windows} windows)"
    )
    return table


def _advice(report: Report) -> Table:
    table = Table("way", "number", "value", "threshold", "", title="Advice", box=SIMPLE_HEAD, pad_edge=False)
    for one in report.advice:
        sign = "≥" if one.at_least else "≤"
        limit = f"{sign} {quantity(one.threshold)}"
        table.add_row(one.way, one.quantity, quantity(one.value), limit, judgement(one))
    return table


def _reasons(report: Report) -> Table:
    table = Table("number", "why the threshold is there", box=SIMPLE_HEAD, pad_edge=False)
    for one in report.advice:
        table.add_row(one.quantity, one.reason)
    return table
