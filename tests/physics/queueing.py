"""Queueing theory to compare the engines with: formulas, exact recursions, and means with their noise taken out."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

__all__ = [
    "Estimate",
    "erlang_c_wait_s",
    "kiefer_wolfowitz",
    "mean_in_queue",
    "pollaczek_khinchine_wait_s",
    "processor_sharing",
]


class Estimate(NamedTuple):
    mean: float
    standard_error: float


def mean_in_queue(values: np.ndarray, state: np.ndarray, *surprises: np.ndarray, batches: int = 100) -> Estimate:
    """The mean of ``values`` (n,), one a job, with most of the noise of a loaded queue taken out.

    ``surprises`` (n,) are what each job brought beyond its expectation (service, gap to the next arrival). ``state``
    (n,) is what it found on arrival, drawn before them: the surprises and their products with the state have mean 0
    whatever the queue does, and say how lucky this run was. A regression over batch means takes their part out.
    """
    n = len(values) // batches * batches

    def batch_means(x: np.ndarray) -> np.ndarray:
        return x[:n].reshape(batches, -1).mean(axis=1)

    found = state > 0
    controls = [batch_means(x) for s in surprises for x in (s, s * state, s * found)]
    design = np.column_stack([np.ones(batches), *controls])
    means = batch_means(values)
    coefficients, *_ = np.linalg.lstsq(design, means, rcond=None)
    residual = means - design @ coefficients
    variance = residual @ residual / (batches - design.shape[1]) * np.linalg.pinv(design.T @ design)[0, 0]
    return Estimate(float(coefficients[0]), float(np.sqrt(variance)))


def erlang_c_wait_s(servers: int, load: float, service_s: float) -> float:
    """Mean wait of M/M/c at ``load`` per server (Erlang C)."""
    offered = servers * load
    blocked = 1.0  # Erlang B, by its recursion over the number of servers
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    waits = blocked / (1.0 - load * (1.0 - blocked))
    return waits * service_s / (servers * (1.0 - load))


def pollaczek_khinchine_wait_s(load: float, service_s: float, squared_variation: float) -> float:
    """Mean wait of M/G/1."""
    return load * service_s * (1.0 + squared_variation) / (2.0 * (1.0 - load))


def kiefer_wolfowitz(arrival_s: np.ndarray, service_s: np.ndarray, servers: int) -> np.ndarray:
    """Start times of first come, first served on identical servers."""
    free = [0.0] * servers
    starts = np.empty(len(arrival_s))
    for i, (arrival, service) in enumerate(zip(arrival_s.tolist(), service_s.tolist(), strict=True)):
        starts[i] = max(arrival, free[0])
        heapq.heapreplace(free, starts[i] + service)
    return starts


def processor_sharing(arrival_s: np.ndarray, alone_s: np.ndarray) -> np.ndarray:
    """End times when all jobs present share one server equally; ``alone_s`` is a job's time on an empty server.

    By the attained service V of a job that has been there for ever: dV/dt = 1/n, and a job ends when V has grown by
    its own size since it came.
    """
    ends = np.empty(len(arrival_s))
    goals: list[tuple[float, int]] = []
    attained = now = 0.0
    for i, arrival in enumerate([*arrival_s.tolist(), np.inf]):
        while goals and now + (goals[0][0] - attained) * len(goals) <= arrival:
            goal, job = heapq.heappop(goals)
            now += (goal - attained) * (len(goals) + 1)
            attained, ends[job] = goal, now
        if i < len(arrival_s):
            attained += (arrival - now) / len(goals) if goals else 0.0
            now = arrival
            heapq.heappush(goals, (attained + float(alone_s[i]), i))
    return ends
