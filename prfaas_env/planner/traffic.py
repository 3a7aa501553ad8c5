"""What a trace says beyond its lengths: bursts, and how far one threshold falls behind as the mix drifts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from prfaas_env.describe.episode import MINUTE_S, Episode, dispersion
from prfaas_env.scenario import Scenario
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import TraceWarning

__all__ = ["Traffic", "traffic"]

LEAST_WINDOWS = 4  # with fewer there is no drift to be seen


@dataclass(frozen=True)
class Traffic:
    """Figures of a trace on the deployment. ``None``: the trace is too short to tell.

    - ``load``: the trace's own mean rate over Λ_max.
    - ``cached_share``: tokens that a prefix cache without limits hits; they are not in the lengths that are planned.
    - ``dispersion_1min``: variance over mean of the arrivals in a minute (Poisson: 1).
    - ``busiest_window_ratio``: highest over mean load of ``windows`` equal pieces, at the planned t and N_p.
    - ``adapting_gain``: capacity that the best t and N_p of every window would save over those planned for the whole,
      less the same figure with the requests shuffled, where there is no drift and only chance to follow.
    """

    requests: int
    horizon_s: float
    rate_rps: float
    load: float
    cached_share: float
    dispersion_1min: float | None
    windows: int
    busiest_window_ratio: float | None
    adapting_gain: float | None


def traffic(trace: Scenario) -> Traffic:
    """Of a trace as a scenario (see :func:`prfaas_env.describe.subject.load_subject`) on the planned deployment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # said already when the file was first read
        whole = Episode(trace, trace.draw(0))
    stream = whole.draw.stream
    order = np.random.default_rng(0).permutation(len(stream))
    as_is, shuffled = (_uncached_only(whole, part) for part in (np.arange(len(stream)), order))
    loads = np.array([window.load_at_plan for window in as_is.windows])
    told = len(loads) >= LEAST_WINDOWS
    return Traffic(
        requests=len(stream),
        horizon_s=trace.horizon_s,
        rate_rps=whole.rate_rps,
        load=whole.rate_rps / whole.nominal_plan.lambda_max_rps,
        cached_share=float(whole.hit_tokens.sum() / stream.input_tokens.sum()),
        dispersion_1min=dispersion(whole.arrivals(MINUTE_S)),
        windows=len(loads),
        busiest_window_ratio=float(loads.max() / loads.mean()) if told else None,
        adapting_gain=_adapting(as_is) - _adapting(shuffled) if told else None,
    )


def _uncached_only(whole: Episode, order: np.ndarray) -> Episode:
    """The arrivals with the uncached lengths and outputs in another order: a prefix has no meaning in it."""
    stream = RequestStream(
        whole.draw.stream.arrival_s, whole.uncached_tokens[order], whole.draw.stream.output_tokens[order]
    )
    return Episode(whole.scenario, replace(whole.draw, stream=stream))


def _adapting(episode: Episode) -> float:
    """Mean load at the planned knobs over that at the best ones of each window, less 1."""
    planned, best = (np.mean([getattr(window, key) for window in episode.windows]) for key in ("load_at_plan", "load"))
    return float(planned / best - 1.0)
