"""``fetch``: a public trace into the cache, where scenarios find it."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Column, Table

from prfaas_env.workload.fetch import PUBLIC_TRACES, fetch, public_trace
from prfaas_env.workload.traces import cache_folder

__all__ = ["command"]


@click.command(name="fetch")
@click.argument("trace", required=False)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Put it here instead of in the cache; name the folder in PRFAAS_TRACES to have it found.",
)
def command(trace: str | None, folder: Path | None) -> None:
    """Download a public trace at a pinned revision and check it. Without TRACE, list what there is.

    A download that was interrupted is taken up where it ended.
    """
    place = folder or cache_folder()
    if trace is None:
        _list(place)
        return
    wanted = public_trace(trace)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(wanted.name, total=wanted.size_bytes)
        path, sha256 = fetch(wanted, place, lambda done, total: bar.update(task, completed=done, total=total))
    click.echo(f"{path}\nsha256 {sha256}{'' if wanted.sha256 else ' (not known beforehand: note it)'}")
    click.echo(f"{wanted.licence}; cite {wanted.cite}")
    click.echo(
        f"workload: {{kind: trace, format: {wanted.format}, path: {wanted.path}, sha256: {sha256}, "
        f"rate_scale: 1.0, length_scale: 1.0}}"
    )


def _list(place: Path) -> None:
    table = Table(Column("trace", no_wrap=True), "format", Column("MB", justify="right"), "licence", "here")
    for known in PUBLIC_TRACES.values():
        size = f"{known.size_bytes / 1e6:.1f}" if known.size_bytes else "?"
        here = "yes" if (place / known.path).is_file() else ""
        table.add_row(known.name, known.format, size, known.licence, here)
    console = Console()
    console.print(table)
    console.print(f"folder: {place}", soft_wrap=True)
