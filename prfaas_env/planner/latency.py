"""Threshold and split for the least TTFT at a load, beside those for the highest rate, which Eqs. 7 and 8 give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prfaas_env.planner.inputs import Question
from prfaas_env.planner.loaded import Loaded, loaded
from prfaas_env.theory.latency import LatencyModel
from prfaas_env.theory.online import bin_shares

__all__ = ["LeastTtft", "least_ttft"]

OUTPUT_POINTS = 256  # of the law of outputs, for its variance


@dataclass(frozen=True)
class LeastTtft:
    """The setting of the least mean TTFT at a share ``load`` of the plan's Λ_max, simulated on the plan's own seeds.

    It is that of the least prediction, by queues in steady state (:mod:`prfaas_env.theory.latency`), or the plan's own
    where that turns out to be no better; ``predicted_mean_s`` then is ``None``. ``threshold_tokens`` is ``None`` where
    the deployment leaves no choice.
    """

    load: float
    rate_rps: float
    threshold_tokens: float | None
    n_prefill: int
    predicted_mean_s: float | None
    ttft_mean_s: float
    ttft_mean_low_s: float
    ttft_mean_high_s: float
    ttft_p90_s: float


def least_ttft(asked: Question, planned: Loaded) -> LeastTtft | None:
    """Search every split and threshold by prediction, simulate the best and compare it with the plan's own run.

    ``None`` where t or N_p is held, or where the deployment sends every prefill to the remote cluster.
    """
    held = asked.threshold_tokens is not None or asked.n_prefill is not None
    if held or asked.deployment.route_pinned == "remote":
        return None
    found = _predicted(asked, planned.rate_rps)
    if found is not None:
        setting, mean_s = found
        run = loaded(setting, planned.rate_rps / setting.plan.lambda_max_rps, planned.seeds)
        if run.ttft_mean_s < planned.ttft_mean_s:
            return _row(setting, planned.load, run, mean_s)
    return _row(asked, planned.load, planned, None)


def _row(setting: Question, load: float, run: Loaded, predicted_s: float | None) -> LeastTtft:
    return LeastTtft(
        load=load,
        rate_rps=run.rate_rps,
        threshold_tokens=setting.plan.threshold_tokens,
        n_prefill=setting.plan.n_prefill or 0,
        predicted_mean_s=predicted_s,
        ttft_mean_s=run.ttft_mean_s,
        ttft_mean_low_s=run.ttft_mean_low_s,
        ttft_mean_high_s=run.ttft_mean_high_s,
        ttft_p90_s=run.ttft_p90_s,
    )


def _predicted(asked: Question, rate_rps: float) -> tuple[Question, float] | None:
    """The setting of the least predicted mean TTFT, held, and that TTFT; ``None`` where none is said to keep up."""
    deployment, mean = asked.deployment, asked.output_tokens_mean
    outputs = asked.workload.output_tokens.points(OUTPUT_POINTS)
    model = LatencyModel(deployment)
    predicted_s = model.predict(
        rate_rps,
        bin_shares(asked.workload.lengths),
        mean,
        deployment.link.capacity_gbps if deployment.link else 0.0,
        output_scv=max(float(outputs.weights @ outputs.lengths_tokens**2) / mean**2 - 1.0, 0.0),
    ).ttft_s
    split, cut = np.unravel_index(int(np.argmin(predicted_s)), predicted_s.shape)
    if not np.isfinite(predicted_s[split, cut]):
        return None
    longest = float(asked.model.points.lengths_tokens[-1])
    threshold = min(float(model.thresholds_tokens[cut]), longest) if deployment.route_pinned is None else None
    setting = replace(asked, threshold_tokens=threshold, n_prefill=int(model.splits[split]))
    return setting, float(predicted_s[split, cut])
