"""What layer-wise pipelining is worth, against the paper's figures (the table "value of overlap")."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prfaas_env.deployment import load_deployment
from prfaas_env.workload.stream import RequestStream
from tests.physics.build import ended
from tests.physics.paper import INPUTS, THRESHOLD_TOKENS

REQUESTS = 6000


def saturated_rps(engine_name: str, gbps: float, *, pipelined: bool, static_share: bool) -> float:
    """Requests per second of the remote cluster, with long requests queued at all times.

    ``static_share``: each instance has its own part of the line; otherwise the flows share all of it.
    """
    base = load_deployment("naive-heterogeneous-pd")
    assert base.remote is not None
    assert base.link is not None
    instances = base.remote.instances
    cap_gbps = gbps / instances if static_share else gbps
    line = replace(base.link, capacity_gbps=gbps, connections_per_flow=1, gbps_per_connection=cap_gbps)
    subject = replace(base, link=line, layerwise_pipelining=pipelined)
    # Long requests only, each length as often as the law says, in random order.
    beyond = float(INPUTS.cdf(THRESHOLD_TOKENS))
    shares = beyond + (1 - beyond) * (np.arange(REQUESTS) + 0.5) / REQUESTS
    lengths = np.random.default_rng(8).permutation(np.rint(INPUTS.quantile(shares)).astype(np.int64))
    stream = RequestStream(np.zeros(REQUESTS), lengths, np.ones(REQUESTS, dtype=np.int64))
    sent_s = np.sort(ended(engine_name, subject, stream).log()["kv_ready_s"])
    first, last = 20, REQUESTS - 20  # between them all instances are at work
    return (last - first) / float(sent_s[last] - sent_s[first])


def test_compute_bound_rate_with_pipelining(engine_name: str) -> None:
    """Table 6: 1.61 req/s."""
    assert saturated_rps(engine_name, 100.0, pipelined=True, static_share=False) == pytest.approx(1.61, rel=0.03)


@pytest.mark.parametrize(("gbps", "loss"), [(100.0, 0.11), (50.0, 0.20), (25.0, 0.33), (13.0, 0.48)])
def test_sending_after_prefill_costs_what_the_paper_says(engine_name: str, gbps: float, loss: float) -> None:
    """1.61 req/s less 11, 20, 33 and 48 %, when each instance has its share of the line to itself."""
    rate = saturated_rps(engine_name, gbps, pipelined=False, static_share=True)
    assert rate == pytest.approx(1.61 * (1 - loss), rel=0.03)


@pytest.mark.parametrize(("gbps", "loss"), [(100.0, 0.03), (50.0, 0.07), (25.0, 0.15), (13.0, 0.29)])
def test_sharing_the_whole_line_costs_less(engine_name: str, gbps: float, loss: float) -> None:
    """Instances seldom send at the same time, and then a flow may have the whole line (docs/model.md has these)."""
    pipelined = saturated_rps(engine_name, gbps, pipelined=True, static_share=False)
    shared = saturated_rps(engine_name, gbps, pipelined=False, static_share=False)
    assert 1 - shared / pipelined == pytest.approx(loss, abs=0.006)
