"""The four things that can bind: remote compute, the link, local prefill, decode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from prfaas_env.planner.inputs import Question
from prfaas_env.theory import closed_form as eq

__all__ = ["Stage", "StageName", "stages"]

StageName = Literal["remote compute", "link", "local prefill", "decode"]
CLOSE = 1e-3  # of Λ_max: at an optimum two stages are equal but for the grain of the lengths


@dataclass(frozen=True)
class Stage:
    """One stage at the plan.

    ``capacity_rps``: the rate of the whole traffic that it sustains by itself, ``None`` where none of it comes here.
    ``utilisation_at_lambda_max``: Λ_max over that. ``limits``: it sets Λ_max (several may, Eq. 7).
    """

    stage: StageName
    instances: int | None
    capacity_rps: float | None
    utilisation_at_lambda_max: float
    limits: bool


def stages(asked: Question) -> tuple[Stage, ...]:
    """The stages that the deployment has, in the order of a request. Without layer-wise pipelining remote compute and
    link share one time, so that both are given with what they sustain together."""
    model, found = asked.model, asked.plan
    at = eq.loads_at(model.loads, np.array([asked.cut]))
    split = np.array([float(found.n_prefill or 0)])
    load_s: list[tuple[StageName, int | None, float]] = []
    if asked.deployment.remote:
        compute = at[eq.REMOTE, 0] / model.n_remote
        transfer = at[eq.SENT, 0] / model.link_bps
        if not asked.deployment.layerwise_pipelining:
            compute = transfer = compute + transfer
        load_s += [("remote compute", model.n_remote, compute), ("link", None, transfer)]
    if found.n_prefill:
        load_s.append(("local prefill", found.n_prefill, float(eq.local_load_s(at, split)[0])))
    load_s.append(("decode", found.n_decode, 1.0 / float(model.decode_rps(split)[0])))
    rate = found.lambda_max_rps
    return tuple(
        Stage(name, n, float(1.0 / s) if s > 0 else None, float(rate * s), bool(rate * s > 1.0 - CLOSE))
        for name, n, s in load_s
    )
