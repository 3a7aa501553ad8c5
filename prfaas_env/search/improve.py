"""A better sequence of controls, by trying changes of one stretch at a time, each judged by playing on to the end.

From coarse to fine, the episode is cut into stretches. On each in turn, from the first to the last, a set of *moves* is
tried (another price or threshold, a node more or fewer, a change of N_p brought forward or put off); each is played
from a snapshot at the stretch's start to the end of the run, on every future that is reckoned with, and the best one is
kept if it costs less than what there was. So the result is never worse than the sequence that the search began with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from prfaas_env.search.rollout import BY_PRICE, N_PREFILL, PRICE, THRESHOLD, Cost, Rollouts
from prfaas_env.simulator.compiled.engine import Snapshot
from prfaas_env.simulator.control import RoutingLaw

__all__ = ["improve", "moves", "total"]

PRICE_STEPS_S = (-16.0, -4.0, -1.0, 1.0, 4.0, 16.0)
THRESHOLD_FACTORS = (0.5, 0.8, 1.25, 2.0)
THRESHOLDS_TOKENS = (4096.0, 8192.0, 16384.0, 32768.0, 65536.0)  # where a price gives way to a threshold
NODE_STEPS = (-2, -1, 1, 2)
LAWS: tuple[RoutingLaw, ...] = ("threshold", "price")


def total(costs: Sequence[Cost]) -> Cost:
    """The sum over futures."""
    return Cost(sum(cost.unserved for cost in costs), sum(cost.ttft_s for cost in costs))


def moves(
    knobs: np.ndarray, first: int, last: int, bounds: tuple[int, int], laws: Sequence[RoutingLaw] = LAWS
) -> Iterator[np.ndarray]:
    """Sequences that differ from ``knobs`` in rows ``first`` to ``last`` (exclusive); N_p stays within ``bounds``, and
    rows change over to ``laws`` only."""
    low, high = bounds

    def changed(column: int, values: np.ndarray | float) -> np.ndarray:
        other = knobs.copy()
        other[first:last, column] = values
        return other

    def ruled(by_price: float, threshold_tokens: float, price_s: float) -> np.ndarray:
        other = knobs.copy()
        other[first:last, BY_PRICE:] = by_price, threshold_tokens, price_s
        return other

    stretch = knobs[first:last]
    if stretch[:, BY_PRICE].any():
        for step in PRICE_STEPS_S:
            yield changed(PRICE, stretch[:, PRICE] + step)
        if np.ptp(stretch[:, PRICE]) > 0 or stretch[0, PRICE] != 0.0:
            yield changed(PRICE, 0.0)
        for threshold_tokens in THRESHOLDS_TOKENS if "threshold" in laws else ():
            yield ruled(0.0, threshold_tokens, 0.0)
    else:
        for factor in THRESHOLD_FACTORS:
            yield changed(THRESHOLD, stretch[:, THRESHOLD] * factor)
        if "price" in laws:
            yield ruled(1.0, 0.0, 0.0)
    tried = [stretch[:, N_PREFILL]]
    splits = [np.clip(stretch[:, N_PREFILL] + step, low, high) for step in NODE_STEPS]
    splits += [np.full(last - first, knobs[k, N_PREFILL]) for k in (first - 1, last) if 0 <= k < len(knobs)]
    for split in splits:
        if not any(np.array_equal(split, other) for other in tried):
            tried.append(split)
            yield changed(N_PREFILL, split)


def improve(
    runs: Sequence[Rollouts],
    knobs: np.ndarray,
    stretches: Sequence[int],
    bounds: tuple[int, int],
    laws: Sequence[RoutingLaw] = LAWS,
) -> tuple[np.ndarray, Cost]:
    """The best sequence found, float64 (steps, 4), and its cost over all ``runs``, which stand at its beginning.

    ``stretches``: lengths in steps, one pass over the sequence each. ``bounds``: the least and the most N_p. ``laws``:
    the routing laws that a stretch may change over to.
    """
    beginning = [run.engine.snapshot() for run in runs]
    best = knobs.copy()
    cost = total([run.cost(start, best, 0) for run, start in zip(runs, beginning, strict=True)])
    for length in stretches:
        snapshots = beginning
        rest = cost  # of the rows from `first` on
        for first in range(0, len(best), length):
            last = min(first + length, len(best))
            best, rest = _best_on(runs, snapshots, best, rest, (first, last), bounds, laws)
            snapshots, spent = _after(runs, snapshots, best, first, last)
            rest = Cost(rest.unserved - spent.unserved, rest.ttft_s - spent.ttft_s)
        cost = total([run.cost(start, best, 0) for run, start in zip(runs, beginning, strict=True)])
    for run, start in zip(runs, beginning, strict=True):
        run.engine.restore(start)
    return best, cost


def _best_on(
    runs: Sequence[Rollouts],
    snapshots: Sequence[Snapshot],
    knobs: np.ndarray,
    rest: Cost,
    stretch: tuple[int, int],
    bounds: tuple[int, int],
    laws: Sequence[RoutingLaw],
) -> tuple[np.ndarray, Cost]:
    first, last = stretch
    best, least = knobs, rest
    for other in moves(knobs, first, last, bounds, laws):
        cost = total([run.cost(start, other, first) for run, start in zip(runs, snapshots, strict=True)])
        if cost < least:
            best, least = other, cost
    return best, least


def _after(
    runs: Sequence[Rollouts], snapshots: Sequence[Snapshot], knobs: np.ndarray, first: int, last: int
) -> tuple[list[Snapshot], Cost]:
    """Where the runs stand after a stretch, and what it cost."""
    spent = []
    for run, start in zip(runs, snapshots, strict=True):
        run.engine.restore(start)
        spent.append(run.advance(knobs, first, last))
    return [run.engine.snapshot() for run in runs], total(spent)
