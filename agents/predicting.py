"""The mean TTFT that each N_p and t would have at the load of the moment, and what follows from it.

The prediction (``prfaas_env/theory/latency.py``) takes the load from the observation: arrivals, the histogram of recent
uncached lengths, the mean output, the link's present capacity and the remote instances that are up. Requests that queue
already count as arrivals of the next ``clear_queues_s``. N_p moves only for a gain beyond the hysteresis; where none
can keep up, it is the one with the least utilisation of its busiest stage, the throughput optimum of Eqs. 7 and 8.

Where no threshold can keep up, somebody has to wait, and as long as the queue of such an hour is not gone. Least mean
TTFT then asks for the shortest prompts to be served first, and a threshold can do that: the local pool takes as many of
them as keep it busy and no more (``filling_threshold`` of ``prfaas_env/theory/online.py``, a component of the
observation), so that its queue stays short, and the longer ones queue for the remote pool. When arrivals cease before
that queue is gone, t rises and the local pool helps with all that still comes. P99 pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from prfaas_env.config import Range, Record
from prfaas_env.environment.observation import COARSE_EDGES_TOKENS, HISTOGRAM_FACTS
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS
from prfaas_env.theory.latency import LatencyModel, Prediction
from prfaas_env.theory.online import bin_shares

from .base import Observed, ScriptedPolicy, Span

__all__ = ["Predicting", "PredictingParameters"]

UNSEEN_SHARE = 1e-9
"""Of a bin where no length was seen lately: the best t then is the best for those lengths too."""

BITS_PER_BYTE = 8.0


@dataclass(frozen=True)
class PredictingParameters(Record):
    """``headroom``: arrivals reckoned with, over those seen. ``arrival_scv``: squared coefficient of variation of the
    gaps between arrivals (1: Poisson). ``hysteresis``: share of the predicted TTFT that a new N_p must save.

    An overload is not over before the remote wait is below ``overload_wait_s``.
    """

    headroom: Positive = 1.0
    arrival_scv: NonNegative = 1.0
    clear_queues_s: Positive = 60.0
    hysteresis: Annotated[float, Range(ge=0, lt=1)] = 0.1
    overload_wait_s: NonNegative = 15.0


class Predicting(ScriptedPolicy):
    """A policy that goes by predicted TTFT."""

    Parameters: ClassVar[type] = PredictingParameters
    tunable: ClassVar[Mapping[str, Span]] = {
        "headroom": Span(0.7, 1.6),
        "arrival_scv": Span(0.25, 16.0, log=True),
        "clear_queues_s": Span(10.0, 1000.0, log=True),
        "hysteresis": Span(0.0, 0.6),
        "overload_wait_s": Span(5.0, 120.0, log=True),
    }

    def __init__(self, scenario: Scenario, parameters: Any = None) -> None:
        super().__init__(scenario, parameters)
        self.model = LatencyModel(self.deployment)
        nominal = scenario.nominal
        self._output_tokens = nominal.output_tokens.mean()
        points = nominal.output_tokens.points(256)
        self._output_scv = max(float(points.weights @ points.lengths_tokens**2) / self._output_tokens**2 - 1.0, 0.0)
        # Inside a bin of the observation lengths lie as in the nominal workload, or evenly where it has none.
        self._nominal = bin_shares(nominal.lengths)
        self._coarse = np.searchsorted(COARSE_EDGES_TOKENS, LENGTH_BIN_CENTRES_TOKENS, side="right") - 1
        inside = self._nominal + 1e-12
        self._within = inside / np.bincount(self._coarse, inside)[self._coarse]

    def predicted(self, observed: Observed) -> Prediction:
        """Mean TTFT of each N_p and t at the load that an observation shows."""
        own = self.parameters
        shares = np.array([observed[name] for name in HISTOGRAM_FACTS])
        seen = shares.sum() > 0.5
        shares = shares + UNSEEN_SHARE
        queued = observed["remote_queue"] + observed["local_queue"]
        rate_rps = own.headroom * observed["arrivals"] + queued / own.clear_queues_s
        return self.model.predict(
            rate_rps,
            (shares / shares.sum())[self._coarse] * self._within if seen else self._nominal,
            observed["output_mean"] or self._output_tokens,
            observed["link_capacity_gbps"],
            own.arrival_scv,
            self._output_scv,
            rate_rps + observed["decode_queue"] / own.clear_queues_s,
            self._remote_up(observed),
        )

    def _remote_up(self, observed: Observed) -> float:
        """Remote instances that have not failed: of the failed ones, those that the local cluster does not lack."""
        local = self.deployment.local.instances
        shares = observed["decode_share"] + observed["converting_share"]
        missing = max(local - round(observed["prefill_nodes"] + shares * local), 0)
        return max(self.model.n_remote - max(round(observed["failed_nodes"]) - missing, 0), 0.0)

    def column(self, n_prefill: float) -> int:
        return int(np.argmin(np.abs(self.model.splits - n_prefill)))

    def split(self, predicted: Prediction, present: float) -> int:
        """The present target, or the N_p that saves more than the hysteresis of its predicted TTFT (or utilisation)."""
        now = self.column(present)
        ttft_s, utilisation = predicted.ttft_s.min(axis=1), predicted.utilisation.min(axis=1)
        best = _best(ttft_s, utilisation)
        figure = ttft_s if np.isfinite(ttft_s[best]) else utilisation
        pays = figure[best] < (1.0 - self.parameters.hysteresis) * figure[now]
        return int(self.model.splits[best]) if pays else round(present)

    def overloaded(self, predicted: Prediction, observed: Observed) -> bool:
        """Whether no threshold keeps up at the present N_p, or requests wait remotely as if none had."""
        wait_s = observed["remote_expected_wait_s"]
        if observed["link_capacity_gbps"] > 0.0:
            wait_s = max(wait_s, BITS_PER_BYTE * observed["link_backlog"] / observed["link_capacity_gbps"])
        keeps_up = np.isfinite(predicted.prefill_s[self.column(observed["prefill_nodes"])]).any()
        return not keeps_up or wait_s > self.parameters.overload_wait_s


def _best(ttft_s: np.ndarray, utilisation: np.ndarray) -> int:
    """Where TTFT is least or, if nothing can keep up, where the busiest stage is the least busy."""
    return int(np.argmin(ttft_s if np.isfinite(ttft_s).any() else utilisation))
