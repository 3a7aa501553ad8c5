"""``leaderboard build``: the page of the leaderboard from its entries."""

from __future__ import annotations

from pathlib import Path

import click

from prfaas_env.evaluation.results import write_atomically
from prfaas_env.evaluation.standings import REFERENCES
from prfaas_env.leaderboard.board import board, read_entries
from prfaas_env.leaderboard.page import to_markdown
from prfaas_env.leaderboard.suite import SUITES
from prfaas_env.policies import policy_names

__all__ = ["command"]


@click.group(name="leaderboard")
def command() -> None:
    """The leaderboard (docs/leaderboard.md)."""


@command.command()
@click.option(
    "--folder",
    default="leaderboard",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="DIR/entries has the entries; the page is DIR/README.md.",
)
def build(folder: Path) -> None:
    """Rank the entries: score and interval, by family, profiles, and what else there is to weigh."""
    entries = read_entries(folder / "entries")
    boards = [board(entries, name) for name in SUITES if any(entry.suite == name for entry in entries.values())]
    write_atomically(folder / "README.md", to_markdown(boards))
    for one in boards:
        for placed in one.placed:
            click.echo(f"{placed.score:7.1f}  {placed.entry.name}")
    click.echo(f"written: {folder / 'README.md'}")


@command.command()
def contenders() -> None:
    """The shipped policies that take part with a rank, one a line."""
    for name in policy_names():
        if name not in REFERENCES:
            click.echo(name)
