"""The paper's Table 6, request by request: where the queues begin to grow, and what an empty system answers."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.simulator.engine import make_engine
from prfaas_env.theory.plan import Plan, plan
from prfaas_env.workload.stream import RequestStream
from tests.physics.build import ended
from tests.physics.paper import INPUTS, OUTPUT_TOKENS, TABLE_6, WORKLOAD

REQUESTS = 50_000
every_column = pytest.mark.parametrize("name", list(TABLE_6))


def closed_form(deployment: Deployment) -> Plan:
    """What the deployment sustains as it stands, by Eqs. 3–6."""
    threshold = deployment.threshold_tokens if deployment.route_pinned is None else None
    return plan(deployment, WORKLOAD, n_prefill=deployment.local.prefill, threshold_tokens=threshold)


def until_the_last_arrival(engine_name: str, deployment: Deployment, rate_rps: float) -> np.ndarray:
    """The log of a Poisson stream, cut at its last arrival."""
    rng = np.random.default_rng(9)
    arrivals = np.cumsum(rng.exponential(1 / rate_rps, REQUESTS))
    stream = RequestStream(arrivals, INPUTS.sample(rng, REQUESTS), np.full(REQUESTS, OUTPUT_TOKENS))
    engine = make_engine(engine_name, deployment, stream)
    engine.advance(np.nextafter(arrivals[-1], np.inf))
    return engine.log()


def growth(log: np.ndarray) -> float:
    """Slope of the number waiting for a first token, as arrivals find it, in requests per arrival (least squares)."""
    answered = np.sort(log["first_token_s"][~np.isnan(log["first_token_s"])])
    waiting = np.arange(len(log)) - np.searchsorted(answered, log["arrival_s"], side="right")
    return float(np.polyfit(np.arange(len(log)), waiting, 1)[0])


@every_column
def test_queues_are_stable_just_below_the_closed_form_rate(engine_name: str, name: str) -> None:
    """At 0.97 Λ_max fewer than 3 in 1,000 arrivals add to the queue; runs of this length scatter by less than one."""
    deployment = load_deployment(name)
    log = until_the_last_arrival(engine_name, deployment, 0.97 * closed_form(deployment).lambda_max_rps)
    assert growth(log) < 0.003


@every_column
def test_queues_grow_just_above_the_closed_form_rate(engine_name: str, name: str) -> None:
    """At 1.03 Λ_max more than 15 in 1,000 do; the pool that is short works at the rate that Λ_max says, within 2 %."""
    deployment = load_deployment(name)
    lambda_max_rps = closed_form(deployment).lambda_max_rps
    log = until_the_last_arrival(engine_name, deployment, 1.03 * lambda_max_rps)
    assert growth(log) > 0.015
    span_s = log["arrival_s"][-1]
    ended_of_pool = [np.sum(log["prefill_end_s"][log["remote"] == remote] <= span_s) for remote in (True, False)]
    shares = [log["remote"].mean(), 1 - log["remote"].mean()]
    knee_rps = min(ended / span_s / share for ended, share in zip(ended_of_pool, shares, strict=True) if share > 0)
    assert knee_rps == pytest.approx(lambda_max_rps, rel=0.02)


@every_column
def test_an_empty_system_answers_as_table_6_says(engine_name: str, name: str) -> None:
    """1 % load. Nobody waits, so only lengths matter: each comes as often as the law says, in random order."""
    mean_s, p90_s, lambda_max_rps = TABLE_6[name]
    rng, requests = np.random.default_rng(10), 4000
    lengths = rng.permutation(np.rint(INPUTS.quantile((np.arange(requests) + 0.5) / requests)).astype(np.int64))
    arrivals = np.cumsum(rng.exponential(100 / lambda_max_rps, requests))
    stream = RequestStream(arrivals, lengths, np.full(requests, OUTPUT_TOKENS))
    deployment = load_deployment(name)
    ttft_s = ended(engine_name, deployment, stream).log()["ttft_s"]
    assert ttft_s.mean() == pytest.approx(mean_s, rel=0.03)
    assert np.quantile(ttft_s, 0.9) == pytest.approx(p90_s, rel=0.03)
    theory = closed_form(deployment)
    assert ttft_s.mean() == pytest.approx(theory.ttft_mean_s, rel=0.005)
    assert np.quantile(ttft_s, 0.9) == pytest.approx(theory.ttft_p90_s, rel=0.005)
