"""What a finished run hands back: every request, every control step, and the aggregates of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prfaas_env.simulator.signals import SIGNALS

__all__ = ["TIMELINE_DTYPE", "RunResult", "as_timeline"]

TIMELINE_DTYPE = np.dtype([(signal.name, "f8") for signal in SIGNALS])


def as_timeline(signals: np.ndarray) -> np.ndarray:
    """Signal vectors, float64 (steps, signals), as a structured array with a field for each entry of ``SIGNALS``.

    The control in force is among the signals (``threshold_tokens``, ``price_s``, ``target_prefill_nodes``).
    """
    rows = np.asarray(signals, dtype=np.float64).reshape(-1, len(SIGNALS))
    return np.ascontiguousarray(rows).view(TIMELINE_DTYPE).reshape(-1)


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """One policy on one scenario and seed.

    - ``requests``: structured array (``REQUEST_DTYPE``), one row a request that arrived; docs/log.md says what each
      column and the codes of ``status`` and ``reject_reason`` mean.
    - ``summary``: the aggregates of :func:`prfaas_env.simulator.summary.summarise`; an average over nothing is NaN.
    - ``timeline``: structured array (``TIMELINE_DTYPE``), one row a control step up to the horizon.
    - ``meta``: what identifies the run (policy, scenario and its hash, seed, engine, version).
    """

    requests: np.ndarray
    summary: Mapping[str, float]
    timeline: np.ndarray
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: which run it is, its counts and its mean TTFT."""
        told = [f"{key}={self.meta[key]!r}" for key in ("scenario", "policy", "seed") if key in self.meta]
        told += [
            f"{key}={self.summary[key]:.0f}" for key in ("arrived", "completed", "rejected") if key in self.summary
        ]
        told += [f"ttft_mean_s={self.summary['ttft_mean_s']:.3g}"] if "ttft_mean_s" in self.summary else []
        return f"RunResult({', '.join(told)})"
