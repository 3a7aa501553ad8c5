"""Equations 1 and 3–8 of PrfaaS (arXiv:2604.15039v2, section 3.4) on weighted lengths, as functions of plain arrays.

Lengths are n points in increasing order; point i stands for the requests around it. A threshold *cuts* the points: with
cut c the first c points stay local and the rest goes to the remote cluster, a fractional c divides a point. All that
the equations need is then four sums over the points on either side, tabulated at the n + 1 whole cuts
(:func:`stage_loads`) and linear in between.

Everything here stays in the subset of numpy that numba compiles, so that a compiled environment can run the same
functions. Times are seconds, sizes bits, rates requests per second of the *whole* traffic unless named Θ.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "KEPT",
    "LOCAL",
    "REMOTE",
    "SENT",
    "balanced_cuts",
    "cut_at",
    "decode_rps",
    "kv_throughput_bps",
    "loads_at",
    "local_load_s",
    "prefill_rps",
    "remote_load_s",
    "stage_loads",
    "threshold_at",
]

# Rows of the loads: share of requests kept local (1 − p), then per request of the whole traffic the mean local prefill
# time, the mean remote prefill time, and the mean bits sent over the link.
KEPT, LOCAL, REMOTE, SENT = 0, 1, 2, 3
_TINY = 1e-200  # stands for 0 in a divisor; a load over it stays finite


def kv_throughput_bps(kv_bits: np.ndarray | float, prefill_s: np.ndarray | float) -> np.ndarray:
    """Φ_kv (Eq. 1): the rate at which one instance that never idles makes KV cache, in bits per second (any shape)."""
    return np.asarray(kv_bits) / np.asarray(prefill_s)


def stage_loads(weights: np.ndarray, local_s: np.ndarray, remote_s: np.ndarray, kv_bits: np.ndarray) -> np.ndarray:
    """What one request of the traffic asks of each stage on average, for every whole cut. Shape (4, n + 1).

    The *distribution* form: stage times are means over the requests that go there, E[T(L) | L > t]. All arguments have
    shape (n,): weights (sum 1), prefill times on a local and on a remote instance, KV size.
    """
    n = weights.shape[0]
    loads = np.zeros((4, n + 1))
    loads[KEPT, 1:] = np.cumsum(weights)
    loads[KEPT, n] = 1.0
    loads[LOCAL, 1:] = np.cumsum(weights * local_s)
    # Summed from the long end, so that the last whole cut sends exactly nothing.
    loads[REMOTE, :n] = np.cumsum((weights * remote_s)[::-1])[::-1]
    loads[SENT, :n] = np.cumsum((weights * kv_bits)[::-1])[::-1]
    return loads


def loads_at(loads: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The loads at fractional cuts. ``cut`` has shape (m,), the result (4, m)."""
    last = loads.shape[1] - 1
    below = np.minimum(np.floor(cut), last - 1.0).astype(np.int64)
    part = cut - below
    out = np.empty((4, cut.shape[0]))
    for row in range(4):
        low, high = loads[row][below], loads[row][below + 1]
        out[row] = low + part * (high - low)
    return out


def _balanced_with(local: np.ndarray, remote: np.ndarray, n_prefill: np.ndarray) -> np.ndarray:
    """The cut where local = N_p · remote, of a local load that grows and a remote load that falls with the cut."""
    last = local.shape[0] - 1
    above = np.searchsorted(local / np.maximum(remote, _TINY), n_prefill)
    high = np.minimum(np.maximum(above, 1), last)
    low = high - 1
    short = n_prefill * remote[low] - local[low]
    gain = (local[high] - local[low]) - n_prefill * (remote[high] - remote[low])
    cut = low + short / np.maximum(gain, _TINY)
    cut = np.minimum(np.maximum(cut, low * 1.0), high * 1.0)
    return np.where(above == 0, 0.0, np.where(above > last, last * 1.0, cut))


def balanced_cuts(
    loads: np.ndarray, n_prefill: np.ndarray, n_remote: float, link_bps: float, pipelined: bool
) -> np.ndarray:
    """Eq. 7, the best threshold as a cut for each N_p: Θ_prfaas / p = Θ_pd-p / (1 − p). Shape of ``n_prefill``, (m,).

    With layer-wise pipelining the remote side is bound by compute or by the link, whichever is slower (Eq. 3), and the
    crossing with the slower is the later one; without, compute and transfer add up. N_p = 0 sends everything, no
    remote instance or a link that is down keeps everything.
    """
    local = loads[LOCAL] * (n_remote * link_bps)
    if pipelined:
        compute = _balanced_with(local, loads[REMOTE] * link_bps, n_prefill)
        return np.maximum(compute, _balanced_with(local, loads[SENT] * n_remote, n_prefill))
    return _balanced_with(local, loads[REMOTE] * link_bps + loads[SENT] * n_remote, n_prefill)


def _per(load: np.ndarray, capacity: np.ndarray | float) -> np.ndarray:
    """Load over capacity: infinite where a load meets no capacity, 0 where nothing is asked."""
    able = np.zeros_like(load) + capacity
    return np.where(able > 0.0, load / np.maximum(able, _TINY), np.where(load > 0.0, np.inf, 0.0))


def remote_load_s(at: np.ndarray, n_remote: float, link_bps: float, pipelined: bool) -> np.ndarray:
    """p / Θ_prfaas (Eq. 3): seconds of the remote side that one request of the traffic takes. ``at``: (4, m)."""
    compute, transfer = _per(at[REMOTE], n_remote), _per(at[SENT], link_bps)
    return np.maximum(compute, transfer) if pipelined else compute + transfer


def local_load_s(at: np.ndarray, n_prefill: np.ndarray) -> np.ndarray:
    """(1 − p) / Θ_pd-p (Eq. 4): seconds of the local prefill pool that one request of the traffic takes. Shape (m,)."""
    return _per(at[LOCAL], n_prefill)


def prefill_rps(at: np.ndarray, n_prefill: np.ndarray, n_remote: float, link_bps: float, pipelined: bool) -> np.ndarray:
    """The prefill part of Eq. 6, min(Θ_prfaas / p, Θ_pd-p / (1 − p)), for each column of ``at``. Shape (m,)."""
    return 1.0 / np.maximum(remote_load_s(at, n_remote, link_bps, pipelined), local_load_s(at, n_prefill))


def decode_rps(n_decode: np.ndarray, slots: float, step_s: float, output_tokens: float) -> np.ndarray:
    """Θ_pd-d (Eq. 5): decode instances with every slot taken. Shape of ``n_decode``."""
    return n_decode * (slots / (step_s * output_tokens))


def threshold_at(log_lengths: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The threshold in tokens that makes each cut: 0 where nothing stays local, infinite where everything does.

    Point i reaches half-way (in the logarithm) to its neighbours, as the centre of a histogram's bin does.
    """
    n = log_lengths.shape[0]
    inside = np.exp(np.interp(cut - 0.5, np.arange(n) * 1.0, log_lengths))
    return np.where(cut <= 0.0, 0.0, np.where(cut >= n, np.inf, inside))


def cut_at(log_lengths: np.ndarray, threshold_tokens: np.ndarray) -> np.ndarray:
    """The cut that a threshold makes: the inverse of :func:`threshold_at`. Shape of ``threshold_tokens``, (m,)."""
    n = log_lengths.shape[0]
    log_threshold = np.log(np.maximum(threshold_tokens, _TINY))
    inside = np.interp(log_threshold, log_lengths, np.arange(n) + 0.5)
    outside = np.where(log_threshold >= log_lengths[n - 1], n * 1.0, inside)
    return np.where(log_threshold < log_lengths[0], 0.0, outside)
