"""``list``: what can be named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Column, Table

from prfaas_env.config import nearest
from prfaas_env.resources import names
from prfaas_env.theory.closed_form import kv_throughput_bps

__all__ = ["command"]


class _Kind(NamedTuple):
    """How one kind of thing is listed: its names, the columns beside them, and a row for a name."""

    names: Callable[[], list[str]]
    columns: tuple[str, ...] = ()
    row: Callable[[str], tuple[str, ...]] = lambda _: ()


def _deployment(name: str) -> tuple[str, ...]:
    from prfaas_env.deployment import load_deployment

    d = load_deployment(name)
    remote = f"{d.remote.instances} × {d.remote.profile.instance}" if d.remote else "–"
    local = f"{d.local.instances} × {d.local.profile.instance} ({d.local.prefill}/{d.local.decode})"
    return remote, local, f"{d.link.capacity_gbps:g}" if d.link else "–", f"{d.instances_usd_per_hour:g}"


def _profile(name: str) -> tuple[str, ...]:
    from prfaas_env.profiles import load_profile

    p, length = load_profile(name), 32 * 1024
    seconds = float(p.prefill.time_s(length))
    phi_bps = float(kv_throughput_bps(8.0 * p.kv.size_bytes(length), p.prefill.time_s(length)))
    how = p.provenance["prefill"].how
    return f"{seconds:.2f}", how, f"{phi_bps / 1e9:.2f}", f"{p.price_usd_per_hour:g}"


def _scenario(name: str) -> tuple[str, ...]:
    from prfaas_env.scenario import load_scenario

    s = load_scenario(name)
    return s.deployment.name, s.family, s.split, ", ".join(s.tags)


def _policy_names() -> list[str]:
    from prfaas_env.policies import policy_names

    return policy_names()


def _policy(name: str) -> tuple[str, ...]:
    from prfaas_env.policies import policy_line

    return (policy_line(name),)


KINDS = {
    "deployments": _Kind(
        lambda: names("deployments"),
        ("remote prefill", "local (N_p/N_d)", "link Gbps", "USD/h"),
        _deployment,
    ),
    "profiles": _Kind(
        lambda: names("hardware_profiles"),
        ("T(32K) s", "T is", "Φ_kv(32K) Gbps", "USD/h"),  # the names say model and instance
        _profile,
    ),
    "scenarios": _Kind(lambda: names("scenarios"), ("deployment", "family", "split", "tags"), _scenario),
    "policies": _Kind(_policy_names, ("what it does",), _policy),
}


@click.command(name="list")
@click.argument("kind", required=False, metavar="KIND")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a mapping from kind to names.")
def command(kind: str | None, as_json: bool) -> None:
    """What can be named. KIND: deployments, profiles, scenarios or policies; without it, all of them."""
    if kind is not None and kind not in KINDS:
        raise click.UsageError(f"unknown kind {kind!r}{nearest(kind, KINDS)}")
    wanted = [kind] if kind else list(KINDS)
    if as_json:
        click.echo(json.dumps({k: KINDS[k].names() for k in wanted}, indent=2))
        return
    console = Console()
    for k in wanted:
        table = Table(Column(k, no_wrap=True), *KINDS[k].columns)
        for name in KINDS[k].names():
            table.add_row(name, *KINDS[k].row(name))
        console.print(table)
