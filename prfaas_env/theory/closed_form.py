"""Equations 1 and 3–8 of PrfaaS (arXiv:2604.15039v2, section 3.4) on weighted lengths, as functions of plain arrays.

Lengths are n points in increasing order; point i stands for the requests around it. A threshold *cuts* the points: with
cut c the first c points stay local and the rest goes to the remote cluster, a fractional c divides a point. All that
the equations need is then four sums over the points on either side, tabulated at the n + 1 whole cuts
(:func:`stage_loads`) and linear in between.

Everything here stays in the subset of numpy that numba compiles, so that a compiled environment can run the same
functions. Times are seconds, sizes bits, rates requests per second of the *whole* traffic unless named Θ.
"""

from __future__ import annotations

import math

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
    out = np.empty((4, cut.shape[0]))
    for k in range(cut.shape[0]):
        below = min(int(cut[k]), last - 1)
        part = cut[k] - below
        for row in range(4):
            low, high = loads[row, below], loads[row, below + 1]
            out[row, k] = low + part * (high - low)
    return out


def _balanced(
    loads: np.ndarray, n_prefill: float, local_scale: float, compute_scale: float, link_scale: float
) -> float:
    """The cut where local_scale · local = N_p · (compute_scale · remote + link_scale · sent).

    The left side grows and the right side falls with the cut, so the crossing is unique: bisection, then a line.
    """
    last = loads.shape[1] - 1
    low, high = -1, last + 1  # the crossing is above low and not above high
    while high - low > 1:
        middle = (low + high) // 2
        right = compute_scale * loads[REMOTE, middle] + link_scale * loads[SENT, middle]
        if local_scale * loads[LOCAL, middle] >= n_prefill * max(right, _TINY):
            high = middle
        else:
            low = middle
    if low < 0:
        return 0.0
    if high > last:
        return float(last)
    right_low = compute_scale * loads[REMOTE, low] + link_scale * loads[SENT, low]
    right_high = compute_scale * loads[REMOTE, high] + link_scale * loads[SENT, high]
    left_low, left_high = local_scale * loads[LOCAL, low], local_scale * loads[LOCAL, high]
    short = n_prefill * right_low - left_low
    gain = (left_high - left_low) - n_prefill * (right_high - right_low)
    return min(max(low + short / max(gain, _TINY), float(low)), float(high))


def balanced_cuts(
    loads: np.ndarray, n_prefill: np.ndarray, n_remote: float, link_bps: float, pipelined: bool
) -> np.ndarray:
    """Eq. 7, the best threshold as a cut for each N_p: Θ_prfaas / p = Θ_pd-p / (1 − p). Shape of ``n_prefill``, (m,).

    With layer-wise pipelining the remote side is bound by compute or by the link, whichever is slower (Eq. 3), and the
    crossing with the slower is the later one; without, compute and transfer add up. N_p = 0 sends everything, no
    remote instance or a link that is down keeps everything.
    """
    scale = n_remote * link_bps
    cuts = np.empty(n_prefill.shape[0])
    for k in range(n_prefill.shape[0]):
        if pipelined:
            compute = _balanced(loads, n_prefill[k], scale, link_bps, 0.0)
            cuts[k] = max(compute, _balanced(loads, n_prefill[k], scale, 0.0, n_remote))
        else:
            cuts[k] = _balanced(loads, n_prefill[k], scale, link_bps, n_remote)
    return cuts


def _per(load: float, capacity: float) -> float:
    """Load over capacity: infinite where a load meets no capacity, 0 where nothing is asked."""
    if capacity > 0.0:
        return load / capacity
    return np.inf if load > 0.0 else 0.0


def remote_load_s(at: np.ndarray, n_remote: float, link_bps: float, pipelined: bool) -> np.ndarray:
    """p / Θ_prfaas (Eq. 3): seconds of the remote side that one request of the traffic takes. ``at``: (4, m)."""
    out = np.empty(at.shape[1])
    for k in range(at.shape[1]):
        compute, transfer = _per(at[REMOTE, k], n_remote), _per(at[SENT, k], link_bps)
        out[k] = max(compute, transfer) if pipelined else compute + transfer
    return out


def local_load_s(at: np.ndarray, n_prefill: np.ndarray) -> np.ndarray:
    """(1 − p) / Θ_pd-p (Eq. 4): seconds of the local prefill pool that one request of the traffic takes. Shape (m,)."""
    out = np.empty(at.shape[1])
    for k in range(at.shape[1]):
        out[k] = _per(at[LOCAL, k], n_prefill[k])
    return out


def prefill_rps(at: np.ndarray, n_prefill: np.ndarray, n_remote: float, link_bps: float, pipelined: bool) -> np.ndarray:
    """The prefill part of Eq. 6, min(Θ_prfaas / p, Θ_pd-p / (1 − p)), for each column of ``at``. Shape (m,)."""
    remote, local = remote_load_s(at, n_remote, link_bps, pipelined), local_load_s(at, n_prefill)
    out = np.empty(at.shape[1])
    for k in range(at.shape[1]):
        out[k] = 1.0 / max(remote[k], local[k])
    return out


def decode_rps(n_decode: np.ndarray, slots: float, step_s: float, output_tokens: float) -> np.ndarray:
    """Θ_pd-d (Eq. 5): decode instances with every slot taken. Shape of ``n_decode``."""
    return n_decode * (slots / (step_s * output_tokens))


def threshold_at(log_lengths: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """The threshold in tokens that makes each cut: 0 where nothing stays local, infinite where everything does.

    Point i reaches half-way (in the logarithm) to its neighbours, as the centre of a histogram's bin does.
    """
    n = log_lengths.shape[0]
    out = np.empty(cut.shape[0])
    for k in range(cut.shape[0]):
        if cut[k] <= 0.0:
            out[k] = 0.0
        elif cut[k] >= n:
            out[k] = np.inf
        else:
            place = min(max(cut[k] - 0.5, 0.0), n - 1.0)
            below = max(min(int(place), n - 2), 0)
            above = min(below + 1, n - 1)
            part = place - below
            # math's exp, not numpy's: the compiled form then agrees to the last bit.
            out[k] = math.exp(log_lengths[below] + part * (log_lengths[above] - log_lengths[below]))
    return out


def cut_at(log_lengths: np.ndarray, threshold_tokens: np.ndarray) -> np.ndarray:
    """The cut that a threshold makes: the inverse of :func:`threshold_at`. Shape of ``threshold_tokens``, (m,)."""
    n = log_lengths.shape[0]
    log_threshold = np.log(np.maximum(threshold_tokens, _TINY))
    inside = np.interp(log_threshold, log_lengths, np.arange(n) + 0.5)
    outside = np.where(log_threshold >= log_lengths[n - 1], n * 1.0, inside)
    return np.where(log_threshold < log_lengths[0], 0.0, outside)
