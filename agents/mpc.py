"""``mpc``: model-predictive control, the search of ``hindsight`` on forecasts instead of the future.

Every ``replan_s`` it draws ``futures`` of ``horizon_s`` from what arrived lately (Poisson arrivals at the rate of the
last ``rate_window_s``, uncached and output lengths drawn anew from the ``window_s`` before now, the link as it is, and
what is down stays down), gives each to a twin of the run as it stands, and puts the best sequence over all of them in
force until it plans again. It begins with what is left of the last plan and with least completion, whichever forecasts
to cost less.

Its twin holds what is in the system exactly, output lengths and all, so it knows a little more than an operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range
from prfaas_env.environment.core import ControlLoop
from prfaas_env.profiles import Positive
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import REJECTED
from prfaas_env.theory.online import PRIOR_REQUESTS
from prfaas_env.workload.stream import RequestStream

from .planning import PlanningParameters, PlanningPolicy, in_steps

__all__ = ["ModelPredictive", "ModelPredictiveParameters"]

MOST_REQUESTS = 100_000  # of one forecast


@dataclass(frozen=True)
class ModelPredictiveParameters(PlanningParameters):
    """Times in seconds; see the module."""

    stretches_s: tuple[Positive, ...] = (300.0, 60.0)
    horizon_s: Positive = 300.0
    replan_s: Positive = 30.0
    window_s: Positive = 600.0
    rate_window_s: Positive = 120.0
    futures: Annotated[int, Range(ge=1, le=1000)] = 4

    def check(self) -> None:
        super().check()
        if self.horizon_s < self.replan_s:
            raise ConfigError(f"horizon_s: expected at least replan_s {self.replan_s:g}, got {self.horizon_s:g}")


class ModelPredictive(PlanningPolicy):
    """Plans on forecasts, again and again."""

    Parameters = ModelPredictiveParameters

    def control(self, loop: ControlLoop) -> Control:
        from prfaas_env.search.rollout import as_control

        step = len(loop.episode.signals)
        if step == 0:
            self._plan = np.empty((0, 4))
        every = in_steps([self.parameters.replan_s], self.scenario.control_step_s)[0]
        if step % every == 0:
            self._plan = self._replan(loop, self._plan[every:], np.random.default_rng(step))
        return as_control(self._plan[step % every])

    def _replan(self, loop: ControlLoop, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The best sequence over the forecasts, float64 (steps of the horizon, 4)."""
        from prfaas_env.search.branch import branch, compiled_engine
        from prfaas_env.search.improve import improve, total
        from prfaas_env.search.rollout import Rollouts, as_knobs

        own, step_s = self.parameters, self.scenario.control_step_s
        engine = compiled_engine(loop.episode.engine, "mpc")
        steps, *stretches = in_steps([own.horizon_s, *own.stretches_s], step_s)
        now_s = engine.now_s
        runs = [
            Rollouts(branch(engine, future), step_s, now_s + steps * step_s, now_s, loop.cache_rule)
            for future in self._futures(loop, steps * step_s, rng)
        ]
        greedy = np.tile(as_knobs(Control(loop.advice.n_prefill, law="price")), (steps, 1))
        begin = [greedy]
        if len(left):
            begin.append(np.concatenate([left, np.tile(left[-1], (steps - len(left), 1))]))
        beginnings = [run.engine.snapshot() for run in runs]
        best = min(
            begin,
            key=lambda knobs: total([r.cost(s, knobs, 0) for r, s in zip(runs, beginnings, strict=True)]),
        )
        for run, snapshot in zip(runs, beginnings, strict=True):
            run.engine.restore(snapshot)
        return improve(runs, best, stretches, self.scenario.deployment.prefill_bounds)[0]

    def _futures(self, loop: ControlLoop, span_s: float, rng: np.random.Generator) -> list[RequestStream]:
        """What may arrive, by what has arrived lately and, before much has, by the nominal workload."""
        own, nominal = self.parameters, self.scenario.nominal
        now_s, seen = loop.episode.engine.now_s, loop.episode.engine.log()
        seen = seen[(seen["arrival_s"] >= now_s - own.window_s) & (seen["status"] != REJECTED)]
        uncached = np.maximum(seen["input_tokens"] - np.maximum(seen["cached_tokens"], 0), 1)
        finished = seen["output_tokens"][np.isfinite(seen["finish_s"])]  # the others' are not known yet
        lengths = np.concatenate([nominal.lengths.sample(rng, int(PRIOR_REQUESTS)), uncached])
        outputs = np.concatenate([nominal.output_tokens.sample(rng, int(PRIOR_REQUESTS)), finished])
        recent = int((seen["arrival_s"] >= now_s - own.rate_window_s).sum())
        nominal_rps = self.scenario.lambda_max_rps
        # About a second at Λ_max, so that the first forecast is not empty.
        prior_s = PRIOR_REQUESTS / max(nominal_rps, 1e-9) / 10.0
        rate_rps = (recent + prior_s * nominal_rps) / (min(now_s, own.rate_window_s) + prior_s)
        futures = []
        for _ in range(own.futures):
            count = min(int(rng.poisson(rate_rps * span_s)), MOST_REQUESTS)
            arrival_s = np.sort(now_s + rng.uniform(0.0, span_s, count))
            futures.append(RequestStream(arrival_s, rng.choice(lengths, count), rng.choice(outputs, count)))
        return futures
