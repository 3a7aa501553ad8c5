"""``describe``: what a scenario or a trace holds, before anything is simulated."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from prfaas_env.config import ConfigError
from prfaas_env.describe.description import Description, describe
from prfaas_env.describe.statistics import STATISTICS
from prfaas_env.describe.subject import DEFAULT_DEPLOYMENT, trace_columns
from prfaas_env.describe.words import written

__all__ = ["command"]


@click.command(name="describe")
@click.argument("name_or_file")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the episode drawn.")
@click.option(
    "--deployment", "-d", help=f"What a trace file is set against (default: {DEFAULT_DEPLOYMENT}); name or YAML file."
)
@click.option(
    "--columns",
    metavar="arrival=NAME,input=NAME,output=NAME",
    help="What holds what in a trace file of no published format; also arrival_unit=ms, session=NAME, hashes=NAME.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every statistic, and the windows over time.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.html", help="Write a page with pictures.")
def command(
    name_or_file: str, seed: int, deployment: str | None, columns: str | None, as_json: bool, out: Path | None
) -> None:
    """Statistics and pictures of what is about to be simulated.

    NAME_OR_FILE: a shipped scenario, a scenario file (.yaml), or a trace file (.jsonl, .csv, …, plain or .gz).
    """
    if out is not None:
        _check_out(out)
    with Console(stderr=True).status("Drawing one episode …") as status:
        description = describe(name_or_file, seed, deployment, trace_columns(columns) if columns else None)
        status.update("Computing statistics …")
        plain = description.as_mapping()
        if out is not None:
            status.update("Drawing pictures …")
            _write_page(description, out)
    if as_json:
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False))
        return
    _print(description, Console())
    if out is not None:
        click.echo(f"\nwritten: {out}")


def _check_out(out: Path) -> None:
    if find_spec("plotly") is None:
        raise ConfigError("--out: plotly is not installed (extra 'report')")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ConfigError(f"--out: expected a file in a folder that exists, got {out}")


def _write_page(description: Description, out: Path) -> None:
    from prfaas_env.describe.page import to_html
    from prfaas_env.evaluation.results import write_atomically

    try:
        write_atomically(out, to_html(description))
    except OSError as error:
        raise ConfigError(f"--out: {out} cannot be written ({error.strerror})") from None


def _print(description: Description, console: Console) -> None:
    for what, value in description.facts:
        console.print(f"{what}: {value}", markup=False, highlight=False)
    for line in (description.scenario.notes, *description.remarks):
        console.print(line, markup=False, highlight=False, style="dim")
    table = Table("", "value", "unit", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for section in dict.fromkeys(one.section for one in STATISTICS):
        found = [(one, description.statistics[one.key]) for one in STATISTICS if one.section == section]
        known = [(one.words, *written(one.key, value)) for one, value in found if value is not None]
        if known:
            table.add_row()
            table.add_row(f"[bold]{section}[/bold]")
        for words, text, unit in known:
            table.add_row(f"  {words}", text, unit)
    console.print(table)
