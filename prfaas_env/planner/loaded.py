"""TTFT under load: the plan simulated on steady Poisson traffic of the same laws, nothing adapted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.bootstrap import CONFIDENCE
from prfaas_env.planner.inputs import Question
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.engine import make_engine
from prfaas_env.simulator.log import REJECTED
from prfaas_env.workload.lengths import NominalWorkload
from prfaas_env.workload.workload import SyntheticWorkload

__all__ = [
    "LOADS",
    "SEEDS",
    "Loaded",
    "Objective",
    "check_objective",
    "loaded",
    "objective",
    "settled_ttft_s",
    "steady",
]

LOADS = (0.5, 0.8, 0.95)
SEEDS = 5
REQUESTS = 30_000  # of one run: at 95 % of Λ_max one run in five still differs from another by a fifth
WARM_UP = 0.2  # of the time; the system begins empty
SERVICES = 20.0  # a run lasts at least this many times what a request takes, unless that were too many requests
MOST_REQUESTS = 300_000
LONGEST_S = 7 * 86_400.0  # of a scenario
HIGHEST_LOAD, SEARCH_STEPS = 0.99, 10  # of the search for an objective: to a thousandth of Λ_max


@dataclass(frozen=True)
class Loaded:
    """TTFT at one load, over ``seeds`` runs: mean, P50, P90 and P99 are means over runs of each run's own figure.

    ``_low`` and ``_high``: 95 % interval over runs (Student's t). ``refused_share``: of the requests (too long).
    """

    load: float
    rate_rps: float
    seeds: int
    requests: int
    ttft_mean_s: float
    ttft_mean_low_s: float
    ttft_mean_high_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p90_low_s: float
    ttft_p90_high_s: float
    ttft_p99_s: float
    refused_share: float


@dataclass(frozen=True)
class Objective:
    """The largest rate at which P90 of TTFT meets an objective; ``at_least`` where 99 % of Λ_max still does."""

    ttft_p90_objective_s: float
    at: Loaded
    at_least: bool


def steady(asked: Question, rate_rps: float) -> Scenario:
    """Poisson arrivals of the laws at a rate, on the deployment with the planned t and N_p."""
    found, deployment = asked.plan, asked.deployment
    service_s = found.ttft_mean_s + asked.output_tokens_mean * deployment.local.profile.decode.step_s[-1]
    horizon_s = min(max(REQUESTS / rate_rps, SERVICES * service_s), MOST_REQUESTS / rate_rps, LONGEST_S)
    place = replace(
        deployment.with_split(found.n_prefill or 0),
        threshold_tokens=float(round(found.threshold_tokens or 0.0)),  # policies set whole tokens
    )
    laws = NominalWorkload(asked.workload.lengths, asked.workload.output_tokens)
    return Scenario(
        name="planned",
        deployment=place,
        workload=SyntheticWorkload(laws.lengths, laws.output_tokens),
        nominal=laws,
        rate_rps=rate_rps,
        horizon_s=horizon_s,
    )


def settled_ttft_s(requests: np.ndarray, horizon_s: float) -> np.ndarray:
    """TTFT of the requests of a run's log that were served and came after the warm-up."""
    ttft_s = requests["ttft_s"][requests["arrival_s"] >= WARM_UP * horizon_s]
    return ttft_s[np.isfinite(ttft_s)]


def loaded(asked: Question, load: float, seeds: int = SEEDS) -> Loaded:
    """Simulate at a share of Λ_max, with seeds 0, 1, … . Raises :class:`ConfigError` if every request is refused."""
    rate_rps = load * asked.plan.lambda_max_rps
    scenario = steady(asked, rate_rps)
    rows, arrived, refused = [], 0, 0
    for seed in range(seeds):
        log = _log(scenario, seed)
        ttft_s = settled_ttft_s(log, scenario.horizon_s)
        arrived, refused = arrived + len(log), refused + int((log["status"] == REJECTED).sum())
        if not len(ttft_s):
            raise ConfigError(
                f"{asked.workload_name}: the simulation served none of {len(log):,} requests: input and "
                "output together exceed context_limit_tokens of the profiles"
            )
        rows.append([float(ttft_s.mean()), *np.percentile(ttft_s, (50, 90, 99)).tolist()])
    mean, p50, p90, p99 = np.array(rows).T
    return Loaded(
        load=load,
        rate_rps=rate_rps,
        seeds=seeds,
        requests=arrived,
        ttft_mean_s=float(mean.mean()),
        ttft_mean_low_s=_interval(mean)[0],
        ttft_mean_high_s=_interval(mean)[1],
        ttft_p50_s=float(p50.mean()),
        ttft_p90_s=float(p90.mean()),
        ttft_p90_low_s=_interval(p90)[0],
        ttft_p90_high_s=_interval(p90)[1],
        ttft_p99_s=float(p99.mean()),
        refused_share=refused / arrived,
    )


def _log(scenario: Scenario, seed: int) -> np.ndarray:
    """The requests of ``prfaas_env.simulate`` with the policy ``static``, without a control loop that never acts."""
    engine = make_engine(DEFAULT_ENGINE, scenario.deployment, scenario.draw(seed).stream)
    engine.drain()
    return engine.log()


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Of the mean, by Student's t."""
    from scipy.special import stdtrit

    half = stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def objective(
    asked: Question, ttft_s: float, seeds: int = SEEDS, progress: Callable[[str], None] = lambda _: None
) -> Objective:
    """Search the load by bisection, every time on the same seeds, so that TTFT grows with the rate.

    Raises :class:`ConfigError` where the objective is below P90 in an empty system.
    """
    check_objective(asked, ttft_s)
    highest = loaded(asked, HIGHEST_LOAD, seeds)
    if highest.ttft_p90_s <= ttft_s:
        return Objective(ttft_s, highest, at_least=True)
    low, high, at = 0.0, HIGHEST_LOAD, None
    for step in range(SEARCH_STEPS):
        progress(f"Searching the rate that meets {ttft_s:g} s, {step + 1} of {SEARCH_STEPS} …")
        middle = (low + high) / 2.0
        found = loaded(asked, middle, seeds)
        if found.ttft_p90_s <= ttft_s:
            low, at = middle, found
        else:
            high = middle
    if at is None:
        raise ConfigError(_unmet(asked, ttft_s))
    return Objective(ttft_s, at, at_least=False)


def check_objective(asked: Question, ttft_s: float) -> None:
    """Raises :class:`ConfigError` on what is no time, and where P90 in an empty system is above it already."""
    if not 0.0 < ttft_s < np.inf:
        raise ConfigError(f"--slo-ttft: expected a number of seconds > 0, got {ttft_s:g}")
    if not ttft_s > asked.plan.ttft_p90_s:
        raise ConfigError(_unmet(asked, ttft_s))


def _unmet(asked: Question, ttft_s: float) -> str:
    unloaded = asked.plan.ttft_p90_s
    return (
        f"--slo-ttft: {ttft_s:g} s is not above P90 of TTFT in an empty system, {unloaded:.2f} s: no rate meets it; "
        "ask for more, or prefill on faster instances (--profile)"
    )
