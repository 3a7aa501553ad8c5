"""The leaderboard: the standings as tables and in words, for ``leaderboard.md`` and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.standings import BOUNDS, Standing, Standings
from prfaas_env.evaluation.statistics import Comparison
from prfaas_env.pages.figures import number
from prfaas_env.scenario import suite_hash

__all__ = [
    "LEARNED",
    "Table",
    "method",
    "print_leaderboard",
    "ratio_text",
    "short_name",
    "tables",
    "to_markdown",
    "verdict",
]

LEARNED = "learned"
NAME_LENGTH = 22
TRACE_NOTE = "a trace is one episode; its seeds shift arrivals by seconds, and its intervals speak of no other traffic"


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is the policy, the second its ratio, all but the first are numbers.

    ``brief`` are the columns that a terminal has room for, by number.
    """

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    brief: Sequence[int]


def ratio_text(comparison: Comparison) -> str:
    """``0.87 [0.80, 0.95]``; the interval only where there is one."""
    if not math.isfinite(comparison.ratio):
        return "–"
    if comparison.low == comparison.high == 1.0:
        return "1"  # the baseline itself, or a policy that did exactly the same
    interval = f" [{_ratio(comparison.low)}, {_ratio(comparison.high)}]" if math.isfinite(comparison.low) else ""
    return f"{_ratio(comparison.ratio)}{interval}"


def _ratio(value: float) -> str:
    """Two decimals, fewer from ten on."""
    return f"{value:.2f}" if value < 10 else number(value)


def short_name(policy: str) -> str:
    """A policy's name; the end of a path that is too long for an axis or a terminal."""
    return policy if len(policy) <= NAME_LENGTH else f"…{policy[1 - NAME_LENGTH :]}"


def tables(board: Standings) -> list[Table]:
    """The ranking over all scenarios, then one table a scenario; one row a policy in each."""
    return [_ranking(board), *(_scenario(board, scenario) for scenario in board.scenarios)]


def _label(policy: str) -> str:
    return f"{policy} (bound)" if policy in BOUNDS else policy


def _ranking(board: Standings) -> Table:
    header = ["policy", f"TTFT ÷ {board.baseline}", "interquartile", "wins", "pairs", *board.scenarios]
    body = [
        [
            _label(standing.policy),
            ratio_text(standing.overall),
            number(standing.overall.interquartile_ratio),
            _share(standing.overall.win_share),
            str(standing.overall.pairs),
            *(number(_mean(standing, scenario, "ttft_mean_s")) for scenario in board.scenarios),
        ]
        for standing in board.ranked
    ]
    return Table("Ranking; the last columns are mean TTFT in seconds", header, body, range(5))


def _scenario(board: Standings, scenario: str) -> Table:
    columns = {
        "TTFT s": "ttft_mean_s",
        "P50 s": "ttft_p50_s",
        "P99 s": "ttft_p99_s",
        "goodput": "goodput",
        "req/s": "throughput_rps",
        "remote": "offload_fraction",
        "egress Gbps": "egress_gbps_mean",
        "USD/M": "usd_per_million_output_tokens",
        "conversions": "conversions",
        "rejected": "rejected",
    }
    shown = {"goodput": _share, "remote": _share}
    body = [
        [
            _label(standing.policy),
            ratio_text(standing.by_scenario[scenario]),
            _share(standing.by_scenario[scenario].win_share),
            *(shown.get(title, number)(_mean(standing, scenario, key)) for title, key in columns.items()),
        ]
        for standing in sorted(board.ranked, key=lambda s: _order(_mean(s, scenario, "ttft_mean_s")))
    ]
    header = ["policy", f"TTFT ÷ {board.baseline}", "wins", *columns]
    brief = ("TTFT s", "P99 s", "goodput", "USD/M")
    return Table(scenario, header, body, [0, 1, *(header.index(title) for title in brief)])


def _mean(standing: Standing, scenario: str, key: str) -> float:
    return standing.means[scenario].get(key, math.nan)


def _order(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _share(value: float) -> str:
    return f"{100 * value:.0f} %" if math.isfinite(value) else "–"


def verdict(board: Standings) -> list[str]:
    """In words, whether the learned policy wins, or where it loses and to whom; without one, who leads.

    In each scenario it is compared, in pairs, with the best of the other contenders by mean TTFT.
    """
    contenders = [s for s in board.contenders() if math.isfinite(s.overall.ratio)]
    if not contenders:
        return ["No policy can be ranked: no episode had requests under both a policy and the baseline."]
    if not any(s.policy == LEARNED for s in contenders) or len(contenders) == 1:
        lead = contenders[0]
        return [f"`{lead.policy}` leads: mean TTFT {ratio_text(lead.overall)} times that of `{board.baseline}`."]
    lines = [_against_best(board, scenario) for scenario in board.scenarios]
    outcomes = [outcome for outcome, _ in lines]
    won, lost = outcomes.count("wins"), outcomes.count("loses")
    if won == len(lines):
        summary = f"`{LEARNED}` wins in every scenario against the best of the other policies."
    elif lost or won:
        level = len(lines) - won - lost
        summary = f"`{LEARNED}` wins in {won} of {len(lines)} scenarios, loses in {lost} and is level in {level}."
    else:
        summary = f"`{LEARNED}` neither wins nor loses clearly in any scenario against the best of the other policies."
    return [summary, *(line for _, line in lines)]


def _against_best(board: Standings, scenario: str) -> tuple[str, str]:
    others = [s for s in board.contenders() if s.policy != LEARNED]
    best = min(others, key=lambda s: _order(_mean(s, scenario, "ttft_mean_s")))
    found = board.against(LEARNED, best.policy, [scenario])
    outcome = "wins" if found.better else "loses" if found.worse else "is level"
    words = {"wins": f"wins against `{best.policy}`", "loses": f"loses to `{best.policy}`"}
    return outcome, (
        f"{scenario}: {words.get(outcome, f'no clear difference from `{best.policy}`')}, "
        f"mean TTFT {ratio_text(found)} times its; goodput {_share(_mean(board.of(LEARNED), scenario, 'goodput'))} "
        f"against {_share(_mean(best, scenario, 'goodput'))}."
    )


def method(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What was run and how the figures were made, as (what, value)."""
    seeds = list(evaluation.seeds)
    few = "; few: take the intervals as a hint" if len(seeds) < 10 else ""
    interrupted = f" of {evaluation.planned}, interrupted" if len(evaluation.cells) < evaluation.planned else ""
    found = [
        ("Scenarios", ", ".join(f"{s.name} ({s.hash})" for s in evaluation.scenarios)),
        ("Seeds", f"{seeds[0]} to {seeds[-1]} ({len(seeds)} a scenario{few}); every policy meets the same requests"),
        ("Episodes", f"{len(evaluation.cells)}{interrupted}"),
        (
            "Ratios",
            f"mean TTFT ÷ that of {evaluation.baseline}, below 1 is better; overall: geometric mean of scenarios",
        ),
        ("Intervals", "95 %, paired bootstrap over seeds within each scenario, expanded for small samples"),
        ("TTFT, P50, P99", "mean and quantiles of time to first token; quantiles are averaged over seeds"),
        (
            "Interquartile",
            "mean of the middle half of the paired ratios; wins: share of pairs with the lower mean TTFT",
        ),
        (
            "Counted",
            "every arrival: runs are drained; rejected requests count against goodput",
        ),
        ("Cost, USD/M", "instance hours and egress up to the horizon, per million output tokens finished by then"),
        ("Engine", evaluation.engine),
        ("Suite", suite_hash(evaluation.scenarios)),
        ("Version", evaluation.version),
    ]
    traces = [s.name for s in evaluation.scenarios if s.workload.kind == "trace"]
    if traces:
        found.append(("Traces", f"{', '.join(traces)}: {TRACE_NOTE}"))
    found += [("Skipped", line) for line in evaluation.skipped]
    return found + ([("Command", evaluation.command)] if evaluation.command else [])


def to_markdown(evaluation: Evaluation, board: Standings) -> str:
    """The content of ``leaderboard.md``."""
    return "\n".join(_markdown(evaluation, board)) + "\n"


def _markdown(evaluation: Evaluation, board: Standings) -> Iterator[str]:
    yield "# Leaderboard"
    yield ""
    summary, *details = verdict(board)
    yield summary
    yield ""
    if details:
        yield from (f"- {line}" for line in details)
        yield ""
    for table in tables(board):
        yield f"## {table.title}"
        yield ""
        yield f"| {' | '.join(map(_cell, table.header))} |"
        yield f"|---|{'---:|' * (len(table.header) - 1)}"
        yield from (f"| {' | '.join(map(_cell, line))} |" for line in table.body)
        yield ""
    yield "## Method"
    yield ""
    yield from (f"- **{what}**: {value}" for what, value in method(evaluation))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def print_leaderboard(board: Standings, console: Console) -> None:
    """Tables in brief, and the verdict, on the terminal."""
    for table in tables(board):
        title = escape(table.title.partition(";")[0])
        shown = RichTable(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        for i in table.brief:
            header = "ratio" if i == 1 else escape(table.header[i])
            shown.add_column(header, justify="right" if i else "left", no_wrap=True)
        for line in table.body:
            shown.add_row(*(escape(short_name(line[i])) for i in table.brief))
        console.print(shown)
    console.print(f"ratio: mean TTFT ÷ that of {escape(board.baseline)}, with its 95 % interval\n")
    for line in verdict(board):
        console.print(escape(line))
