"""A bucket of its own for ultra-long requests: the same instances as two fleets, divided by length for good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from docs.findings.laboratory import case
from prfaas_env.deployment import Deployment
from prfaas_env.planner.inputs import Question
from prfaas_env.scenario import load_scenario
from prfaas_env.workload.lengths import NominalWorkload, TruncatedLogNormal

__all__ = ["BOUND_TOKENS", "SCENARIO", "Buckets", "bucket_choices", "shared_fleet", "ultra_long_share"]

SCENARIO = "ultra-long-tail"
BOUND_TOKENS = 131_072.0  # above it no prefill time is measured, and the paper's traffic has nothing
RESERVED = (2, 1, 0)  # remote instances, for the ultra-long


@dataclass(frozen=True)
class Buckets:
    """Two fleets, each with t and N_p of its own plan: one for what is above the bound, one for the rest."""

    remote: int
    local: int
    ultra_long: Question
    ordinary: Question

    @property
    def sustained_rps(self) -> float:
        """The rate of the whole traffic that both sustain."""
        share = ultra_long_share()
        return min(self.ultra_long.plan.lambda_max_rps / share, self.ordinary.plan.lambda_max_rps / (1.0 - share))


def shared_fleet() -> Question:
    """The paper's deployment on the traffic with the ultra-long tail."""
    return replace(case(), workload=load_scenario(SCENARIO).nominal)


def ultra_long_share() -> float:
    return 1.0 - float(_law().cdf(BOUND_TOKENS))


def bucket_choices() -> dict[str, Buckets]:
    """By the number of remote instances reserved, the division of the local ones that sustains most."""
    divisions = list(_divisions())
    return {
        f"{remote} remote": max((d for d in divisions if d.remote == remote), key=lambda one: one.sustained_rps)
        for remote in RESERVED
    }


def _divisions() -> Iterator[Buckets]:
    """Every division in which both fleets can prefill and decode."""
    whole = shared_fleet().deployment
    assert whole.remote is not None
    law = _law()
    for remote in RESERVED:
        for local in range(1 if remote else 2, whole.local.instances):
            yield Buckets(
                remote,
                local,
                _fleet(remote, local, replace(law, low_tokens=BOUND_TOKENS)),
                _fleet(
                    whole.remote.instances - remote,
                    whole.local.instances - local,
                    replace(law, high_tokens=BOUND_TOKENS),
                ),
            )


def _fleet(remote: int, local: int, lengths: TruncatedLogNormal) -> Question:
    """Some of the instances, with their part of the line; a single local one decodes and prefills nothing."""
    asked = shared_fleet()
    workload = NominalWorkload(lengths, asked.workload.output_tokens)
    return replace(asked, deployment=_part(asked.deployment, remote, local), workload=workload)


def _part(whole: Deployment, remote: int, local: int) -> Deployment:
    assert whole.remote is not None
    assert whole.link is not None
    part = replace(whole, local=replace(whole.local, instances=local, prefill=min(1, local - 1)))
    if remote == 0:
        return replace(part, remote=None, link=None)
    capacity_gbps = whole.link.capacity_gbps * remote / whole.remote.instances
    return replace(
        part,
        remote=replace(whole.remote, instances=remote),
        link=replace(whole.link, capacity_gbps=capacity_gbps),
    )


def _law() -> TruncatedLogNormal:
    law = load_scenario(SCENARIO).nominal.lengths
    assert isinstance(law, TruncatedLogNormal)
    return law
