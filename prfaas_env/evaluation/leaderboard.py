"""The leaderboard: the standings as tables and in words, for ``leaderboard.md`` and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from prfaas_env.evaluation.results import Evaluation
from prfaas_env.evaluation.standings import REFERENCES, Standings
from prfaas_env.evaluation.verdict import verdict
from prfaas_env.evaluation.words import FEW_SEEDS, ratio_text, share, short_name
from prfaas_env.pages.figures import number
from prfaas_env.policies import tuning_study
from prfaas_env.scenario import suite_hash

__all__ = [
    "Table",
    "label",
    "method",
    "print_leaderboard",
    "tables",
    "to_markdown",
]

TRACE_NOTE = "a trace is one episode; its seeds shift arrivals by seconds, and its intervals speak of no other traffic"


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is the policy, the second its ratio, all but the first are numbers.

    ``brief`` are the columns that a terminal has room for, by number; ``policies`` are those of the rows.
    """

    title: str
    header: Sequence[str]
    body: Sequence[Sequence[str]]
    brief: Sequence[int]
    policies: Sequence[str]


def tables(board: Standings) -> list[Table]:
    """The ranking over all scenarios, then one table a scenario; one row a policy in each."""
    return [_ranking(board), *(_scenario(board, scenario) for scenario in board.scenarios)]


def label(policy: str) -> str:
    """A policy's name, and what it is where it is no contender."""
    return f"{policy} ({REFERENCES[policy]})" if policy in REFERENCES else policy


def _ranking(board: Standings) -> Table:
    header = ["policy", f"TTFT ÷ {board.baseline}", "interquartile", "wins", "pairs", *board.scenarios]
    body = [
        [
            label(standing.policy),
            ratio_text(standing.overall),
            number(standing.overall.interquartile_ratio),
            share(standing.overall.win_share),
            str(standing.overall.pairs),
            *(number(standing.mean(scenario, "ttft_mean_s")) for scenario in board.scenarios),
        ]
        for standing in board.ranked
    ]
    return Table(
        "Ranking; the last columns are mean TTFT in seconds",
        header,
        body,
        range(5),
        [standing.policy for standing in board.ranked],
    )


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
    shown = {"goodput": share, "remote": share}
    ordered = sorted(board.ranked, key=lambda standing: standing.order(scenario))
    body = [
        [
            label(standing.policy),
            ratio_text(standing.by_scenario[scenario]),
            share(standing.by_scenario[scenario].win_share),
            *(shown.get(title, number)(standing.mean(scenario, key)) for title, key in columns.items()),
        ]
        for standing in ordered
    ]
    header = ["policy", f"TTFT ÷ {board.baseline}", "wins", *columns]
    brief = ("TTFT s", "P99 s", "goodput", "USD/M")
    columns_in_brief = [0, 1, *(header.index(title) for title in brief)]
    return Table(scenario, header, body, columns_in_brief, [standing.policy for standing in ordered])


def method(evaluation: Evaluation) -> list[tuple[str, str]]:
    """What was run and how the figures were made, as (what, value)."""
    seeds = list(evaluation.seeds)
    few = "; few: take the intervals as a hint" if len(seeds) < FEW_SEEDS else ""
    interrupted = f" of {evaluation.planned}, interrupted" if len(evaluation.cells) < evaluation.planned else ""
    found = [
        ("Scenarios", ", ".join(f"{s.name} ({s.hash})" for s in evaluation.scenarios)),
        ("Seeds", f"{seeds[0]} to {seeds[-1]} ({len(seeds)} a scenario{few}); every policy meets the same requests"),
        ("Episodes", f"{len(evaluation.cells)}{interrupted}"),
        (
            "Ratios",
            f"mean TTFT ÷ that of {evaluation.baseline}, below 1 is better; overall: geometric mean of scenarios",
        ),
        ("Intervals", "95 %, studentised paired bootstrap over seeds within each scenario"),
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
    found += [("Tuning", line) for line in _budgets(evaluation.policies)]
    traces = [s.name for s in evaluation.scenarios if s.workload.kind == "trace"]
    if traces:
        found.append(("Traces", f"{', '.join(traces)}: {TRACE_NOTE}"))
    found += [("Note", line) for line in evaluation.notes]
    found += [("Skipped", line) for line in evaluation.skipped]
    return found + ([("Command", evaluation.command)] if evaluation.command else [])


def _budgets(policies: Sequence[str]) -> list[str]:
    """How many episodes went into choosing the constants of the scripted policies, from their studies."""
    names: dict[int, list[str]] = {}
    for policy in policies:
        if (study := tuning_study(policy)) is not None:
            names.setdefault(study.episodes, []).append(policy)
    return [
        f"scripted policies tuned with {episodes:,} episodes each (docs/evaluation.md): {', '.join(same)}"
        for episodes, same in names.items()
    ]


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
