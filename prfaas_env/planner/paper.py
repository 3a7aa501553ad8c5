"""The paper's Table 6 (arXiv:2604.15039v2), to be shown beside the figures where a plan is one of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planning import DEFAULT_WORKLOAD
from prfaas_env.scenario import load_scenario
from prfaas_env.theory.plan import HasLengths

__all__ = ["TABLE_6", "Compared", "compared", "paper_case"]

# Rows of the table by the names of ``Plan``; of the text: the share sent out (49.6 %), egress ("about 13 Gbps") and the
# gain at equal cost ("about 15 %").
TABLE_6: Mapping[str, Mapping[str, float]] = {
    "prfaas-pd": {
        "threshold_tokens": 19400,
        "n_prfaas": 4,
        "n_prefill": 3,
        "n_decode": 5,
        "theta_prfaas_rps": 1.61,
        "theta_pd_p_rps": 1.64,
        "theta_pd_d_rps": 3.91,
        "lambda_max_rps": 3.24,
        "offload_fraction": 0.496,
        "egress_gbps": 13,
        "ttft_mean_s": 2.22,
        "ttft_p90_s": 3.51,
        "equal_cost_ratio": 1.15,
    },
    "homogeneous-pd": {
        "n_prefill": 9,
        "n_decode": 3,
        "theta_pd_p_rps": 2.11,
        "theta_pd_d_rps": 2.35,
        "lambda_max_rps": 2.11,
        "ttft_mean_s": 4.44,
        "ttft_p90_s": 9.73,
    },
    "naive-heterogeneous-pd": {
        "n_prfaas": 4,
        "n_decode": 8,
        "theta_prfaas_rps": 2.45,
        "theta_pd_d_rps": 6.25,
        "lambda_max_rps": 2.45,
        "ttft_mean_s": 1.74,
        "ttft_p90_s": 3.51,
    },
}


@dataclass(frozen=True)
class Compared:
    """One figure of the paper beside the planner's; ``relative_error`` is (here − paper) / paper."""

    key: str
    paper: float
    here: float
    relative_error: float


def paper_case(deployment: Deployment, workload: HasLengths) -> str | None:
    """The column of Table 6 that this deployment and workload are, value for value; ``None`` for any other."""
    name = deployment.name
    if name not in TABLE_6 or deployment != load_deployment(name):
        return None
    return name if workload == load_scenario(DEFAULT_WORKLOAD).nominal else None


def compared(case: str | None, figures: Mapping[str, Any]) -> tuple[Compared, ...]:
    """The paper's figures of a column beside those of ``figures`` by the same keys; nothing without a column."""
    column = TABLE_6[case] if case else {}
    known = [(key, paper, figures[key]) for key, paper in column.items() if figures.get(key) is not None]
    return tuple(Compared(key, float(paper), float(here), here / paper - 1.0) for key, paper, here in known)
