"""``hindsight``: the best sequence of controls that a search finds when it knows the whole episode.

The search (:mod:`prfaas_env.search.improve`) begins with the sequences of other policies on the very same requests,
link and faults, and only ever replaces a sequence by one that costs less in the very same engine: it is never worse
than any policy that it began with (the scripted ones with their tuned parameters). Less is first fewer requests that
are never served, then less TTFT: where a queue limit refuses requests, a policy that serves fewer of them may have the
lower mean. What it finds can be put in force, so it is an achievable figure; that nothing better exists it does not
prove. With the default stretches a plan of an hour takes some ten seconds, with large prefix caches a minute (a
snapshot then holds them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range
from prfaas_env.environment.core import ControlLoop
from prfaas_env.policies import load_policy
from prfaas_env.profiles import Positive
from prfaas_env.scenario import Draw
from prfaas_env.simulator.control import Control, RoutingLaw

from .planning import PlanningParameters, PlanningPolicy, in_steps

__all__ = ["Hindsight", "HindsightParameters"]


@dataclass(frozen=True)
class HindsightParameters(PlanningParameters):
    """``starts``: the policies whose sequences it begins with; ``laws``: the routing laws that it may use (policies of
    others are no start). The ``finalists`` cheapest of the sequences are improved by the first half of the stretches,
    the best of those by the second."""

    stretches_s: tuple[Positive, ...] = (900.0, 300.0, 100.0, 300.0, 100.0, 30.0)
    starts: tuple[str, ...] = (
        "static",
        "closed-form",
        "windowed-closed-form",
        "sliding-window",
        "dual-timescale",
        "load-aware",
        "least-completion",
        "priced-completion",
        "learned",
    )
    laws: tuple[RoutingLaw, ...] = ("threshold", "price")
    finalists: Annotated[int, Range(ge=1)] = 2

    def check(self) -> None:
        super().check()
        if not self.starts or "hindsight" in self.starts or "mpc" in self.starts:
            raise ConfigError("starts: expected at least one policy, none that plans")
        if not self.laws:
            raise ConfigError("laws: expected at least one routing law")


class Hindsight(PlanningPolicy):
    """Plans at the first step, then follows its plan."""

    Parameters = HindsightParameters

    def control(self, loop: ControlLoop) -> Control:
        from prfaas_env.search.rollout import as_control

        step = len(loop.episode.signals)
        if step == 0:
            self._plan = self.plan(loop)
        return as_control(self._plan[step])

    def plan(self, loop: ControlLoop) -> np.ndarray:
        """The best sequence found for the loop's episode, float64 (steps, 4)."""
        from prfaas_env.search.branch import compiled_engine
        from prfaas_env.search.improve import improve
        from prfaas_env.search.rollout import Rollouts

        draw, scenario = loop.episode.draw, self.scenario
        own = _like(loop, "absolute")
        own.begin(draw)
        engine = compiled_engine(own.episode.engine, "hindsight")
        run = Rollouts(engine, scenario.control_step_s, scenario.horizon_s, cache_rule=loop.cache_rule)
        beginning = engine.snapshot()
        played = [_played(name, loop, draw) for name in self.parameters.starts]
        sequences = [knobs for law, knobs in played if law in self.parameters.laws]
        if not sequences:
            raise ConfigError(f"starts: expected a policy that routes by {' or '.join(self.parameters.laws)}")
        sequences.sort(key=lambda knobs: run.cost(beginning, knobs, 0))
        engine.restore(beginning)
        stretches = in_steps(self.parameters.stretches_s, scenario.control_step_s)
        coarse, fine = stretches[: len(stretches) // 2], stretches[len(stretches) // 2 :]
        bounds = scenario.deployment.prefill_bounds
        finalists = [
            improve([run], knobs, coarse, bounds, self.parameters.laws)
            for knobs in sequences[: self.parameters.finalists]
        ]
        knobs, _ = min(finalists, key=lambda found: found[1])
        return improve([run], knobs, fine, bounds, self.parameters.laws)[0]


def _like(loop: ControlLoop, action: str) -> ControlLoop:
    """A loop of the same scenario and rules, on the compiled engine."""
    return ControlLoop(loop.scenario, action, window_s=loop.window_s, cache_rule=loop.cache_rule)


def _played(name: str, like: ControlLoop, draw: Draw) -> tuple[RoutingLaw, np.ndarray]:
    """The routing law of a policy, and its sequence of controls on an episode."""
    from prfaas_env.search.rollout import as_knobs

    policy = load_policy(name, like.scenario)
    loop = _like(like, policy.action_mode)
    observation, state, start, sequence, ended = loop.begin(draw), None, np.array([True]), [], False
    while not ended:
        action, state = policy.predict(observation, state=state, episode_start=start, deterministic=True)
        interval = loop.step(action)
        sequence.append(as_knobs(interval.control))
        observation, start, ended = interval.observation, np.array([False]), interval.ended
    return interval.control.law, np.array(sequence)
