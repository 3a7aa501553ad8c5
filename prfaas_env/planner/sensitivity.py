"""What Λ_max owes to each input: the plan solved again with the input a tenth lower and a tenth higher."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from prfaas_env.deployment import Deployment
from prfaas_env.planner.inputs import Question
from prfaas_env.profiles import Profile
from prfaas_env.theory.plan import HasLengths, Plan
from prfaas_env.workload.lengths import (
    Constant,
    Empirical,
    LengthLaw,
    Mixture,
    MixturePart,
    NominalWorkload,
    TruncatedLogNormal,
)

__all__ = ["STEP", "Sensitivity", "scaled", "sensitivity"]

STEP = 0.1
Asked = tuple[Deployment, HasLengths]


@dataclass(frozen=True)
class Sensitivity:
    """Λ_max with one input lower and higher, threshold and split solved again.

    ``low_ratio`` and ``high_ratio``: the input over its planned value (instances are whole: at least one less or more).
    ``elasticity``: percent of Λ_max a percent of the input, between the two. ``None`` where the input cannot go lower.
    """

    input: str
    low_ratio: float | None
    high_ratio: float
    lambda_max_low_rps: float | None
    lambda_max_high_rps: float
    threshold_low_tokens: float | None
    threshold_high_tokens: float | None
    n_prefill_low: int | None
    n_prefill_high: int | None
    elasticity: float


def sensitivity(asked: Question) -> tuple[Sensitivity, ...]:
    """Every input that the deployment has, the one that matters most first."""
    found = [_one(asked, name, change) for name, change in _scalings(asked.deployment)]
    found += [_one(asked, name, change, low, high) for name, change, low, high in _instances(asked)]
    return tuple(sorted(found, key=lambda one: -abs(one.elasticity)))


def _one(
    asked: Question,
    name: str,
    change: Callable[[Asked, float], Asked],
    low: float | None = 1.0 - STEP,
    high: float = 1.0 + STEP,
) -> Sensitivity:
    def planned(ratio: float) -> Plan:
        return asked.plan_of(*change((asked.deployment, asked.workload), ratio))

    below, above = planned(low) if low is not None else None, planned(high)
    base = (below or asked.plan).lambda_max_rps
    return Sensitivity(
        input=name,
        low_ratio=low,
        high_ratio=high,
        lambda_max_low_rps=below.lambda_max_rps if below else None,
        lambda_max_high_rps=above.lambda_max_rps,
        threshold_low_tokens=below.threshold_tokens if below else None,
        threshold_high_tokens=above.threshold_tokens,
        n_prefill_low=below.n_prefill if below else None,
        n_prefill_high=above.n_prefill,
        elasticity=math.log(above.lambda_max_rps / base) / math.log(high / (low or 1.0)),
    )


def _scalings(deployment: Deployment) -> Iterator[tuple[str, Callable[[Asked, float], Asked]]]:
    """Inputs that may have any value."""
    if deployment.link:
        yield "link capacity", _link
        yield "KV size", _kv
    if deployment.remote:
        yield "remote prefill speed", lambda asked, ratio: (_profile(asked[0], "remote", _faster, ratio), asked[1])
    if deployment.route_pinned != "remote":
        yield "local prefill speed", lambda asked, ratio: (_profile(asked[0], "local", _faster, ratio), asked[1])
    yield "decode speed", lambda asked, ratio: (_profile(asked[0], "local", _faster_decode, ratio), asked[1])
    yield "mean input length", lambda a, r: (a[0], NominalWorkload(scaled(a[1].lengths, r), a[1].output_tokens))
    yield "mean output length", lambda a, r: (a[0], NominalWorkload(a[1].lengths, scaled(a[1].output_tokens, r)))


def _instances(asked: Question) -> Iterator[tuple[str, Callable[[Asked, float], Asked], float | None, float]]:
    """Numbers of instances: a tenth of them, at least one."""
    deployment = asked.deployment
    least_local = 1 if deployment.route_pinned == "remote" else max(2, (asked.n_prefill or 0) + 1)
    for name, role, least in (("N_prfaas", "remote", 1), ("local instances", "local", least_local)):
        if cluster := getattr(deployment, role):
            n = cluster.instances
            step = max(1, round(STEP * n))

            def change(asked: Asked, ratio: float, role: str = role, n: int = n) -> Asked:
                return _with_instances(asked[0], role, round(ratio * n)), asked[1]

            yield name, change, (n - step) / n if n - step >= least else None, (n + step) / n


def _with_instances(deployment: Deployment, role: str, n: int) -> Deployment:
    if role == "remote" and deployment.remote:
        return replace(deployment, remote=replace(deployment.remote, instances=n))
    local = deployment.local
    return replace(deployment, local=replace(local, instances=n, prefill=min(local.prefill, n - 1)))


def _link(asked: Asked, ratio: float) -> Asked:
    deployment, workload = asked
    assert deployment.link is not None
    link = replace(deployment.link, capacity_gbps=ratio * deployment.link.capacity_gbps)
    return replace(deployment, link=link), workload


def _kv(asked: Asked, ratio: float) -> Asked:
    """Of both clusters: they serve one model."""
    deployment, workload = asked
    kv = deployment.local.profile.kv
    kv = replace(kv, fixed_mib=ratio * kv.fixed_mib, bytes_per_token=ratio * kv.bytes_per_token)
    local = replace(deployment.local, profile=replace(deployment.local.profile, kv=kv))
    assert deployment.remote is not None
    remote = replace(deployment.remote, profile=replace(deployment.remote.profile, kv=kv))
    return replace(deployment, local=local, remote=remote), workload


def _profile(
    deployment: Deployment, role: str, change: Callable[[Profile, float], Profile], ratio: float
) -> Deployment:
    cluster = getattr(deployment, role)
    return replace(deployment, **{role: replace(cluster, profile=change(cluster.profile, ratio))})


def _faster(profile: Profile, ratio: float) -> Profile:
    times_s = tuple(time_s / ratio for time_s in profile.prefill.times_s)
    return replace(profile, prefill=replace(profile.prefill, times_s=times_s))


def _faster_decode(profile: Profile, ratio: float) -> Profile:
    times_ms = tuple(time_ms / ratio for time_ms in profile.decode.step_times_ms)
    return replace(profile, decode=replace(profile.decode, step_times_ms=times_ms))


def scaled(law: LengthLaw, ratio: float) -> LengthLaw:
    """The law with every length times ``ratio``, and at least one token."""
    if isinstance(law, TruncatedLogNormal):
        low, high = max(1.0, ratio * law.low_tokens), max(2.0, ratio * law.high_tokens)
        return replace(law, mu=law.mu + math.log(ratio), low_tokens=low, high_tokens=high)
    if isinstance(law, Constant):
        return Constant(max(1.0, ratio * law.tokens))
    if isinstance(law, Empirical):
        return Empirical(tuple(max(1.0, ratio * tokens) for tokens in law.values_tokens))
    return Mixture(tuple(MixturePart(part.weight, scaled(part.law, ratio)) for part in law.parts))
