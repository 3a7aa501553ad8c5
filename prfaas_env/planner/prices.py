"""Prices as an operator states them, put in place of those of profiles and link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prfaas_env.config import ConfigError, from_mapping, nearest, read_yaml, to_mapping
from prfaas_env.deployment import Deployment, Link
from prfaas_env.profiles import Profile
from prfaas_env.resources import own_path

__all__ = ["priced", "prices_from", "unpriced"]

EGRESS = "egress"


def prices_from(texts: Sequence[str]) -> dict[str, tuple[float, str]]:
    """Each key with its price and where it was said, from ``KEY=VALUE[,KEY=VALUE…]`` or names of YAML files.

    Later ones replace earlier ones. Raises :class:`ConfigError` on what is neither, and on a price that is no number.
    """
    found: dict[str, tuple[float, str]] = {}
    for text in texts:
        if "=" in text:
            pairs = [pair.partition("=") for pair in text.split(",")]
            if not all(key.strip() for key, _, _ in pairs):
                raise ConfigError(f"--prices: expected KEY=VALUE, got {text!r}")
            found |= {key.strip(): (_number(value, f"--prices: {key.strip()}"), "--prices") for key, _, value in pairs}
        else:
            found |= {key: (_number(value, f"{text}: {key}"), text) for key, value in _file(text).items()}
    return found


def _file(text: str) -> Mapping[str, Any]:
    path = own_path(text)
    if not path.is_file():
        raise ConfigError(f"--prices: expected KEY=VALUE or a YAML file, got {text!r}, which is no file")
    plain = read_yaml(Path(path))
    if not isinstance(plain, Mapping) or not plain:
        raise ConfigError(f"{text}: expected a mapping of prices, such as '8xH20: 14.0'")
    return {str(key): value for key, value in plain.items()}


def _number(value: Any, where: str) -> float:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 <= number <= 1e9:
        raise ConfigError(f"{where}: expected a price in USD, a number ≥ 0, got {str(value)[:40]!r}")
    return number


def priced(deployment: Deployment, prices: Mapping[str, tuple[float, str]]) -> Deployment:
    """The deployment at these prices: an instance type, ``remote`` or ``local`` in USD per hour, ``egress`` per GB.

    What is not named keeps the price of its profile. Raises :class:`ConfigError` on a key that the deployment has
    nothing for, and where an instance is left without a price.
    """
    clusters = _clusters(deployment)
    valid = {*clusters, *(c.profile.instance for c in clusters.values())} | ({EGRESS} if deployment.link else set())
    for key, (_, where) in prices.items():
        if key not in valid:
            raise ConfigError(f"{where}: {key}: deployment {deployment.name!r} has no such price{nearest(key, valid)}")
    made = deployment
    for role, cluster in clusters.items():
        said = prices.get(role) or prices.get(cluster.profile.instance)
        if said is not None:
            profile = _changed(cluster.profile, said[0], said[1])
            made = replace(made, **{role: replace(cluster, profile=profile)})
    if made.link and EGRESS in prices:
        made = replace(made, link=from_mapping(Link, to_mapping(made.link) | {"price_usd_per_gb": prices[EGRESS][0]}))
    if prices and (missing := unpriced(made)):
        role, instance = missing[0]
        raise ConfigError(
            f"--prices: no price of the {role} instances ({instance}), and their profile states none: "
            f"add {instance}=USD_PER_HOUR"
        )
    return made


def _clusters(deployment: Deployment) -> dict[str, Any]:
    clusters = {"local": deployment.local, "remote": deployment.remote}
    return {role: cluster for role, cluster in clusters.items() if cluster is not None}


def _changed(profile: Profile, usd_per_hour: float, where: str) -> Profile:
    source = replace(profile.provenance["price_usd_per_hour"], source=f"given to the planner by {where}", how="assumed")
    provenance = {**profile.provenance, "price_usd_per_hour": source}
    return replace(profile, price_usd_per_hour=usd_per_hour, provenance=provenance)


def unpriced(deployment: Deployment) -> list[tuple[str, str]]:
    """Role and instance type of the clusters whose instances cost nothing, that is to say have no price."""
    clusters = _clusters(deployment)
    return [(role, c.profile.instance) for role, c in clusters.items() if c.profile.price_usd_per_hour == 0.0]
