"""The results as tables: printed with rich, and in Markdown for docs/performance.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table as RichTable

__all__ = ["Table", "as_markdown", "number", "print_tables", "tables"]


class Table(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str


def number(value: float | None) -> str:
    """Three figures that count, thousands apart."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{round(value, 3 - len(str(int(value)))):,.0f}"
    return f"{value:.3g}"


def tables(results: Mapping[str, Any]) -> list[Table]:
    """Ratios first."""
    starts, share, ppo = results["starts"], results["share_of_engine"], results["ppo"]
    machine = results["machine"]
    made = [
        Table(
            "Targets",
            ("figure", "measured", "target", ""),
            [
                (
                    row["name"],
                    number(row["value"]),
                    f"{'≥' if row['at_least'] else '≤'} {number(row['bound'])}",
                    "met" if row["met"] else "MISSED",
                )
                for row in results["targets"]
            ],
            f"{machine['processor']}, {machine['cores']} cores; Python {machine['python']}, numba {machine['numba']}, "
            f"numpy {machine['numpy']}. Medians; rivals take turns, so ratios survive a busy machine, rates do not.",
        ),
        Table(
            "Engines: requests/s on one core",
            ("scenario", "model", "requests", "reference", "compiled", "compiled / reference", "plain SimPy"),
            [
                (
                    row["scenario"],
                    row["model"],
                    number(row["requests"]),
                    number(row["reference_rps"]),
                    number(row["compiled_rps"]),
                    f"{number(row['compiled_over_reference'])} ×",
                    number(row["plain_simpy_rps"]),
                )
                for row in results["engines"]
            ],
            "From an engine's construction until the last request left. `small`: neither caches nor faults; `full`: "
            "prefix caches, failing instances, background traffic, two classes; `conversations`: the same, and prompts "
            "grow into conversations of some 60 cache blocks a request. Plain SimPy: three stages as one would write "
            "them at first (benchmarks/pipeline.py), without the shared link and all that follows.",
        ),
        Table(
            "Vector environment beside the raw engine, one thread",
            ("copies", "raw engine, requests/s", "environment, requests/s", "share", "draws, requests/s", "ms a draw"),
            [
                (
                    str(share["copies"]),
                    number(share["raw_rps"]),
                    number(share["vector_rps"]),
                    f"{share['share']:.0%}",
                    number(share["draws_rps"]),
                    number(share["draw_ms_per_episode"]),
                )
            ],
            "The same episodes under the same control. Raw: a compiled loop advances every copy by one control step "
            "after another, and does nothing else. Environment: decodes the action, advances, measures, solves the "
            "closed form, observes, rewards. Draws of episodes are timed apart; the environment makes them in the "
            "background.",
        ),
        Table(
            "Environment steps/s",
            ("environment", "steps/s"),
            [(name, number(rate)) for name, rate in results["steps"].items()]
            + ([(f"PPO, {ppo['copies']} copies, end to end", number(ppo["steps_per_s"]))] if ppo else []),
            "Control steps of 10 s at .8 of Λ_max, about 26 requests each; resets and draws included. PPO: rollouts "
            "and updates with the settings of train.py.",
        ),
        Table(
            "Growth with the deployment",
            ("routing law", "instances", "µs a request"),
            [(row["law"], number(row["instances"]), number(row["us_per_request"])) for row in results["instances"]],
            "Load and link in proportion; the log is not kept.",
        ),
        Table(
            "Growth with the number of requests",
            ("requests", "draw, µs a request", "run, µs a request", "peak memory, GiB"),
            [
                (
                    number(row["requests"]),
                    number(row["draw_us_per_request"]),
                    number(row["us_per_request"]),
                    number(row["peak_gib"]),
                )
                for row in results["requests"]
            ],
            "Each in a process of its own; memory is that of the process, libraries included.",
        ),
        Table(
            "Starting",
            ("from the start of Python to", "s"),
            [
                ("the first step, nothing compiled yet", number(starts["cold_s"])),
                ("… in processor time", number(starts["cold_cpu_s"])),
                ("the first step, next process", number(starts["warm_s"])),
                ("`import prfaas_env`", number(starts["import_s"])),
                ("its own end (an empty program)", number(starts["python_s"])),
            ],
            "Machine code is kept in the user's cache folder (`PRFAAS_CACHE_DIR` moves it), named after the sources.",
        ),
        Table(
            "Snapshots",
            ("scenario", "model", "KiB", "snapshot, µs", "restore, µs"),
            [
                (
                    row["scenario"],
                    row["model"],
                    number(row["kib"]),
                    number(row["snapshot_us"]),
                    number(row["restore_us"]),
                )
                for row in results["snapshots"]
            ],
            "In the middle of an hour. The size is that of the prefix caches: one entry a block of the stream.",
        ),
    ]
    return [table for table in made if table.rows]


def print_tables(results: Mapping[str, Any], console: Console) -> None:
    for table in tables(results):
        shown = RichTable(
            title=table.title, title_justify="left", caption=table.note.replace("`", ""), caption_justify="left"
        )
        for k, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if k and column not in ("model", "") else "left")
        for row in table.rows:
            shown.add_row(*(cell.replace("`", "") for cell in row))
        console.print(shown)


def as_markdown(table: Table) -> str:
    lines = [f"## {table.title}", "", "| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([*lines, "", table.note, ""])
