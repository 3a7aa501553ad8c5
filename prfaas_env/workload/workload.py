"""A workload: everything needed to draw a request stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Record
from prfaas_env.processes import Clock
from prfaas_env.workload.arrivals import RATE_STEP_S, Arrivals, RatePath, arrival_times
from prfaas_env.workload.drift import Drift
from prfaas_env.workload.lengths import LengthLaw, TruncatedLogNormal
from prfaas_env.workload.sessions import CacheRestart, Sessions
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import TraceWorkload

__all__ = ["GENERATORS", "SyntheticWorkload", "Workload"]

GENERATORS = 5  # for arrivals, drift, inputs, outputs and turns


@dataclass(frozen=True)
class SyntheticWorkload(Record):
    """Requests from laws: arrivals, input lengths (which may drift) and output lengths, independent of each other.

    With ``sessions`` the arrivals are those of sessions (the rate stays that of requests) and ``lengths`` is the law of
    first prompts, which is then what drifts.
    """

    kind: ClassVar[str] = "synthetic"

    lengths: LengthLaw
    output_tokens: LengthLaw
    arrivals: Arrivals = field(default_factory=Arrivals)
    drift: Drift | None = None
    sessions: Sessions | None = None
    cache_restart: CacheRestart | None = None

    def check(self) -> None:
        if self.drift is not None:
            law = self.lengths
            if not isinstance(law, TruncatedLogNormal):
                raise ConfigError(f"drift: expected lengths of kind 'truncated-log-normal', got {law.kind!r}")
            if not law.low_tokens < self.drift.threshold_tokens < law.high_tokens:
                raise ConfigError("drift.threshold_tokens: expected inside the bounds of the length law")
            if self.drift.rate_correlation and self.arrivals.wander is None:
                raise ConfigError("drift.rate_correlation: expected 0: the arrivals have no wander")
        if self.cache_restart is not None and self.sessions is None:
            raise ConfigError("cache_restart: expected none: without sessions no prefix is cached")

    @property
    def needs_rate(self) -> bool:
        """Whether the scenario must say how many requests arrive."""
        return True

    def missing(self) -> str | None:
        """Nothing that a synthetic workload needs can be missing."""
        return None

    def identity(self) -> dict[str, Any]:
        """Nothing outside the record stands behind it."""
        return {}

    def draw(
        self, rng: np.random.Generator, horizon_s: float, rate_rps: float | None, clock: Clock | None = None
    ) -> RequestStream:
        """The requests of ``[0, horizon_s)`` at a mean rate of ``rate_rps`` (0 draws none).

        Rate, arrivals, drift, inputs, outputs, turns and restart each draw from a generator of their own (append to
        that list, never insert), so that changing one leaves the numbers of the others as they were.
        """
        clock = clock or Clock()
        rate, *others, restart = rng.spawn(2 + GENERATORS)
        path = self.arrivals.rate_path(rate, horizon_s, clock)
        return self.restarted(restart, self.requests(others, rate_rps or 0.0, path, horizon_s, clock))

    def restarted(self, rng: np.random.Generator, stream: RequestStream) -> RequestStream:
        """The stream with the restart of the caches that the workload has, if any."""
        return stream if self.cache_restart is None else self.cache_restart.apply(rng, stream)

    def requests(
        self, rngs: Sequence[np.random.Generator], rate_rps: float, path: RatePath, horizon_s: float, clock: Clock
    ) -> RequestStream:
        """The requests of ``[0, horizon_s)`` at ``rate_rps`` times a path; ``rngs`` are ``GENERATORS`` generators."""
        arrivals, drift, inputs, outputs, turns = rngs
        rates_rps, gaps = rate_rps * path.factor, self.arrivals.gaps
        if self.sessions is None:
            arrival_s = arrival_times(arrivals, rates_rps, 0.0, horizon_s, gaps)
            input_tokens = self._inputs(inputs, drift, arrival_s, horizon_s, clock, path)
            return RequestStream(arrival_s, input_tokens, self.output_tokens.sample(outputs, len(arrival_s)))
        warm_up = np.full(int(np.ceil(self.sessions.warm_up_s / RATE_STEP_S)), rates_rps[0])
        sessions_rps = np.concatenate([warm_up, rates_rps]) / self.sessions.mean_turns(self.lengths)
        start_s = arrival_times(arrivals, sessions_rps, -len(warm_up) * RATE_STEP_S, horizon_s, gaps)
        first_tokens = self._inputs(inputs, drift, start_s, horizon_s, clock, path)
        return self.sessions.draw(turns, start_s, first_tokens, self.output_tokens, horizon_s)

    def _inputs(
        self,
        rng: np.random.Generator,
        drift_rng: np.random.Generator,
        arrival_s: np.ndarray,
        horizon_s: float,
        clock: Clock,
        path: RatePath,
    ) -> np.ndarray:
        if self.drift is None or not isinstance(self.lengths, TruncatedLogNormal):
            return self.lengths.sample(rng, len(arrival_s))
        mu = self.drift.mu(drift_rng, arrival_s, horizon_s, clock, self.lengths, path.wander)
        return self.lengths.sample(rng, len(arrival_s), mu)


Workload = SyntheticWorkload | TraceWorkload
