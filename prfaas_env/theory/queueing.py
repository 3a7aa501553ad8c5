"""Mean waits in steady state: Erlang C, and the Allen–Cunneen approximation of general arrivals and service times.

A pool of c instances with one first-come-first-served queue is a multi-server queue. With Poisson arrivals and
exponential service (M/M/c) the wait is Erlang's formula C, exactly. For other laws Allen and Cunneen (1978) scale that
wait by half the sum of the two squared coefficients of variation (SCV) of the gaps and of the service times, which is
exact for M/M/c and M/G/1 (Pollaczek–Khinchine) and otherwise good to some per cent where the pool is busy.

Everything broadcasts; servers need not be whole numbers. Times in seconds, rates per second.
"""

from __future__ import annotations

import numpy as np

__all__ = ["allen_cunneen_wait_s", "erlang_c"]


def erlang_c(servers: np.ndarray | float, offered: np.ndarray | float) -> np.ndarray:
    """The probability that an arrival has to wait in M/M/c; 1 where the offered load is no less than the servers.

    ``offered``: the load in Erlang, arrivals per second × mean service time. Erlang B is the Poisson probability of c
    over that of at most c, which the incomplete gamma function gives for any number of servers.
    """
    from scipy.special import gammaincc, gammaln, xlogy

    c, a = np.broadcast_arrays(np.asarray(servers, dtype=np.float64), np.asarray(offered, dtype=np.float64))
    stable = a < c
    load = np.where(stable, a, 0.0)
    blocked = np.exp(xlogy(c, load) - load - gammaln(c + 1.0)) / gammaincc(c + 1.0, load)
    idle = 1.0 - load / np.where(c > 0.0, c, 1.0)
    return np.where(stable, blocked / (blocked + idle * (1.0 - blocked)), 1.0)


def allen_cunneen_wait_s(
    rate_rps: np.ndarray | float,
    servers: np.ndarray | float,
    service_s: np.ndarray | float,
    service_scv: np.ndarray | float = 1.0,
    arrival_scv: np.ndarray | float = 1.0,
) -> np.ndarray:
    """The mean wait for a server in seconds, in G/G/c; infinite where the servers cannot keep up, 0 without arrivals.

    ``service_s`` is the mean service time; an SCV is variance / mean²: 1 exponential, 0 constant.
    """
    offered = np.asarray(rate_rps, dtype=np.float64) * service_s
    spare = np.asarray(servers, dtype=np.float64) - offered
    exponential = erlang_c(servers, offered) * service_s / np.where(spare > 0.0, spare, 1.0)
    wait = exponential * (np.asarray(arrival_scv, dtype=np.float64) + service_scv) / 2.0
    return np.where(offered <= 0.0, 0.0, np.where(spare > 0.0, wait, np.inf))
