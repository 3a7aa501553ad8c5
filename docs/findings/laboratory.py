"""What the questions have in common: cases of the planner, runs on common seeds, and estimates with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.statistics import compare
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.loaded import WARM_UP, settled_ttft_s, steady
from prfaas_env.scenario import Scenario

__all__ = [
    "HOMOGENEOUS",
    "NAIVE",
    "PRFAAS",
    "SAME_DC",
    "Estimate",
    "Laboratory",
    "case",
    "estimate",
    "held",
    "mean_s",
    "p99_s",
    "sustained_rps",
]

PRFAAS, HOMOGENEOUS, NAIVE, SAME_DC = "prfaas-pd", "homogeneous-pd", "naive-heterogeneous-pd", "same-dc-heterogeneous"
TRAFFIC = "paper-stationary"

# Of Λ_max, offered to see what a deployment keeps up with. Not more: a line that more and more transfers share
# finishes fewer of them, so that far above Λ_max a deployment that the link limits seems to sustain less.
OVERLOAD = 1.02
LONGEST_STEP_S = 300.0  # a policy that never acts need not be asked more often

Estimate = dict[str, float]
"""``value``, and ``low`` to ``high``, its 95 % interval over seeds."""

Measure = Callable[[np.ndarray, Scenario], float]


def case(deployment: str = PRFAAS, model: str | None = None, link_gbps: float | None = None, **more: Any) -> Question:
    """A shipped deployment on the paper's traffic, with another model or link; ``more`` as in ``plan``."""
    profiles = []
    if model is not None:
        roles = {"local": "8xh20"} if deployment == HOMOGENEOUS else {"remote": "8xh200", "local": "8xh20"}
        profiles = [f"{role}={model}-{instance}" for role, instance in roles.items()]
    return question(deployment, TRAFFIC, profiles=profiles, link_gbps=link_gbps, **more)


def held(asked: Question, as_in: Question) -> Question:
    """The same question with t and N_p as another one's plan has them."""
    return replace(asked, threshold_tokens=as_in.plan.threshold_tokens, n_prefill=as_in.plan.n_prefill)


class Laboratory:
    """Runs scenarios on one set of seeds, so that any two of them compare in pairs, and remembers their hashes."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = list(seeds)
        self.scenarios: dict[str, str] = {}

    def measured(
        self, label: str, scenario: Scenario, measures: Mapping[str, Measure], policy: Any = "static"
    ) -> dict[str, np.ndarray]:
        """Each measure of each run, float64 (seeds,). ``label`` names the scenario in the results."""
        self.scenarios[label] = scenario.hash
        rows = []
        for seed in self.seeds:
            requests = simulate(scenario, policy, seed).requests
            rows.append([measure(requests, scenario) for measure in measures.values()])
        return dict(zip(measures, np.array(rows, dtype=np.float64).T, strict=True))

    def planned(
        self, label: str, asked: Question, rate_rps: float, measures: Mapping[str, Measure]
    ) -> dict[str, np.ndarray]:
        """The plan of a question on steady Poisson traffic, nothing adapted."""
        scenario = replace(steady(asked, rate_rps), control_step_s=LONGEST_STEP_S)
        return self.measured(f"{label}, {rate_rps:.3f} req/s", scenario, measures)

    def sustained(self, label: str, asked: Question, rate_rps: float | None = None) -> np.ndarray:
        """The rate that a plan keeps up with, offered ``rate_rps`` or a little more than its own Λ_max."""
        rate_rps = OVERLOAD * asked.plan.lambda_max_rps if rate_rps is None else rate_rps
        return self.planned(label, asked, rate_rps, {"rps": sustained_rps})["rps"]


def mean_s(requests: np.ndarray, scenario: Scenario) -> float:
    """Mean TTFT after the warm-up."""
    return float(settled_ttft_s(requests, scenario.horizon_s).mean())


def p99_s(requests: np.ndarray, scenario: Scenario) -> float:
    """P99 of TTFT after the warm-up."""
    return float(np.percentile(settled_ttft_s(requests, scenario.horizon_s), 99))


def sustained_rps(requests: np.ndarray, scenario: Scenario) -> float:
    """The rate of the whole traffic that both sides of the router keep up with, seen under overload.

    Of each side the first tokens over the arrivals after the warm-up, times the offered rate; the lesser of the two.
    """
    begin_s, end_s = WARM_UP * scenario.horizon_s, scenario.horizon_s
    kept_up = []
    for side in (requests["remote"], ~requests["remote"]):
        arrival_s, first_s = requests["arrival_s"][side], requests["first_token_s"][side]
        arrived = int((arrival_s >= begin_s).sum())
        if arrived:
            kept_up.append(int(((first_s >= begin_s) & (first_s <= end_s)).sum()) / arrived)
    arrived = int((requests["arrival_s"] >= begin_s).sum())
    return min(kept_up) * arrived / (end_s - begin_s)


def estimate(values: np.ndarray, baseline: np.ndarray | float = 1.0) -> Estimate:
    """Mean over seeds, or the ratio of two means on the same seeds, with the interval of the leaderboard.

    The bootstrap of a mean is that of its ratio to one.
    """
    found = compare([(values, np.broadcast_to(baseline, values.shape))], np.random.default_rng(0))
    return {"value": found.ratio, "low": found.low, "high": found.high}
