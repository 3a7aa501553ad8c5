"""Waits and predicted TTFT in steady state, against formulas that are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from prfaas_env.deployment import load_deployment
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.signals import LENGTH_BIN_EDGES_TOKENS
from prfaas_env.theory.latency import LatencyModel
from prfaas_env.theory.online import bin_shares
from prfaas_env.theory.plan import plan
from prfaas_env.theory.queueing import allen_cunneen_wait_s, erlang_c


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.3), (3, 2.0), (8, 7.9), (60, 50.0), (4, 0.0)])
def test_erlang_c_is_erlang_s_sum(servers: int, offered: float) -> None:
    busy = offered**servers / math.factorial(servers) * servers / (servers - offered)
    expected = busy / (sum(offered**k / math.factorial(k) for k in range(servers)) + busy)
    assert float(erlang_c(servers, offered)) == pytest.approx(expected, rel=1e-10)


def test_erlang_c_bears_a_cluster_of_ten_thousand_slots_and_overload() -> None:
    waiting = erlang_c(np.array([10_000.0, 10_000.0, 4.0, 0.0]), np.array([5_000.0, 9_990.0, 4.0, 1.0]))
    assert waiting[0] == pytest.approx(0.0, abs=1e-12)
    assert 0.8 < waiting[1] < 1.0
    assert waiting[2:].tolist() == [1.0, 1.0]


def test_waits_of_m_m_c_and_m_g_1_are_exact() -> None:
    assert float(allen_cunneen_wait_s(1.5, 2, 1.0)) == pytest.approx(9 / 7, rel=1e-12)  # M/M/2 at load .75
    for scv in (0.0, 0.5, 3.0):  # Pollaczek–Khinchine: λ E[S²] / 2 (1 − ρ)
        second_moment = (1.0 + scv) * 2.0**2
        assert float(allen_cunneen_wait_s(0.4, 1, 2.0, scv)) == pytest.approx(0.4 * second_moment / 2 / 0.2, rel=1e-12)
    assert float(allen_cunneen_wait_s(0.4, 1, 2.0, 1.0, arrival_scv=3.0)) == pytest.approx(2 * 8.0, rel=1e-12)


def test_no_arrivals_do_not_wait_and_too_many_wait_for_ever() -> None:
    assert allen_cunneen_wait_s(np.array([0.0, 2.0, 3.0]), 2, 1.0).tolist() == [0.0, np.inf, np.inf]
    assert allen_cunneen_wait_s(np.array([0.0, 1.0]), 0, 1.0).tolist() == [0.0, np.inf]


def test_predicted_ttft_of_an_empty_system_is_that_of_the_plan() -> None:
    scenario = load_scenario("paper-stationary")
    model, shares = LatencyModel(scenario.deployment), bin_shares(scenario.nominal.lengths)
    ttft_s = model.predict(1e-9, shares, 1024.0, 100.0).ttft_s
    for k in (0, 20, len(model.thresholds_tokens) - 1):
        threshold = min(model.thresholds_tokens[k], 1e6)
        expected = plan(scenario.deployment, scenario, n_prefill=3, threshold_tokens=threshold).ttft_mean_s
        assert ttft_s[2, k] == pytest.approx(expected, rel=5e-3)


def test_a_setting_keeps_up_exactly_below_its_lambda_max() -> None:
    scenario = load_scenario("paper-stationary")
    model, shares = LatencyModel(scenario.deployment), bin_shares(scenario.nominal.lengths)
    at = int(np.argmin(np.abs(model.thresholds_tokens - 19_400.0)))
    most = plan(scenario.deployment, scenario, n_prefill=3, threshold_tokens=model.thresholds_tokens[at])
    for share, stable in ((0.98, True), (1.02, False)):
        predicted = model.predict(share * most.lambda_max_rps, shares, 1024.0, 100.0)
        assert np.isfinite(predicted.ttft_s[2, at]) == stable
        assert predicted.utilisation[2, at] == pytest.approx(share, rel=5e-3)


def test_a_slow_link_or_one_that_is_down_counts() -> None:
    model = LatencyModel(load_deployment("prfaas-pd"))
    shares = bin_shares(load_scenario("paper-stationary").nominal.lengths)
    wide, narrow, down = (model.predict(2.0, shares, 1024.0, gbps).ttft_s[3] for gbps in (100.0, 12.0, 0.0))
    sending = slice(0, 15)  # thresholds below 10K tokens
    assert (narrow[sending] > wide[sending]).all()
    assert narrow[-1] == wide[-1]  # all local
    assert np.isinf(down[sending]).all()
    assert np.isfinite(model.predict(0.5, shares, 1024.0, 0.0).ttft_s[3, -1])


def test_more_slots_taken_mean_a_wait_for_decode() -> None:
    model = LatencyModel(load_deployment("prfaas-pd"))
    shares = np.eye(len(LENGTH_BIN_EDGES_TOKENS) - 1)[60]
    ttft_s = model.predict(1.5, shares, 1024.0, 100.0).ttft_s
    assert np.isinf(ttft_s[6]).all()  # one decode instance sustains .78 a second
    assert (ttft_s[5, :5] > ttft_s[4, :5]).all()  # at t = 0 the split matters to decode alone
