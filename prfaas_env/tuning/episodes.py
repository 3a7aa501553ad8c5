"""Plays the episodes of a trial: a policy with given parameters, on every scenario and seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.simulate import ActionWarning, simulate
from prfaas_env.parallel.executor import Executor
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario
from prfaas_env.workload.traces.trace import TraceWarning

__all__ = ["Episode", "geometric_means", "play_all"]


@dataclass(frozen=True)
class Episode:
    """``parameters`` replace published values, whatever a study has found."""

    policy: str
    parameters: Mapping[str, float]
    scenario: Scenario
    seed: int

    def __str__(self) -> str:
        return f"{self.policy} on {self.scenario.name}, seed {self.seed}"


def _mean_ttft_s(episode: Episode) -> float:
    """Mean TTFT over every arrival, the system drained; NaN without arrivals."""
    policy = load_policy(episode.policy, episode.scenario, tuned=False, **episode.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ActionWarning)  # an edge of the span may lie beyond the action's bounds
        warnings.simplefilter("ignore", TraceWarning)  # said when the scenarios were looked up
        return simulate(episode.scenario, policy, episode.seed).summary["ttft_mean_s"]


def play_all(
    executor: Executor,
    policy: str,
    parameters: Mapping[str, float],
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    advance: Callable[[], None],
) -> np.ndarray:
    """Mean TTFT in seconds, (scenarios, seeds); ``advance`` is called after each episode."""
    episodes = [Episode(policy, parameters, scenario, seed) for scenario in scenarios for seed in seeds]
    found = np.empty(len(episodes))
    for number, ttft_s in executor.run(_mean_ttft_s, episodes):
        found[number] = ttft_s
        advance()
    return found.reshape(len(scenarios), len(seeds))


def geometric_means(ttft_s: np.ndarray, scenarios: Sequence[Scenario]) -> tuple[float, ...]:
    """Of each scenario over its seeds, so that one overloaded episode does not drown the others.

    Raises :class:`ConfigError` for a scenario in which nothing arrives on any seed.
    """
    for scenario, row in zip(scenarios, ttft_s, strict=True):
        if np.isnan(row).all():
            raise ConfigError(f"scenario {scenario.name}: no request arrives in any episode")
    return tuple(np.exp(np.nanmean(np.log(ttft_s), axis=1)).tolist())
