"""One episode of a scenario as it will be met: its requests, its windows over time, and the closed form on them.

Uncached lengths are those under one prefix cache without limits: the least that a deployment has to prefill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.describe.caching import CacheCurve, cache_curve
from prfaas_env.scenario import Draw, Scenario
from prfaas_env.simulator.conditions import CapacityTimeline
from prfaas_env.theory.plan import Plan, StageModel, plan
from prfaas_env.workload.lengths import LengthPoints
from prfaas_env.workload.prefixes import infinite_cache_hits

__all__ = ["MINUTE_S", "Episode", "Window", "dispersion"]

MINUTE_S = 60.0
# A window holds 400 requests or more on average, so that chance moves its load by about 5 %; a picture needs no more of
# them than this.
WINDOW_REQUESTS, MAX_WINDOWS = 400, 48
DOWN_GBPS = 1e-6  # stands for a link that is down: the closed form then keeps everything local


@dataclass(frozen=True)
class Window:
    """A piece of an episode. Rates in requests per second; ``None`` where nothing arrives or there is no link.

    ``tail_share``: P(uncached > t*), t* the planned threshold. ``load``: the rate over the most that the mix of the
    window sustains on its mean link capacity, at the best threshold and split. ``load_at_plan``: the same at the
    threshold and split planned on the nominal workload, so that what lies between is what adapting them is worth.
    Shorter outages of the link are averaged out, and failed instances are not taken off.
    """

    start_s: float
    end_s: float
    requests: int
    rate_rps: float
    tail_share: float | None
    load: float
    load_at_plan: float
    link_gbps: float | None


@dataclass(frozen=True, eq=False)
class Episode:
    """One draw of a scenario, with what follows from it."""

    scenario: Scenario
    draw: Draw

    @property
    def horizon_s(self) -> float:
        return self.scenario.horizon_s

    @cached_property
    def hit_tokens(self) -> np.ndarray:
        """Tokens of each prompt that a cache without limits would have. Shape (n,)."""
        return infinite_cache_hits(self.draw.stream)

    @cached_property
    def uncached_tokens(self) -> np.ndarray:
        """Tokens of each prompt that must be prefilled under that cache, at least 1. Shape (n,)."""
        return np.maximum(self.draw.stream.input_tokens - self.hit_tokens, 1)

    @cached_property
    def cache_curve(self) -> CacheCurve | None:
        """Hits of one cache over its size; ``None`` where no prefix repeats."""
        return cache_curve(self.draw.stream, self.horizon_s)

    @property
    def rate_rps(self) -> float:
        """Mean rate of the arrivals."""
        return len(self.draw.stream) / self.horizon_s

    @property
    def instances(self) -> int:
        """Instances of both clusters."""
        remote = self.scenario.deployment.remote
        return self.scenario.deployment.local.instances + (remote.instances if remote else 0)

    def arrivals(self, step_s: float) -> np.ndarray:
        """Arrivals in each whole step of the episode. Shape (steps,), int64."""
        steps = int(self.horizon_s / step_s + 1e-9)
        inside = self.draw.stream.arrival_s[self.draw.stream.arrival_s < steps * step_s]
        return np.bincount((inside / step_s).astype(np.int64), minlength=steps)[:steps]

    @cached_property
    def nominal_plan(self) -> Plan:
        """What the closed form advises on the nominal workload, which is all that an operator knows beforehand."""
        return plan(self.scenario.deployment, self.scenario)

    @property
    def egress_at_plan_gbps(self) -> float:
        """Mean egress that this plan asks for at the rate of the episode, if its mix is the nominal one."""
        return self.nominal_plan.egress_gbps * self.rate_rps / self.nominal_plan.lambda_max_rps

    @cached_property
    def own_plan(self) -> Plan | None:
        """What it would advise on the mix that this episode turns out to have; ``None`` without requests."""
        n = len(self.draw.stream)
        return self._best(self._model(slice(0, n), self.scenario.deployment)) if n else None

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The episode in equal pieces."""
        return tuple(self._windows())

    def _windows(self) -> Iterator[Window]:
        stream, capacity = self.draw.stream, self.draw.capacity
        count = int(np.clip(len(stream) // WINDOW_REQUESTS, 1, MAX_WINDOWS))
        edges = np.linspace(0.0, self.horizon_s, count + 1)
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            first, last = np.searchsorted(stream.arrival_s, (start, end)).tolist()
            gbps = mean_gbps(capacity, start, end) if capacity else None
            rate = (last - first) / (end - start)
            load, load_at_plan, tail = 0.0, 0.0, None
            if last > first:
                model = self._model(slice(first, last), with_link(self.scenario.deployment, gbps))
                load = rate / self._best(model).lambda_max_rps
                load_at_plan = rate / self._at_plan(model)
                tail = self.tail_share(slice(first, last))
            yield Window(start, end, last - first, rate, tail, load, load_at_plan, gbps)

    def tail_share(self, part: slice = slice(None)) -> float | None:
        """P(uncached > t*) of a part of the requests; ``None`` without a threshold or requests."""
        threshold = self.nominal_plan.threshold_tokens
        lengths = self.uncached_tokens[part]
        return None if threshold is None or len(lengths) == 0 else float((lengths > threshold).mean())

    def _model(self, part: slice, deployment: Deployment) -> StageModel:
        lengths, counts = np.unique(self.uncached_tokens[part], return_counts=True)
        points = LengthPoints(lengths * 1.0, counts / counts.sum(), np.ones(len(lengths), dtype=bool))
        return StageModel(deployment, points, float(self.draw.stream.output_tokens[part].mean()))

    @staticmethod
    def _best(model: StageModel) -> Plan:
        splits = model.splits()
        cuts = model.best_cuts(splits)
        best = int(np.argmax(model.lambda_max_rps(cuts, splits)))
        return model.plan_at(float(cuts[best]), float(splits[best]))

    def _at_plan(self, model: StageModel) -> float:
        planned = self.nominal_plan
        split = np.array([float(planned.n_prefill or 0)])
        pinned = planned.threshold_tokens is None
        cuts = model.best_cuts(split) if pinned else model.cut_of(np.array([planned.threshold_tokens]))
        return float(model.lambda_max_rps(cuts, split)[0])


def with_link(deployment: Deployment, gbps: float | None) -> Deployment:
    """The deployment with another capacity of its link; as it is where it has none."""
    if deployment.link is None or gbps is None:
        return deployment
    return replace(deployment, link=replace(deployment.link, capacity_gbps=max(gbps, DOWN_GBPS)))


def mean_gbps(capacity: CapacityTimeline, start_s: float, end_s: float) -> float:
    """Mean capacity over a span of time, in Gbps."""
    spans = held_s(capacity.times_s, start_s, end_s)
    return float(spans @ capacity.gbps / (end_s - start_s))


def held_s(times_s: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """How long each value of a path of steps holds inside ``[start_s, end_s)``, in seconds. Shape of ``times_s``."""
    edges = np.clip(np.append(times_s, np.inf), start_s, end_s)
    return np.diff(edges)


def dispersion(counts: np.ndarray) -> float | None:
    """Index of dispersion, variance over mean: 1 for Poisson; ``None`` for fewer than two steps or without arrivals."""
    return float(counts.var() / counts.mean()) if len(counts) > 1 and counts.any() else None
