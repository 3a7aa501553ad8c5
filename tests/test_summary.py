"""Aggregates of a run against values worked out by hand from a made-up log and timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.simulator.log import COMPLETED, IN_SYSTEM, REJECTED, empty_log
from prfaas_env.simulator.result import as_timeline
from prfaas_env.simulator.signals import SIGNAL, SIGNALS
from prfaas_env.simulator.summary import meets_objectives, summarise

OBJECTIVES = Objectives(ttft_s=(2.0, 10.0), tpot_s=(0.05, 0.05))


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return load_deployment("prfaas-pd")


def made_log() -> np.ndarray:
    """Good, slow first token, slow decode, good in the lenient class, rejected, finished after the window."""
    log = empty_log(6)
    log["arrival_s"] = [0, 1, 2, 3, 4, 18]
    log["ttft_s"] = [1, 3, 1, 5, np.nan, 2]
    log["tpot_s"] = [0.02, 0.02, 0.08, 0.05, np.nan, 0.02]
    log["first_token_s"] = log["arrival_s"] + log["ttft_s"] - 0.1  # the constant overhead is in TTFT alone
    log["finish_s"] = [5, 6, 7, 8, np.nan, 25]
    log["output_tokens"] = 1000
    log["remote"] = [True, False, True, False, False, True]
    log["service_class"] = [0, 0, 0, 1, 0, 0]
    log["status"] = [COMPLETED] * 4 + [REJECTED, COMPLETED]
    return log


def made_timeline(**columns: Any) -> np.ndarray:
    """Two steps of 10 s, and the drain after them, which no figure of the window may count."""
    steps = np.zeros((3, len(SIGNALS)))
    columns = {"time_s": [10, 20, 120], "interval_s": [10, 10, 100], **columns}
    for name, values in columns.items():
        steps[:, SIGNAL[name]] = values
    return as_timeline(steps)


def summary_of(deployment: Deployment, log: np.ndarray, steps: np.ndarray) -> dict[str, float]:
    return summarise(log, steps, deployment, OBJECTIVES, horizon_s=20.0)


def test_every_arrival_is_counted_once(deployment: Deployment) -> None:
    log = made_log()
    log["status"][5] = IN_SYSTEM
    found = summary_of(deployment, log, made_timeline())
    assert (found["arrived"], found["completed"], found["rejected"], found["in_system"]) == (6, 4, 1, 1)
    assert found["completed"] + found["rejected"] + found["in_system"] == found["arrived"]


def test_latency_by_hand(deployment: Deployment) -> None:
    found = summary_of(deployment, made_log(), made_timeline())
    assert found["ttft_mean_s"] == pytest.approx((1 + 3 + 1 + 5 + 2) / 5)
    assert found["ttft_p50_s"] == pytest.approx(2.0)
    assert found["ttft_p90_s"] == pytest.approx(3 + 0.6 * 2)  # rank 3.6 of 0 … 4 in 1, 1, 2, 3, 5
    assert found["ttft_p99_s"] == pytest.approx(3 + 0.96 * 2)
    assert found["tpot_mean_s"] == pytest.approx(0.19 / 5)
    assert found["end_to_end_mean_s"] == pytest.approx((5 + 5 + 5 + 5 + 7) / 5 + 0.1)


def test_goodput_is_a_share_of_all_arrivals_by_class(deployment: Deployment) -> None:
    log = made_log()
    assert meets_objectives(log, OBJECTIVES).tolist() == [True, False, False, True, False, True]
    found = summary_of(deployment, log, made_timeline())
    assert found["goodput"] == pytest.approx(3 / 6)
    assert found["goodput_rps"] == pytest.approx(3 / 20)


def test_rates_of_the_window_leave_out_the_drain(deployment: Deployment) -> None:
    steps = made_timeline(
        link_sent_bytes=[1e9, 3e9, 99e9],
        link_capacity_bytes=[10e9, 10e9, 99e9],
        conversions=[1, 2, 4],
        remote_busy_share=[0.5, 1.0, 0.0],
        local_busy_share=[0.2, 0.8, 0.0],
        prefill_nodes=[3, 1, 3],
        decode_busy_share=[0.4, 0.6, 0.0],
        decode_nodes=[5, 5, 5],
    )
    found = summary_of(deployment, made_log(), steps)
    assert found["throughput_rps"] == pytest.approx(4 / 20)
    assert found["egress_gbps_mean"] == pytest.approx(8 * 4 / 20)
    assert found["egress_gbps_p95"] == pytest.approx(0.8 + 0.95 * (2.4 - 0.8))
    assert found["egress_link_share"] == pytest.approx(0.2)
    assert found["conversions"] == 3
    assert found["remote_prefill_utilisation"] == pytest.approx(0.75)
    assert found["local_prefill_utilisation"] == pytest.approx((0.2 * 3 + 0.8 * 1) / 4)
    assert found["decode_utilisation"] == pytest.approx(0.5)
    assert found["offload_fraction"] == pytest.approx(3 / 5)  # of the admitted


def test_cost_is_the_bill_of_the_window(deployment: Deployment) -> None:
    assert deployment.link is not None
    priced = replace(deployment, link=replace(deployment.link, price_usd_per_gb=0.02))
    found = summary_of(priced, made_log(), made_timeline(link_sent_bytes=[1e9, 3e9, 99e9]))
    # 4 × 28 + 8 × 14 USD an hour, for 20 s; 4 GB at 2 cents; four requests of 1,000 tokens finished by then
    instances_usd = (4 * 8 * 3.5 + 8 * 8 * 1.75) * 20 / 3600
    assert found["egress_usd"] == pytest.approx(0.08)
    assert found["cost_usd"] == pytest.approx(instances_usd + 0.08)
    assert found["usd_per_million_output_tokens"] == pytest.approx((instances_usd + 0.08) / 0.004)
    assert found["requests_per_usd"] == pytest.approx(4 / (instances_usd + 0.08))
    assert summary_of(deployment, made_log(), made_timeline())["egress_usd"] == 0.0


def test_a_run_without_requests_has_counts_and_no_averages(deployment: Deployment) -> None:
    found = summary_of(deployment, empty_log(0), made_timeline())
    assert found["arrived"] == found["completed"] == found["throughput_rps"] == 0
    for name in ("ttft_mean_s", "ttft_p99_s", "goodput", "offload_fraction", "usd_per_million_output_tokens"):
        assert np.isnan(found[name]), name


def test_stages_that_a_deployment_lacks_are_not_a_number() -> None:
    homogeneous = summary_of(load_deployment("homogeneous-pd"), made_log(), made_timeline(prefill_nodes=9))
    assert np.isnan(homogeneous["remote_prefill_utilisation"])
    assert np.isnan(homogeneous["egress_link_share"])
    assert homogeneous["egress_gbps_mean"] == homogeneous["egress_gbps_p95"] == 0.0
    naive = summary_of(load_deployment("naive-heterogeneous-pd"), made_log(), made_timeline(decode_nodes=8))
    assert np.isnan(naive["local_prefill_utilisation"])
    assert naive["remote_prefill_utilisation"] == 0.0
