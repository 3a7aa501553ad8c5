"""One policy on one scenario and seed, from the first arrival until the last request has left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import prfaas_env
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import DEFAULT_ENGINE, ControlLoop
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.result import RunResult, as_timeline
from prfaas_env.simulator.summary import summarise

__all__ = ["policy_name", "simulate"]

DEFAULT_ACTION_MODE = "residual"


def simulate(scenario: Scenario | str | Path, policy: Any, seed: int = 0, engine: str = DEFAULT_ENGINE) -> RunResult:
    """Run a policy over an episode, then drain the system: every arrival is in the result.

    - ``scenario``: a record, a shipped name or a path to a YAML file.
    - ``policy``: a shipped name, a path to ``model.zip``, or an object with Stable-Baselines3's ``predict``; its
      attribute ``action_mode`` says which form its actions have (``residual`` where it has none).
    - ``seed``: ≥ 0; settles requests and link, which are then the same for every policy.

    Raises :class:`ConfigError` on a name that nothing bears, a negative seed or an object without ``predict``.
    """
    scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    if seed < 0:
        raise ConfigError(f"seed: expected a whole number ≥ 0, got {seed}")
    acting = load_policy(policy, scenario) if isinstance(policy, (str, Path)) else policy
    if not callable(getattr(acting, "predict", None)):
        raise ConfigError(f"policy: expected a name, a path or an object with predict, got {policy!r}"[:200])
    loop = ControlLoop(scenario, action=getattr(acting, "action_mode", DEFAULT_ACTION_MODE), engine=engine)
    observation, state, start, ended = loop.reset(seed), None, np.array([True]), False
    while not ended:
        action, state = acting.predict(observation, state=state, episode_start=start, deterministic=True)
        interval = loop.step(action)
        observation, start, ended = interval.observation, np.array([False]), interval.ended
    requests, steps = loop.finish(), as_timeline(loop.timeline)
    return RunResult(
        requests=requests,
        summary=summarise(requests, steps, scenario.deployment, scenario.objectives, scenario.horizon_s),
        timeline=steps,
        meta={
            "policy": policy_name(policy),
            "scenario": scenario.name,
            "scenario_hash": scenario.hash,
            "seed": seed,
            "engine": engine,
            "version": prfaas_env.__version__,
        },
    )


def policy_name(policy: Any) -> str:
    """What a policy is called in results: its name or path as given, or the type of an object."""
    return str(policy) if isinstance(policy, (str, Path)) else getattr(policy, "name", type(policy).__name__)
