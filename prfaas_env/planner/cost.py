"""What the plan costs, and what the same money buys without crossing data centres."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.planner.inputs import Question
from prfaas_env.planner.prices import unpriced
from prfaas_env.theory import closed_form as eq
from prfaas_env.theory.plan import StageModel, plan

__all__ = [
    "Cost",
    "EqualCost",
    "RemoteSize",
    "cost_at",
    "equal_cost",
    "homogeneous_rps",
    "remote_sizes",
    "same_dc",
    "usd_per_hour",
]

MOST_INSTANCES = 100_000  # that a cluster can have
MOST_SIZES = 16  # of the remote cluster that are tried
GB_PER_GBIT = 1.0 / 8.0


@dataclass(frozen=True)
class Cost:
    """The bill at a steady rate, a share ``load`` of Λ_max: instances and egress."""

    load: float
    rate_rps: float
    usd_per_hour: float
    usd_per_million_output_tokens: float


@dataclass(frozen=True)
class EqualCost:
    """The plan against two others that cost the same per hour, at Λ_max of each.

    - ``usd_per_hour``: instances, and egress at Λ_max.
    - ``homogeneous_instances``: local instances alone that this money rents (a fraction counts), at their best split;
      ``ratio_homogeneous`` is Λ_max over theirs. ``…_whole``: the same with whole instances, rounded down; ``None``
      where they cannot both prefill and decode.
    - ``break_even_remote_usd_per_hour``: what a remote instance may cost for ``ratio_homogeneous`` to be 1, all else as
      it is (below 0: not even for nothing).
    - ``same_dc``: the deployment's instances in one data centre, its fabric in place of the link, egress free;
      ``ratio_same_dc`` is requests per USD over theirs. ``same_dc_premium_usd_per_hour``: how much dearer a remote
      instance would have to be inside the local data centre for the two to break even (0 or less: never worth it
      at equal price).
    """

    usd_per_hour: float
    homogeneous_instances: float
    homogeneous_lambda_max_rps: float
    ratio_homogeneous: float
    homogeneous_whole_lambda_max_rps: float | None
    ratio_homogeneous_whole: float | None
    break_even_remote_usd_per_hour: float
    same_dc_lambda_max_rps: float
    same_dc_usd_per_hour: float
    ratio_same_dc: float
    same_dc_premium_usd_per_hour: float


@dataclass(frozen=True)
class RemoteSize:
    """The plan with another number of remote instances, over local instances alone for the same money."""

    n_prfaas: int
    lambda_max_rps: float
    usd_per_hour: float
    ratio_homogeneous: float


def usd_per_hour(asked: Question, rate_rps: float) -> float:
    """Instances and egress at a rate of the whole traffic."""
    deployment, found = asked.deployment, asked.plan
    gb_per_s = found.egress_gbps * GB_PER_GBIT * rate_rps / found.lambda_max_rps
    egress_usd_per_s = gb_per_s * deployment.link.price_usd_per_gb if deployment.link else 0.0
    return deployment.instances_usd_per_hour + 3600.0 * egress_usd_per_s


def cost_at(asked: Question, load: float) -> Cost | None:
    """At a share of Λ_max; ``None`` where an instance has no price."""
    if unpriced(asked.deployment):
        return None
    rate_rps = load * asked.plan.lambda_max_rps
    usd = usd_per_hour(asked, rate_rps)
    return Cost(load, rate_rps, usd, usd / 3600.0 / (rate_rps * asked.output_tokens_mean) * 1e6)


def equal_cost(asked: Question) -> EqualCost | None:
    """``None`` without a remote cluster, or where an instance has no price."""
    deployment, found = asked.deployment, asked.plan
    if deployment.remote is None or unpriced(deployment):
        return None
    usd = usd_per_hour(asked, found.lambda_max_rps)
    local_usd, remote_usd = (c.profile.price_usd_per_hour for c in (deployment.local, deployment.remote))
    instances, n_remote = usd / local_usd, deployment.remote.instances
    homogeneous = instances * homogeneous_rps(asked)
    whole = _whole(asked, int(instances + 1e-9))
    inside = same_dc(deployment)
    inside_rps = asked.plan_of(inside, asked.workload).lambda_max_rps
    inside_usd = inside.instances_usd_per_hour
    rate = found.lambda_max_rps
    worth_usd = rate / (homogeneous / instances) * local_usd  # of local instances that sustain as much
    return EqualCost(
        usd_per_hour=usd,
        homogeneous_instances=instances,
        homogeneous_lambda_max_rps=homogeneous,
        ratio_homogeneous=rate / homogeneous,
        homogeneous_whole_lambda_max_rps=whole,
        ratio_homogeneous_whole=rate / whole if whole else None,
        break_even_remote_usd_per_hour=(worth_usd - (usd - n_remote * remote_usd)) / n_remote,
        same_dc_lambda_max_rps=inside_rps,
        same_dc_usd_per_hour=inside_usd,
        ratio_same_dc=rate / usd / (inside_rps / inside_usd),
        same_dc_premium_usd_per_hour=(usd * inside_rps / rate - inside_usd) / n_remote,
    )


def remote_sizes(asked: Question) -> tuple[RemoteSize, ...]:
    """Every number of remote instances up to twice the present one (of many, some); none without one or its price."""
    remote, found = asked.deployment.remote, []
    if remote is None or unpriced(asked.deployment):
        return ()
    per_usd = homogeneous_rps(asked) / asked.deployment.local.profile.price_usd_per_hour
    most = min(2 * remote.instances, MOST_INSTANCES)
    for n in np.unique(np.linspace(1, most, min(most, MOST_SIZES)).round().astype(int)).tolist():
        sized = replace(asked, deployment=replace(asked.deployment, remote=replace(remote, instances=n)))
        rate = sized.plan.lambda_max_rps
        usd = usd_per_hour(sized, rate)
        found.append(RemoteSize(n, rate, usd, rate / (usd * per_usd)))
    return tuple(found)


def homogeneous_rps(asked: Question) -> float:
    """What one local instance sustains by itself, divided between prefill and decode as is best (Eq. 8, not whole)."""
    model = StageModel.of(_homogeneous(asked.deployment, 2), asked.workload, asked.form)
    prefill_s = float(model.loads[eq.LOCAL, -1])
    decode_s = 1.0 / float(model.decode_rps(np.array([1.0]))[0])  # one of two decodes
    return 1.0 / (prefill_s + decode_s)


def _whole(asked: Question, instances: int) -> float | None:
    if not 2 <= instances <= MOST_INSTANCES:
        return None
    return plan(_homogeneous(asked.deployment, instances), asked.workload, form=asked.form).lambda_max_rps


def _homogeneous(deployment: Deployment, instances: int) -> Deployment:
    return replace(deployment, remote=None, link=None, local=replace(deployment.local, instances=instances, prefill=1))


def same_dc(deployment: Deployment) -> Deployment:
    """The same instances in one data centre: every remote one sends over the fabric, without delay, for nothing."""
    assert deployment.remote is not None
    assert deployment.link is not None
    fabric = replace(
        deployment.link,
        capacity_gbps=deployment.fabric_gbps * deployment.remote.instances,
        one_way_delay_ms=0.0,
        connections_per_flow=1,
        gbps_per_connection=deployment.fabric_gbps,
        price_usd_per_gb=0.0,
    )
    return replace(deployment, link=fabric)
