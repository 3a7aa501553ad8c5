"""One policy on one scenario and seed, from the first arrival until the last request has left."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import prfaas_env
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import DEFAULT_ENGINE, ControlLoop
from prfaas_env.evaluation.controls import PolicyRun, as_controls
from prfaas_env.policies import check_policy, load_policy, plans
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.result import as_timeline
from prfaas_env.simulator.summary import summarise

__all__ = ["ActionWarning", "policy_name", "simulate"]

ROUNDING = 1e-3  # by which an action may leave [-1, 1]


class ActionWarning(UserWarning):
    """A policy acts outside [-1, 1], where its actions are clipped."""


def simulate(scenario: Scenario | str | Path, policy: Any, seed: int = 0, engine: str = DEFAULT_ENGINE) -> PolicyRun:
    """Run a policy over an episode, then drain the system: every arrival is in the result.

    - ``scenario``: a record, a shipped name or a path to a YAML file.
    - ``policy``: a shipped name, a path to a model or to a Python file, or an object with Stable-Baselines3's
      ``predict`` and an attribute ``action_mode``, which says what form its actions have. One that plans has a method
      ``control(loop)`` instead, which gives the knobs.
    - ``seed``: ≥ 0; settles requests and link, which are then the same for every policy.

    Actions outside [-1, 1] are clipped, with one :class:`ActionWarning`; ``meta["clipped_actions"]`` counts them.
    Of a policy with a method ``held_back_steps(state)``, as a model with training ranges has, the summary also holds
    ``held_back_share``: in which share of the steps it gave way to its scheduler.
    Raises :class:`ConfigError` on a name that nothing bears, a negative seed or an object that is no policy, and
    ``ValueError`` on an action that is not two finite numbers.
    """
    scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    if seed < 0:
        raise ConfigError(f"seed: expected a whole number ≥ 0, got {seed}")
    name = policy_name(policy)
    acting = load_policy(policy, scenario) if isinstance(policy, (str, Path)) else check_policy(policy, name)
    loop = ControlLoop(scenario, action=getattr(acting, "action_mode", "absolute"), engine=engine)
    observation, state, start, ended, clipped = loop.reset(seed), None, np.array([True]), False, 0
    controls, decisions_s, planning = [], 0.0, plans(acting)
    while not ended:
        asked_s = time.perf_counter()
        if planning:
            control = acting.control(loop)
            decisions_s += time.perf_counter() - asked_s
            interval = loop.step_under(control)
        else:
            action, state = acting.predict(observation, state=state, episode_start=start, deterministic=True)
            decisions_s += time.perf_counter() - asked_s
            interval = loop.step(action)
            clipped += bool((np.abs(action) > 1.0 + ROUNDING).any())
        controls.append(interval.control)
        observation, start, ended = interval.observation, np.array([False]), interval.ended
    if clipped:
        warnings.warn(f"policy {name}: actions outside [-1, 1] were clipped", ActionWarning, stacklevel=2)
    requests, steps = loop.finish(), as_timeline(loop.timeline)
    summary = summarise(requests, steps, scenario.deployment, scenario.objectives, scenario.horizon_s)
    if held_back_steps := getattr(acting, "held_back_steps", None):
        summary["held_back_share"] = held_back_steps(state) / len(steps)
    return PolicyRun(
        requests=requests,
        summary=summary,
        timeline=steps,
        controls=as_controls(controls),
        decision_s=decisions_s / len(controls),
        meta={
            "policy": name,
            "scenario": scenario.name,
            "scenario_hash": scenario.hash,
            "seed": seed,
            "engine": engine,
            "clipped_actions": clipped,
            "version": prfaas_env.__version__,
        },
    )


def policy_name(policy: Any) -> str:
    """What a policy is called in results: its name or path as given, or the type of an object."""
    return str(policy) if isinstance(policy, (str, Path)) else getattr(policy, "name", type(policy).__name__)
