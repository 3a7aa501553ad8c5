"""Λ_max over what an operator may choose or meet: t × N_p, the link, the share that crosses, the price ratio."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prfaas_env.planner.cost import homogeneous_rps, usd_per_hour
from prfaas_env.planner.inputs import Question
from prfaas_env.planner.prices import unpriced
from prfaas_env.theory import closed_form as eq

__all__ = ["LinkSweep", "PriceSweep", "ShareSweep", "SplitSweep", "Sweep", "sweep"]

POINTS = 61
MOST_SPLITS = 40  # rows of a picture
LINK_RATIOS = (1 / 64, 16.0)  # of the planned capacity
PRICE_RATIOS = (0.25, 8.0)  # of a remote to a local instance; rents of accelerators of one time lie in between
SHARES = (0.01, 0.99)


@dataclass(frozen=True)
class SplitSweep:
    """``lambda_max_rps[i][k]`` at ``n_prefill[i]`` and ``threshold_tokens[k]``."""

    threshold_tokens: list[float]
    n_prefill: list[int]
    lambda_max_rps: list[list[float]]


@dataclass(frozen=True)
class LinkSweep:
    """The best t and N_p at each capacity of the link."""

    link_gbps: list[float]
    lambda_max_rps: list[float]
    threshold_tokens: list[float | None]
    n_prefill: list[int | None]


@dataclass(frozen=True)
class ShareSweep:
    """At the planned N_p, over P(L > t): what each side sustains of the whole traffic, and Λ_max (Eqs. 6 and 7)."""

    offload_fraction: list[float]
    threshold_tokens: list[float]
    remote_rps: list[float]
    local_rps: list[float]
    decode_rps: float
    lambda_max_rps: list[float]


@dataclass(frozen=True)
class PriceSweep:
    """Λ_max over that of local instances alone for the same money, by the price of a remote over a local instance."""

    price_ratio: list[float]
    ratio_homogeneous: list[float]


@dataclass(frozen=True)
class Sweep:
    """What applies to the deployment; ``None`` is what does not."""

    split: SplitSweep | None
    link: LinkSweep | None
    share: ShareSweep | None
    price: PriceSweep | None


def sweep(asked: Question) -> Sweep:
    """All curves of a deployment with a remote cluster; a route without choice has no threshold to sweep."""
    chosen = asked.deployment.route_pinned is None
    return Sweep(
        split=_split(asked) if chosen else None,
        link=_link(asked) if asked.deployment.link else None,
        share=_share(asked) if chosen else None,
        price=_price(asked) if asked.deployment.remote and not unpriced(asked.deployment) else None,
    )


def _split(asked: Question) -> SplitSweep:
    model = asked.model
    low, high = asked.deployment.prefill_bounds
    splits = np.unique(np.linspace(low, high, min(high - low + 1, MOST_SPLITS)).round().astype(np.int64))
    lengths = model.points.lengths_tokens
    thresholds = np.geomspace(lengths[0], max(float(lengths[-1]), 1.01 * lengths[0]), POINTS)
    cuts = model.cut_of(thresholds)
    rates = [model.lambda_max_rps(cuts, np.full(POINTS, float(n))).tolist() for n in splits]
    return SplitSweep(thresholds.tolist(), splits.tolist(), rates)


def _link(asked: Question) -> LinkSweep:
    deployment = asked.deployment
    assert deployment.link is not None
    gbps = (deployment.link.capacity_gbps * np.geomspace(*LINK_RATIOS, POINTS)).tolist()
    plans = [
        asked.plan_of(replace(deployment, link=replace(deployment.link, capacity_gbps=c)), asked.workload) for c in gbps
    ]
    return LinkSweep(
        gbps,
        [found.lambda_max_rps for found in plans],
        [found.threshold_tokens for found in plans],
        [found.n_prefill for found in plans],
    )


def _share(asked: Question) -> ShareSweep | None:
    model = asked.model
    kept = 1.0 - np.linspace(*SHARES, POINTS)
    cuts = np.interp(kept, model.loads[eq.KEPT], np.arange(model.loads.shape[1]))
    atom = model.points.atom[np.minimum(cuts, len(model.local_s) - 1).astype(np.int64)]
    cuts = np.unique(np.where(atom, np.ceil(cuts), cuts))
    at = eq.loads_at(model.loads, cuts)
    divided = (at[eq.KEPT] > 0.0) & (at[eq.KEPT] < 1.0)
    cuts, at = cuts[divided], at[:, divided]
    if not len(cuts):
        return None  # one length: nothing divides it
    split = np.full(len(cuts), float(asked.plan.n_prefill or 0))
    remote_s = eq.remote_load_s(at, model.n_remote, model.link_bps, asked.deployment.layerwise_pipelining)
    return ShareSweep(
        (1.0 - at[eq.KEPT]).tolist(),
        eq.threshold_at(model.log_lengths, cuts).tolist(),
        (1.0 / remote_s).tolist(),
        (1.0 / eq.local_load_s(at, split)).tolist(),
        float(model.decode_rps(split[:1])[0]),
        model.lambda_max_rps(cuts, split).tolist(),
    )


def _price(asked: Question) -> PriceSweep:
    deployment, found = asked.deployment, asked.plan
    assert deployment.remote is not None
    local_usd = deployment.local.profile.price_usd_per_hour
    instances = deployment.remote.instances
    rest = usd_per_hour(asked, found.lambda_max_rps) / local_usd - instances * (
        deployment.remote.profile.price_usd_per_hour / local_usd
    )  # everything but the remote instances, in local ones
    ratios = np.geomspace(*PRICE_RATIOS, POINTS)
    worth = found.lambda_max_rps / homogeneous_rps(asked)  # Λ_max in local instances
    return PriceSweep(ratios.tolist(), (worth / (rest + instances * ratios)).tolist())
