"""Predicted mean TTFT of every threshold and split at a given load, which Eqs. 6–8 (most throughput) leave out.

Each stage is a queue in steady state: the two prefill pools and the decode slots first come first served
(``queueing.py``), the link shared evenly, so that at utilisation ρ a transfer has 1 − ρ of it. Requests arrive at both
pools as to the whole (Poisson stays Poisson when it is divided by length). TTFT is the wait and the prefill time of the
pool, the part of the transfer that prefill does not hide, the wait for a decode slot, one decode step and the
deployment's constant. Prefix caches are not part of it: lengths are uncached lengths.

Lengths are the fine bins of ``simulator/signals.py``. An evaluation takes well under a millisecond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, LENGTH_BIN_EDGES_TOKENS
from prfaas_env.theory import closed_form as eq
from prfaas_env.theory.plan import GIGA
from prfaas_env.theory.queueing import allen_cunneen_wait_s

__all__ = ["LatencyModel", "Prediction"]

MOST_SPLITS = 32  # of a large cluster, evenly spread
LOW_TOKENS, HIGH_TOKENS, CUT_STEP = 512.0, 131072.0, 2  # thresholds tried: each second edge of the bins between


class Prediction(NamedTuple):
    """Seconds and utilisations, of prefill (both pools and the link, whichever is busiest) and of decode.

    Prefill has shape (splits, thresholds), decode (splits, 1): its share of TTFT, and its load, do not depend on t.
    Infinite where a stage cannot keep up.
    """

    prefill_s: np.ndarray  # mean TTFT without the wait for a decode slot
    prefill_utilisation: np.ndarray
    decode_wait_s: np.ndarray
    decode_utilisation: np.ndarray

    @property
    def ttft_s(self) -> np.ndarray:
        """Mean TTFT, (splits, thresholds)."""
        return self.prefill_s + self.decode_wait_s

    @property
    def utilisation(self) -> np.ndarray:
        """Of the busiest stage, (splits, thresholds)."""
        return np.maximum(self.prefill_utilisation, self.decode_utilisation)


class LatencyModel:
    """One deployment; the load is given with each prediction.

    ``thresholds_tokens`` (m,), from 0 (all remote) to infinity (all local), and ``splits`` (k,), values of N_p, are
    what is compared.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        centres, edges = LENGTH_BIN_CENTRES_TOKENS, LENGTH_BIN_EDGES_TOKENS
        local, remote = deployment.local, deployment.remote
        self.n_remote = float(remote.instances) if remote else 0.0
        profile = remote.profile if remote else local.profile
        self._local_s = local.profile.prefill.time_s(centres)
        self._remote_s = profile.prefill.time_s(centres)
        self._kv_bits = 8.0 * profile.kv.size_bytes(centres)
        first, last = np.searchsorted(edges, [LOW_TOKENS, HIGH_TOKENS])
        self._cuts = np.array([0, *range(first, last + 1, CUT_STEP), len(centres)])
        self.thresholds_tokens = np.array([0.0, *edges[self._cuts[1:-1]], np.inf])
        low, high = deployment.prefill_bounds
        self.splits = np.unique(np.rint(np.linspace(low, high, MOST_SPLITS))) if high > low else np.array([low * 1.0])

    def predict(
        self,
        rate_rps: float,
        bin_shares: np.ndarray,
        output_tokens: float,
        link_gbps: float,
        arrival_scv: float = 1.0,
        output_scv: float = 0.0,
        decode_rate_rps: float | None = None,
        remote_instances: float | None = None,
    ) -> Prediction:
        """For arrivals at ``rate_rps`` with ``bin_shares`` (bins,) of lengths, on a link of ``link_gbps`` (0: down).

        ``arrival_scv`` and ``output_scv`` are the squared coefficients of variation of gaps and of output lengths;
        ``decode_rate_rps`` is the rate that decode has to cope with, if that is another than prefill's, and
        ``remote_instances`` how many are up, if not all.
        """
        n_remote = self.n_remote if remote_instances is None else remote_instances
        decode_rate_rps = rate_rps if decode_rate_rps is None else decode_rate_rps
        sums = eq.stage_loads(bin_shares, self._local_s, self._remote_s, self._kv_bits)[:, self._cuts]
        squares = eq.stage_loads(bin_shares, self._local_s**2, self._remote_s**2, self._kv_bits)[:, self._cuts]
        kept, sent = sums[eq.KEPT], 1.0 - sums[eq.KEPT]
        local_s, local_scv = _moments(sums[eq.LOCAL], squares[eq.LOCAL], kept)
        remote_s, remote_scv = _moments(sums[eq.REMOTE], squares[eq.REMOTE], sent)
        exposed_s, link_use = self._transfer(rate_rps, bin_shares, sums[eq.SENT], link_gbps)
        n_prefill = self.splits[:, None]
        local_wait_s = allen_cunneen_wait_s(rate_rps * kept, n_prefill, local_s, local_scv, arrival_scv)
        remote_wait_s = allen_cunneen_wait_s(rate_rps * sent, n_remote, remote_s, remote_scv, arrival_scv)
        decode = self.deployment.local.profile.decode
        slots = (self.deployment.local.instances - n_prefill) * decode.slots
        decode_s = output_tokens * float(decode.step_s[decode.slots])
        decode_wait_s = allen_cunneen_wait_s(decode_rate_rps, slots, decode_s, output_scv, arrival_scv)
        with np.errstate(invalid="ignore"):  # no request there × an infinite wait
            waits_s = np.where(kept > 0, kept * local_wait_s, 0.0) + np.where(sent > 0, sent * remote_wait_s, 0.0)
        constant_s = self.deployment.ttft_overhead_s + float(decode.step_s[1])
        prefill_s = waits_s + sums[eq.LOCAL] + sums[eq.REMOTE] + exposed_s + constant_s
        remote_use = np.maximum(_use(rate_rps * sums[eq.REMOTE], n_remote), link_use)
        use = np.maximum(_use(rate_rps * sums[eq.LOCAL], n_prefill), remote_use)
        decode_use = decode_rate_rps * decode_s / slots
        return Prediction(np.where(use < 1.0, prefill_s, np.inf), use, decode_wait_s, decode_use)

    def _transfer(
        self, rate_rps: float, bin_shares: np.ndarray, sent_bits: np.ndarray, link_gbps: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of transfer that a request of the traffic waits for, and the link's utilisation; each (m,)."""
        deployment, capacity_bps = self.deployment, link_gbps * GIGA
        use = _use(rate_rps * sent_bits, capacity_bps)
        if deployment.link is None or capacity_bps <= 0.0:
            return np.zeros_like(use), np.where(sent_bits > 0, np.inf, 0.0)
        free_bps = np.minimum(capacity_bps * np.maximum(1.0 - use, 1e-9), deployment.link.flow_cap_gbps * GIGA)
        transfer_s = self._kv_bits / free_bps[:, None]
        hidden_s = self._remote_s if deployment.layerwise_pipelining else 0.0
        remote = np.arange(len(bin_shares)) >= self._cuts[:, None]
        exposed_s = np.maximum(transfer_s - hidden_s, 0.0) + deployment.link.one_way_delay_s
        return (remote * exposed_s) @ bin_shares, use


def _moments(first: np.ndarray, second: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean service time and its SCV of the requests that go one way, from sums over the traffic; 0 where none does."""
    mean = np.divide(first, share, out=np.zeros_like(first), where=share > 0)
    square = np.divide(second, share, out=np.zeros_like(first), where=share > 0)
    scv = np.divide(square, mean**2, out=np.ones_like(first), where=mean > 0) - 1.0
    return mean, np.maximum(scv, 0.0)


def _use(load: np.ndarray, capacity: np.ndarray | float) -> np.ndarray:
    """Load over capacity: infinite where a load meets none, 0 where nothing is asked."""
    load, capacity = np.broadcast_arrays(load, np.asarray(capacity, dtype=np.float64))
    use = np.divide(load, capacity, out=np.full(load.shape, np.inf), where=capacity > 0)
    return np.where(load > 0, use, 0.0)
