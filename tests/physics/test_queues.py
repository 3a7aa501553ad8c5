"""Prefill pools are the queues of the textbooks: Erlang C, Pollaczek–Khinchine, Kiefer–Wolfowitz."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.simulator.control import Control
from tests.physics.build import deployment, ended, profile, requests
from tests.physics.queueing import (
    Estimate,
    erlang_c_wait_s,
    kiefer_wolfowitz,
    mean_in_queue,
    pollaczek_khinchine_wait_s,
)

JOBS = 100_000
# A job of mean length has 2^30 tokens: rounding to whole ones then changes it by a billionth.
KIB = 2.0**20


def waits(engine_name: str, servers: int, load: float, services_s: np.ndarray, mean_s: float) -> Estimate:
    """Mean wait in a local prefill pool, fed by Poisson arrivals."""
    gap_s = mean_s / (servers * load)
    gaps = np.random.default_rng([servers, len(services_s)]).exponential(gap_s, len(services_s) + 1)
    subject = deployment(profile(s_per_kib=1 / KIB), prefill=servers)
    log = ended(engine_name, subject, requests(np.cumsum(gaps[:-1]), services_s * KIB)).log()
    wait_s = log["prefill_start_s"] - log["arrival_s"]
    return mean_in_queue(wait_s, wait_s, services_s - mean_s, gaps[1:] - gap_s)


def agree(estimate: Estimate, expected: float) -> None:
    """Within 3 %, and the estimate is good enough for that to mean something."""
    assert estimate.standard_error < 0.015 * expected
    assert estimate.mean == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.8), (2, 0.7), (3, 0.8)])
def test_exponential_service_waits_as_erlang_c_says(engine_name: str, servers: int, load: float) -> None:
    services_s = np.random.default_rng(1).exponential(1.0, JOBS)
    agree(waits(engine_name, servers, load, services_s, 1.0), erlang_c_wait_s(servers, load, 1.0))


@pytest.mark.parametrize("load", [0.8])
def test_constant_service_waits_as_pollaczek_khinchine_says(engine_name: str, load: float) -> None:
    agree(waits(engine_name, 1, load, np.ones(JOBS), 1.0), pollaczek_khinchine_wait_s(load, 1.0, 0.0))


def test_two_point_service_waits_as_pollaczek_khinchine_says(engine_name: str) -> None:
    short, long, share = 0.25, 3.25, 0.25  # mean 1
    services_s = np.where(np.random.default_rng(3).random(JOBS) < share, long, short)
    variance = share * long**2 + (1 - share) * short**2 - 1.0
    agree(waits(engine_name, 1, 0.6, services_s, 1.0), pollaczek_khinchine_wait_s(0.6, 1.0, variance))


def test_every_start_is_that_of_first_come_first_served(engine_name: str) -> None:
    """No instance idles while its pool has a queue, and nobody overtakes: both pools, bursts, a mixed load."""
    rng = np.random.default_rng(4)
    gaps = rng.exponential(0.2, 5000) * (rng.random(5000) < 0.7)  # 30 % arrive together with the one before
    lengths = rng.lognormal(0.0, 1.0, 5000)
    subject = deployment(profile(1.0), prefill=3, remote=profile(0.18), remote_instances=2)
    stream = requests(np.cumsum(gaps), lengths)
    log = ended(engine_name, subject, stream, control=Control(3, 1024.0)).log()
    assert 1000 < log["remote"].sum() < 4000
    for remote, servers, curve in (
        (False, 3, subject.local.profile.prefill),
        (True, 2, subject.remote.profile.prefill if subject.remote else None),
    ):
        pool = log[log["remote"] == remote]
        assert curve is not None
        service_s = curve.time_s(pool["input_tokens"])
        starts = kiefer_wolfowitz(pool["arrival_s"], service_s, servers)
        assert (starts > pool["arrival_s"]).mean() > 0.3
        np.testing.assert_allclose(pool["prefill_start_s"], starts, rtol=0, atol=1e-9)
        np.testing.assert_allclose(pool["prefill_end_s"] - pool["prefill_start_s"], service_s, rtol=0, atol=1e-9)
