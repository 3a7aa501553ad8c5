"""``verify``: play an entry for the leaderboard again, and check every figure."""

from __future__ import annotations

import os
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from prfaas_env.config import ConfigError
from prfaas_env.leaderboard.entry import read_entry
from prfaas_env.leaderboard.verify import verify
from prfaas_env.parallel.choice import make_executor

__all__ = ["command"]


@click.command(name="verify")
@click.argument("entries", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="ENTRY.json…")
@click.option("--quick", is_flag=True, help="One episode a scenario, drawn anew each time.")
@click.option("--workers", type=click.IntRange(min=1), metavar="K", help="Processes; one a core if not given.")
def command(entries: tuple[Path, ...], quick: bool, workers: int | None) -> None:
    """Check entries: that they are whole, of a known suite, and that their controls give their figures.

    The recorded controls are played on the engine again, step by step. Ends at the first entry that is not what it
    says, with the reason.
    """
    console = Console(stderr=True)
    read = [(path, read_entry(path)) for path in entries]
    with make_executor(workers or os.cpu_count() or 1, None, console.print) as executor:
        for path, entry in read:
            try:
                episodes = verify(entry, executor, quick)
                exact = list(
                    track(episodes, "Verifying", console=console, transient=True, disable=not console.is_terminal)
                )
            except ConfigError as error:
                raise ConfigError(f"{path}: {error}") from None
            how = "to the last bit" if all(exact) else "to a part in 10⁹"
            click.echo(f"{path}: {len(exact)} of {len(entry.episodes)} episodes give their figures {how}")
