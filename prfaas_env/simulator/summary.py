"""The aggregates of a run (model.md section 8).

Two kinds, by what they are about:

- **Requests** (TTFT, TPOT, end-to-end, goodput, offload, counts): over *every* arrival. A run is drained, so none
  escapes an average by being slow; a rejected one has no latency, counts against goodput, and is reported.
- **The window** [0, horizon] in which requests arrive (throughput, utilisation, egress, conversions, cost): what the
  drain does afterwards is left out, so that every policy is measured, and billed, over the same time.

An average over nothing is NaN.
"""

from __future__ import annotations

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.simulator.log import COMPLETED, IN_SYSTEM, REJECTED

__all__ = ["meets_objectives", "summarise"]

BYTES_PER_GB = 1e9
NAN = float("nan")


def summarise(
    requests: np.ndarray, timeline: np.ndarray, deployment: Deployment, objectives: Objectives, horizon_s: float
) -> dict[str, float]:
    """Aggregates of a request log (``REQUEST_DTYPE``) and a timeline (``TIMELINE_DTYPE``).

    Names end in their unit: ``_s`` seconds, ``_rps`` requests per second, Gbps, USD; shares have none.
    """
    return {
        **_counts(requests),
        **_latency("ttft", requests["ttft_s"]),
        **_latency("tpot", requests["tpot_s"]),
        **_latency("end_to_end", requests["ttft_s"] + requests["finish_s"] - requests["first_token_s"]),
        **_service(requests, objectives, horizon_s),
        **_stages(timeline, deployment, horizon_s),
        **_cost(requests, timeline, deployment, horizon_s),
    }


def meets_objectives(requests: np.ndarray, objectives: Objectives) -> np.ndarray:
    """Whether each request completed with TTFT and TPOT within its class's objectives. Bool, shape (n,)."""
    ttft_s = np.asarray(objectives.ttft_s)[requests["service_class"]]
    tpot_s = np.asarray(objectives.tpot_s)[requests["service_class"]]
    return (requests["status"] == COMPLETED) & (requests["ttft_s"] <= ttft_s) & (requests["tpot_s"] <= tpot_s)


def _counts(requests: np.ndarray) -> dict[str, float]:
    status = requests["status"]
    by_status = {"completed": COMPLETED, "rejected": REJECTED, "in_system": IN_SYSTEM}
    return {"arrived": len(requests), **{name: int((status == code).sum()) for name, code in by_status.items()}}


def _latency(name: str, values_s: np.ndarray) -> dict[str, float]:
    """Mean and percentiles (linear between order statistics) of what has happened."""
    known = values_s[np.isfinite(values_s)]
    if not len(known):
        return {f"{name}_{what}_s": NAN for what in ("mean", "p50", "p90", "p99")}
    p50, p90, p99 = np.percentile(known, (50, 90, 99))
    return {
        f"{name}_mean_s": float(known.mean()),
        f"{name}_p50_s": float(p50),
        f"{name}_p90_s": float(p90),
        f"{name}_p99_s": float(p99),
    }


def _service(requests: np.ndarray, objectives: Objectives, horizon_s: float) -> dict[str, float]:
    good = int(meets_objectives(requests, objectives).sum())
    admitted = requests["status"] != REJECTED
    return {
        "goodput": _ratio(good, len(requests)),
        "goodput_rps": good / horizon_s,
        "throughput_rps": int(_finished(requests, horizon_s).sum()) / horizon_s,
        "offload_fraction": _ratio(int(requests["remote"][admitted].sum()), int(admitted.sum())),
    }


def _stages(timeline: np.ndarray, deployment: Deployment, horizon_s: float) -> dict[str, float]:
    """Utilisation of each stage and of the link, weighted by the capacity that each control step had."""
    steps = _window(timeline, horizon_s)
    interval_s = steps["interval_s"]
    has_remote, has_local_prefill = deployment.remote is not None, deployment.route_pinned != "remote"
    step_gbps = 8e-9 * steps["link_sent_bytes"] / interval_s
    sent, capacity = steps["link_sent_bytes"].sum(), steps["link_capacity_bytes"].sum()
    return {
        "remote_prefill_utilisation": _mean(steps["remote_busy_share"], interval_s) if has_remote else NAN,
        "local_prefill_utilisation": _mean(steps["local_busy_share"], interval_s * steps["prefill_nodes"])
        if has_local_prefill
        else NAN,
        "decode_utilisation": _mean(steps["decode_busy_share"], interval_s * steps["decode_nodes"]),
        "egress_gbps_mean": _mean(step_gbps, interval_s) if has_remote else 0.0,
        "egress_gbps_p95": float(np.percentile(step_gbps, 95)) if has_remote and len(steps) else 0.0,
        "egress_link_share": _ratio(sent, capacity) if has_remote else NAN,
        "conversions": round(float(steps["conversions"].sum())),
    }


def _cost(requests: np.ndarray, timeline: np.ndarray, deployment: Deployment, horizon_s: float) -> dict[str, float]:
    """The bill of the window, and what one dollar of it bought."""
    finished = _finished(requests, horizon_s)
    instances_usd = deployment.instances_usd_per_hour * horizon_s / 3600.0
    sent_bytes = float(_window(timeline, horizon_s)["link_sent_bytes"].sum())
    egress_usd = sent_bytes / BYTES_PER_GB * deployment.link.price_usd_per_gb if deployment.link else 0.0
    cost_usd = instances_usd + egress_usd
    return {
        "cost_usd": cost_usd,
        "egress_usd": egress_usd,
        "usd_per_million_output_tokens": _ratio(cost_usd, requests["output_tokens"][finished].sum() / 1e6),
        "requests_per_usd": _ratio(int(finished.sum()), cost_usd),
    }


def _finished(requests: np.ndarray, horizon_s: float) -> np.ndarray:
    """Whether each request completed inside the window."""
    return (requests["status"] == COMPLETED) & (requests["finish_s"] <= horizon_s)


def _window(timeline: np.ndarray, horizon_s: float) -> np.ndarray:
    """The control steps that end by the horizon (a millionth of a second is rounding)."""
    return timeline[timeline["time_s"] <= horizon_s + 1e-6]


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else NAN


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return _ratio(float((values * weights).sum()), float(weights.sum()))
