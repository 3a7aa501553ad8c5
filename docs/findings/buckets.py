"""A bucket of its own for ultra-long requests: the same instances as two fleets, divided by length for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from docs.findings.laboratory import case
from prfaas_env.deployment import Deployment
from prfaas_env.planner.inputs import Question
from prfaas_env.scenario import load_scenario
from prfaas_env.workload.lengths import NominalWorkload, TruncatedLogNormal

__all__ = [
    "BOUND_TOKENS",
    "SCENARIO",
    "TIMES",
    "Buckets",
    "bucket_choices",
    "large_fleet",
    "shared_fleet",
    "ultra_long_share",
]

SCENARIO = "ultra-long-tail"
BOUND_TOKENS = 131_072.0  # above it no prefill time is measured, and the paper's traffic has nothing
RESERVED = (2, 1, 0)  # remote instances, for the ultra-long
TIMES, LARGE_RESERVED = 10, (12, 16, 20)


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


def shared_fleet(times: int = 1) -> Question:
    """The paper's deployment, or one some times its size, on the traffic with the ultra-long tail."""
    asked = case()
    whole = asked.deployment
    assert whole.remote is not None
    assert whole.link is not None
    sized = replace(
        whole,
        local=replace(whole.local, instances=times * whole.local.instances),
        remote=replace(whole.remote, instances=times * whole.remote.instances),
        link=replace(whole.link, capacity_gbps=times * whole.link.capacity_gbps),
    )
    return replace(asked, deployment=sized, workload=load_scenario(SCENARIO).nominal)


@cache
def ultra_long_share() -> float:
    return 1.0 - float(_law(shared_fleet()).cdf(BOUND_TOKENS))


def bucket_choices() -> dict[str, Buckets]:
    """By the number of remote instances reserved, the division of the local ones that sustains most."""
    shared = shared_fleet()
    return {f"{remote} remote": _best(_divisions(shared, [remote])) for remote in RESERVED}


def large_fleet() -> tuple[Question, Buckets]:
    """A fleet ``TIMES`` the size, shared, and its best division into buckets."""
    shared = shared_fleet(TIMES)
    return shared, _best(_divisions(shared, LARGE_RESERVED))


def _best(divisions: Iterable[Buckets]) -> Buckets:
    return max(divisions, key=lambda one: one.sustained_rps)


def _divisions(shared: Question, reserved: Iterable[int]) -> Iterator[Buckets]:
    """Every division with so many remote instances for the ultra-long in which both fleets can prefill and decode."""
    whole, law = shared.deployment, _law(shared)
    assert whole.remote is not None
    for remote in reserved:
        for local in range(1 if remote else 2, whole.local.instances):
            yield Buckets(
                remote,
                local,
                _fleet(shared, remote, local, replace(law, low_tokens=BOUND_TOKENS)),
                _fleet(
                    shared,
                    whole.remote.instances - remote,
                    whole.local.instances - local,
                    replace(law, high_tokens=BOUND_TOKENS),
                ),
            )


def _fleet(shared: Question, remote: int, local: int, lengths: TruncatedLogNormal) -> Question:
    """Some of the instances, with their part of the line; a single local one decodes and prefills nothing."""
    workload = NominalWorkload(lengths, shared.workload.output_tokens)
    return replace(shared, deployment=_part(shared.deployment, remote, local), workload=workload)


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


def _law(shared: Question) -> TruncatedLogNormal:
    law = shared.workload.lengths
    assert isinstance(law, TruncatedLogNormal)
    return law
