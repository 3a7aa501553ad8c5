"""The closed form on what an operator has seen lately: the windowed optimum that controllers start from.

A sliding window holds the counts of uncached lengths (bins of ``simulator/signals.py``) and of finished requests and
their output tokens. A few pseudo-requests of the nominal workload steady it while the window is nearly empty. Every
control step solves Eqs. 6–8 for every split on the window's histogram.

State and tables are flat arrays, and :func:`push` and :func:`solve` are in the subset of numpy that numba compiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, LENGTH_BIN_EDGES_TOKENS
from prfaas_env.theory import closed_form as eq
from prfaas_env.theory.plan import GIGA, HasLengths
from prfaas_env.workload.lengths import LengthLaw

__all__ = ["FILLED_WAIT_S", "Advice", "OnlineClosedForm", "bin_shares", "filling_threshold", "push", "solve"]

BINS = len(LENGTH_BIN_CENTRES_TOKENS)
COMPLETED, OUTPUT_TOKENS = BINS, BINS + 1  # of a window row, after the length bins
WIDTH = BINS + 2
# Pseudo-requests of the nominal workload: ten seconds of the paper's traffic, so a window of minutes outweighs them.
PRIOR_REQUESTS = 32.0

FILLED_WAIT_S, STEER_S = 7.0, 30.0
"""In an overload the wait for the local pool is brought to the first within the second. From a few tries on training
scenarios (3 to 15 s, 15 to 60 s): a shorter wait lets instances run dry, a longer one keeps short prompts waiting."""

# Rows of what :func:`solve` returns, one column a split.
THRESHOLD, OFFLOAD, PREFILL_RPS, DECODE_RPS = 0, 1, 2, 3


class Advice(NamedTuple):
    """The optimum on the window. Thresholds in tokens (inside the bins' range), rates in requests per second."""

    threshold_tokens: float
    n_prefill: int
    lambda_max_rps: float
    offload_fraction: float
    threshold_at_present_split_tokens: float
    offload_at_present_split: float
    prefill_at_present_split_rps: float  # Θ_prfaas + Θ_pd-p, at that threshold
    decode_at_present_split_rps: float  # Θ_pd-d

    @property
    def lambda_max_at_present_split_rps(self) -> float:
        return min(self.prefill_at_present_split_rps, self.decode_at_present_split_rps)


def bin_shares(law: LengthLaw) -> np.ndarray:
    """The share of a law in each length bin (those outside fall into the first or the last). Shape (bins,)."""
    return np.diff(law.cdf(LENGTH_BIN_EDGES_TOKENS[1:-1]), prepend=0.0, append=1.0)


def push(ring: np.ndarray, total: np.ndarray, at: int, row: np.ndarray) -> int:
    """Put one step's counts into the window in place of its oldest; returns where the next one goes.

    ``ring`` has shape (steps, width), ``total`` (width,) is its sum and is kept up to date.
    """
    for k in range(row.shape[0]):
        total[k] += row[k] - ring[at, k]
        ring[at, k] = row[k]
    return (at + 1) % ring.shape[0]


def solve(
    total: np.ndarray,
    tables: np.ndarray,
    n_prefill: np.ndarray,
    n_local: float,
    n_remote: float,
    link_bps: float,
    pipelined: bool,
    decode_tokens_per_s: float,
) -> np.ndarray:
    """The best threshold of every split on a window, with what it sustains.

    ``total`` (width,): counts, prior included. ``tables`` (4, bins): log of length, local and remote prefill time in
    seconds, KV size in bits, at the bins' centres. ``n_prefill`` (m,): the splits. ``decode_tokens_per_s``: of one
    instance with every slot taken. Returns rows THRESHOLD (0 or infinite at the edges), OFFLOAD, PREFILL_RPS,
    DECODE_RPS, shape (4, m).
    """
    bins = tables.shape[1]
    counts = total[:bins]
    all_counts = np.cumsum(counts)[bins - 1]  # not sum(): numpy adds in pairs, compiled code one by one
    loads = eq.stage_loads(counts / all_counts, tables[1], tables[2], tables[3])
    cuts = eq.balanced_cuts(loads, n_prefill, n_remote, link_bps, pipelined)
    at = eq.loads_at(loads, cuts)
    out = np.empty((4, n_prefill.shape[0]))
    out[THRESHOLD] = eq.threshold_at(tables[0], cuts)
    out[OFFLOAD] = 1.0 - at[eq.KEPT]
    out[PREFILL_RPS] = eq.prefill_rps(at, n_prefill, n_remote, link_bps, pipelined)
    output_tokens = total[bins + 1] / total[bins]
    out[DECODE_RPS] = eq.decode_rps(n_local - n_prefill, decode_tokens_per_s, 1.0, output_tokens)
    return out


def filling_threshold(
    total: np.ndarray, tables: np.ndarray, n_prefill: float, arrivals_rps: float, wait_s: float
) -> float:
    """The threshold in tokens that fills the local pool and no more, for an overload: who waits are the long prompts.

    What arrives below it takes the time of ``n_prefill`` instances, λ · E[T(L); L ≤ t] = N_p, less (or more) what
    brings the wait for them, ``wait_s`` now, to FILLED_WAIT_S within STEER_S. Infinite where all that arrives takes
    less; while all instances are converting, as if there were one. ``total`` and ``tables`` as for :func:`solve`.
    """
    bins = tables.shape[1]
    spare = max(1.0 - (wait_s - FILLED_WAIT_S) / STEER_S, 0.0)
    room = max(n_prefill, 1.0) * spare * np.cumsum(total[:bins])[bins - 1]
    taken = 0.0
    for k in range(bins):
        work = arrivals_rps * total[k] * tables[1, k]
        if work > 0.0 and taken + work >= room:
            cut = np.empty(1)
            cut[0] = k + (room - taken) / work
            return float(eq.threshold_at(tables[0], cut)[0])
        taken += work
    return np.inf


class OnlineClosedForm:
    """Sliding-window closed form of one deployment.

    ``nominal``: the workload that the operator reckons with. ``window_s`` is rounded to whole steps of ``step_s``,
    at least one. Raises :class:`ConfigError` unless both are > 0.
    """

    def __init__(
        self,
        deployment: Deployment,
        nominal: HasLengths,
        window_s: float,
        step_s: float,
        prior_requests: float = PRIOR_REQUESTS,
    ) -> None:
        for name, value in (("window_s", window_s), ("step_s", step_s), ("prior_requests", prior_requests)):
            if not 0 < value < np.inf:
                raise ConfigError(f"online closed form: {name}: expected a number > 0, got {value}")
        self.deployment = deployment
        local, remote = deployment.local, deployment.remote
        compute = remote.profile if remote else local.profile
        centres = LENGTH_BIN_CENTRES_TOKENS
        self.tables = np.vstack(
            [
                np.log(centres),
                local.profile.prefill.time_s(centres),
                compute.prefill.time_s(centres),
                8.0 * compute.kv.size_bytes(centres),
            ]
        )
        low, high = deployment.prefill_bounds
        self.splits = np.arange(low, high + 1) * 1.0
        self.prior = np.empty(WIDTH)
        self.prior[:BINS] = prior_requests * bin_shares(nominal.lengths)
        self.prior[COMPLETED] = prior_requests
        self.prior[OUTPUT_TOKENS] = prior_requests * nominal.output_tokens.mean()
        self.ring = np.zeros((max(1, round(window_s / step_s)), WIDTH))
        self.total = self.prior.copy()
        self.decode_tokens_per_s = local.profile.decode.slots / local.profile.decode.step_s[local.profile.decode.slots]
        self._at = 0

    def reset(self) -> None:
        """Forget what was seen."""
        self.ring[:] = 0.0
        self.total[:] = self.prior
        self._at = 0

    def update(
        self,
        bin_counts: np.ndarray,
        completed: float,
        completed_output_tokens: float,
        link_gbps: float,
        n_prefill: int,
    ) -> Advice:
        """Take in one step (what ``Engine.measure`` gives) and solve.

        ``link_gbps`` is the link's present capacity (0: down, everything stays local), ``n_prefill`` the present N_p.
        """
        row = np.empty(WIDTH)
        row[:BINS], row[COMPLETED], row[OUTPUT_TOKENS] = bin_counts, completed, completed_output_tokens
        self._at = push(self.ring, self.total, self._at, row)
        return self.advise(link_gbps, n_prefill)

    def advise(self, link_gbps: float, n_prefill: int) -> Advice:
        """The optimum on the window as it stands."""
        deployment = self.deployment
        solved = solve(
            self.total,
            self.tables,
            self.splits,
            float(deployment.local.instances),
            float(deployment.remote.instances) if deployment.remote else 0.0,
            link_gbps * GIGA,
            deployment.layerwise_pipelining,
            self.decode_tokens_per_s,
        )
        best = int(np.argmax(np.minimum(solved[PREFILL_RPS], solved[DECODE_RPS])))
        present = min(max(int(n_prefill - self.splits[0]), 0), len(self.splits) - 1)
        threshold, present_threshold = np.clip(
            solved[THRESHOLD, [best, present]], LENGTH_BIN_EDGES_TOKENS[0], LENGTH_BIN_EDGES_TOKENS[-1]
        )
        return Advice(
            threshold_tokens=float(threshold),
            n_prefill=int(self.splits[best]),
            lambda_max_rps=float(min(solved[PREFILL_RPS, best], solved[DECODE_RPS, best])),
            offload_fraction=float(solved[OFFLOAD, best]),
            threshold_at_present_split_tokens=float(present_threshold),
            offload_at_present_split=float(solved[OFFLOAD, present]),
            prefill_at_present_split_rps=float(solved[PREFILL_RPS, present]),
            decode_at_present_split_rps=float(solved[DECODE_RPS, present]),
        )

    def filling(self, n_prefill: float, arrivals_rps: float, wait_s: float) -> float:
        """:func:`filling_threshold` on the window as it stands, inside the bins' range."""
        low, high = LENGTH_BIN_EDGES_TOKENS[[0, -1]]
        threshold = filling_threshold(self.total, self.tables, n_prefill, arrivals_rps, wait_s)
        return float(min(max(threshold, low), high))
