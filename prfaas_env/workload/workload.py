"""A workload: everything needed to draw a request stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from prfaas_env.config import ConfigError, Record
from prfaas_env.processes import Clock
from prfaas_env.workload.arrivals import Arrivals, poisson_times
from prfaas_env.workload.drift import Drift
from prfaas_env.workload.lengths import LengthLaw, TruncatedLogNormal
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import TraceWorkload

__all__ = ["SyntheticWorkload", "Workload"]


@dataclass(frozen=True)
class SyntheticWorkload(Record):
    """Requests from laws: arrivals, input lengths (which may drift) and output lengths, independent of each other."""

    kind: ClassVar[str] = "synthetic"

    lengths: LengthLaw
    output_tokens: LengthLaw
    arrivals: Arrivals = field(default_factory=Arrivals)
    drift: Drift | None = None

    def check(self) -> None:
        if self.drift is not None:
            law = self.lengths
            if not isinstance(law, TruncatedLogNormal):
                raise ConfigError(f"drift: expected lengths of kind 'truncated-log-normal', got {law.kind!r}")
            if not law.low_tokens < self.drift.threshold_tokens < law.high_tokens:
                raise ConfigError("drift.threshold_tokens: expected inside the bounds of the length law")

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

        Rate, arrivals, drift, inputs and outputs each draw from a generator of their own (append to that list, never
        insert), so that changing one leaves the numbers of the others as they were.
        """
        clock = clock or Clock()
        rate, arrivals, drift, inputs, outputs = rng.spawn(5)
        factor = self.arrivals.rate_factor(rate, horizon_s, clock)
        arrival_s = poisson_times(arrivals, (rate_rps or 0.0) * factor, 0.0, horizon_s)
        n = len(arrival_s)
        if self.drift is not None and isinstance(self.lengths, TruncatedLogNormal):
            mu = self.drift.mu(drift, arrival_s, horizon_s, clock, self.lengths)
            input_tokens = self.lengths.sample(inputs, n, mu)
        else:
            input_tokens = self.lengths.sample(inputs, n)
        return RequestStream(arrival_s, input_tokens, self.output_tokens.sample(outputs, n))


Workload = SyntheticWorkload | TraceWorkload
