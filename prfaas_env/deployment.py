"""Deployments: which instances stand where, and the link between the two clusters (model.md sections 1 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from prfaas_env.config import ConfigError, Range, Record, from_mapping, to_mapping
from prfaas_env.extending import FileKind
from prfaas_env.profiles import NonNegative, Positive, Profile, load_profile
from prfaas_env.resources import locate

__all__ = [
    "Deployment",
    "Link",
    "LocalCluster",
    "PrefixCache",
    "RemoteCluster",
    "deployment_from_mapping",
    "load_deployment",
]


@dataclass(frozen=True)
class PrefixCache(Record):
    """The prefix cache of one cluster (model.md section 5). A capacity of zero switches it off.

    - ``capacity_gib``: size of the pool of the whole cluster.
    """

    capacity_gib: NonNegative = 0.0


@dataclass(frozen=True)
class RemoteCluster(Record):
    """The compute-dense prefill cluster (PrfaaS).

    - ``profile``: a shipped profile's name, a path to a profile file, or a profile in full.
    - ``instances``: N_prfaas.
    - ``cache``: its prefix cache.
    """

    profile: Profile
    instances: Annotated[int, Range(ge=1, le=100_000)]
    cache: PrefixCache = field(default_factory=PrefixCache)


@dataclass(frozen=True)
class LocalCluster(Record):
    """The prefill/decode cluster; ``prefill`` is the initial N_p, the rest decodes (N_d).

    - ``profile``: a shipped profile's name, a path to a profile file, or a profile in full.
    - ``instances``: N_p + N_d.
    - ``prefill``: N_p at the start, fewer than the instances; 0 sends every prompt to the remote cluster.
    - ``cache``: its prefix cache.
    """

    profile: Profile
    instances: Annotated[int, Range(ge=1, le=100_000)]
    prefill: Annotated[int, Range(ge=0)]
    cache: PrefixCache = field(default_factory=PrefixCache)

    def check(self) -> None:
        if self.prefill >= self.instances:
            raise ConfigError(
                f"prefill: expected fewer than the {self.instances} instances, so that one decodes, got {self.prefill}"
            )

    @property
    def decode(self) -> int:
        return self.instances - self.prefill


@dataclass(frozen=True)
class Link(Record):
    """The line from the remote to the local cluster. Its capacity may vary in a scenario; this is the nominal one.

    - ``capacity_gbps``: of the line, shared by all transfers.
    - ``one_way_delay_ms``: added to every transfer after its last byte.
    - ``connections_per_flow``: TCP connections of one KV transfer.
    - ``gbps_per_connection``: the most that one connection carries; times the connections it caps a transfer.
    - ``price_usd_per_gb``: price of egress, a decimal gigabyte.
    """

    capacity_gbps: Positive
    one_way_delay_ms: NonNegative
    connections_per_flow: Annotated[int, Range(ge=1)]
    gbps_per_connection: Positive
    price_usd_per_gb: NonNegative

    @property
    def flow_cap_gbps(self) -> float:
        """The most that one transfer can take: connections × rate of one (model.md section 3)."""
        return self.connections_per_flow * self.gbps_per_connection

    @property
    def one_way_delay_s(self) -> float:
        return self.one_way_delay_ms / 1000.0


@dataclass(frozen=True)
class Deployment(Record):
    """The two clusters, the line between them, and the constants of the system.

    - ``name``: of the deployment, by which results call it.
    - ``local``: the prefill/decode cluster.
    - ``remote``: the remote prefill cluster; left out, everything is prefilled locally. Needs ``link``.
    - ``link``: the line between the clusters. Needs ``remote``.
    - ``threshold_tokens``: the routing threshold t in force before a policy sets one; the ``static`` policy keeps it.
    - ``fabric_gbps``: rate at which one local prefill instance hands KV to a decode instance.
    - ``ttft_overhead_s``: constant part of every TTFT (tokenising, HTTP, scheduling).
    - ``conversion_s``: time that an emptied local instance takes to change its role.
    - ``layerwise_pipelining``: KV leaves layer by layer while the prompt is prefilled; ``false``: after it.
    - ``queue_limit_requests``: the most that wait for one prefill pool; further arrivals are refused. Without it
      none are.
    - ``notes``: free text.
    """

    name: str
    local: LocalCluster
    remote: RemoteCluster | None = None
    link: Link | None = None
    threshold_tokens: NonNegative = 0.0
    fabric_gbps: Positive = 800.0
    ttft_overhead_s: NonNegative = 0.07
    conversion_s: NonNegative = 30.0
    layerwise_pipelining: bool = True
    queue_limit_requests: Annotated[int, Range(ge=1)] | None = None
    notes: str = ""

    def check(self) -> None:
        if self.remote is None and self.local.prefill == 0:
            raise ConfigError(
                "local.prefill: expected at least 1: no instance could prefill (there is no remote cluster)"
            )
        if (self.remote is None) != (self.link is None):
            missing, present = ("link", "remote") if self.link is None else ("remote", "link")
            raise ConfigError(f"{missing}: missing key ({present!r} is given, and one needs the other)")
        if self.remote:
            for name in ("model", "kv", "attention"):  # the decode side must be able to use what the remote one sends
                theirs, ours = getattr(self.remote.profile, name), getattr(self.local.profile, name)
                if theirs != ours:
                    said = f"its {name} is {to_mapping(theirs)!r} but that of local.profile is {to_mapping(ours)!r}"
                    raise ConfigError(f"remote.profile: {said}")

    @property
    def route_pinned(self) -> str | None:
        """``"remote"`` or ``"local"`` where the design leaves no choice, else ``None`` (model.md section 4)."""
        if self.remote is None:
            return "local"
        return "remote" if self.local.prefill == 0 else None

    @property
    def prefill_bounds(self) -> tuple[int, int]:
        """The least and the most N_p that a policy may ask for."""
        if self.route_pinned == "remote":
            return 0, 0
        return 1, self.local.instances - 1

    @property
    def instances_usd_per_hour(self) -> float:
        remote = self.remote.instances * self.remote.profile.price_usd_per_hour if self.remote else 0.0
        return remote + self.local.instances * self.local.profile.price_usd_per_hour

    def with_split(self, prefill: int) -> Deployment:
        """The same deployment with another initial N_p."""
        return replace(self, local=replace(self.local, prefill=prefill))


def load_deployment(name_or_path: str | Path) -> Deployment:
    """A shipped deployment by name, or one's own by path. Raises :class:`ConfigError`."""
    path = locate("deployments", name_or_path)
    return from_mapping(Deployment, _FILES.read(path), f"{path}: ")


def deployment_from_mapping(plain: Any, where: str, beside: Path) -> Deployment:
    """A deployment inside a scenario: by name or path, in full, or as changes to another. Raises :class:`ConfigError`.

    Relative paths are looked for in the folder ``beside``.
    """
    return from_mapping(Deployment, _FILES.resolved(plain, f"{where}.", beside), where)


def anchor_deployment(plain: Any, beside: Path) -> Any:
    """The plain form with what it names settled: profiles in full, paths relative to the folder ``beside`` absolute."""
    done = {"extends": plain} if isinstance(plain, str) else plain
    if not isinstance(done, Mapping):
        return plain
    done = dict(done)
    if isinstance(done.get("extends"), str) and (beside / done["extends"]).is_file():
        done["extends"] = str((beside / done["extends"]).resolve())
    for side in ("remote", "local"):
        cluster = done.get(side)
        if isinstance(cluster, Mapping) and isinstance(cluster.get("profile"), str):
            name = cluster["profile"]
            own = beside / name
            done[side] = {**cluster, "profile": load_profile(own if "/" in name or own.is_file() else name)}
    return done


_FILES = FileKind("deployments", anchor_deployment)
