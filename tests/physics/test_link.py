"""The link is a fluid: max-min fair shares under caps, fed layer by layer (model.md section 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.deployment import Deployment
from prfaas_env.profiles import MIB
from prfaas_env.simulator import laws
from prfaas_env.simulator.conditions import CapacityTimeline
from prfaas_env.simulator.engine import make_engine
from prfaas_env.simulator.signals import SIGNAL
from tests.physics.build import deployment, ended, link, profile, requests
from tests.physics.queueing import mean_in_queue, processor_sharing

INSTANT = 2.0**-40  # s per KiB of prefill: as good as none


def cluster(
    mib_per_s: float,
    *,
    pipelined: bool,
    s_per_kib: float = INSTANT,
    instances: int = 64,
    delay_ms: float = 0.0,
    flow_cap_mib_per_s: float = 2.0**40,
) -> Deployment:
    """All prefill remote, 1 MiB of KV per KiB of input."""
    return deployment(
        profile(),
        prefill=0,
        remote=profile(s_per_kib, kv_mib_per_kib=1.0),
        remote_instances=instances,
        line=link(mib_per_s, delay_ms, flow_cap_mib_per_s),
        layerwise_pipelining=pipelined,
    )


def timeline(*steps: tuple[float, float]) -> CapacityTimeline:
    """Steps of (time in s, capacity in MiB/s)."""
    times, mib_per_s = zip(*steps, strict=True)
    return CapacityTimeline(np.array(times), np.array(mib_per_s) * MIB * 8 / 1e9)


# --- one transfer -----------------------------------------------------------------------------------------------------


def test_drain_takes_bytes_over_bandwidth(engine_name: str) -> None:
    """Ten transfers at once: the last byte of equal ones leaves when the link has carried them all."""
    log = ended(engine_name, cluster(16.0, pipelined=False), requests(np.zeros(10), 8.0)).log()
    np.testing.assert_allclose(log["kv_ready_s"], 10 * 8.0 / 16.0, rtol=1e-9)
    np.testing.assert_allclose(log["bytes_sent"], 8.0 * MIB, rtol=1e-12)


@pytest.mark.parametrize("pipelined", [True, False])
def test_pipelining_hides_a_transfer_that_the_link_can_follow(engine_name: str, pipelined: bool) -> None:
    """4 s of prefill, 4 MiB at 2 MiB/s, 0.25 s of delay: with pipelining only the delay is left, without it S/C too."""
    subject = cluster(2.0, pipelined=pipelined, s_per_kib=1.0, delay_ms=250.0)
    log = ended(engine_name, subject, requests([0.0], 4.0)).log()
    assert log["kv_ready_s"][0] - log["prefill_end_s"][0] == pytest.approx(0.25 if pipelined else 2.25, abs=1e-9)


def test_a_link_slower_than_prefill_sets_the_pace(engine_name: str) -> None:
    """4 MiB made in 4 s over 0.5 MiB/s: 8 s from the first byte, so 4 s after prefill."""
    subject = cluster(0.5, pipelined=True, s_per_kib=1.0)
    log = ended(engine_name, subject, requests([1.0], 4.0)).log()
    assert log["prefill_end_s"][0] == 5.0
    assert log["kv_ready_s"][0] == pytest.approx(9.0, abs=1e-9)


@pytest.mark.parametrize(
    ("pipelined", "start_s", "ready_s"), [(True, [0.0, 1.0], [3.0, 4.0]), (False, [0.0, 3.0], [3.0, 6.0])]
)
def test_without_pipelining_the_two_times_add_up(
    engine_name: str, pipelined: bool, start_s: list[float], ready_s: list[float]
) -> None:
    """One instance, two requests of 1 s of prefill and 2 s of sending (paper Eq. 3).

    Pipelined, the first has sent half of its bytes when the second begins; the two share until the first is done at 3.
    """
    subject = cluster(0.5, pipelined=pipelined, s_per_kib=1.0, instances=1)
    log = ended(engine_name, subject, requests([0.0, 0.0])).log()
    np.testing.assert_allclose(log["prefill_start_s"], start_s, atol=1e-9)
    np.testing.assert_allclose(log["kv_ready_s"], ready_s, atol=1e-9)


def test_flow_cap(engine_name: str) -> None:
    """Connections × rate of one: a lone transfer cannot fill the line, three can."""
    subject = cluster(6.0, pipelined=False, flow_cap_mib_per_s=2.0)
    for flows in (1, 2, 3, 4):
        log = ended(engine_name, subject, requests(np.zeros(flows), 4.0)).log()
        np.testing.assert_allclose(log["kv_ready_s"], 4.0 / min(2.0, 6.0 / flows), rtol=1e-9)


# --- shares -----------------------------------------------------------------------------------------------------------


def test_a_pipelined_flow_leaves_what_it_cannot_use(engine_name: str) -> None:
    """A line of 4, 8 MiB each: A makes 1 MiB/s for 8 s; B, made in an instant, comes at 2 s.

    B gets 3 MiB/s, not 2, and ends at 2 + 8/3 s; A is never behind.
    """
    remote = profile(1.0, kv_fixed_mib=8.0)
    subject = deployment(profile(), prefill=0, remote=remote, remote_instances=2, line=link(4.0))
    log = ended(engine_name, subject, requests([0.0, 2.0], [8.0, 2.0**-10])).log()
    np.testing.assert_allclose(log["kv_ready_s"], [8.0, 2.0 + 8.0 / 3.0], rtol=0, atol=1e-9)


def test_falling_behind_and_catching_up(engine_name: str) -> None:
    """12 MiB made in 12 s on a line of 2, which carries only 1/2 from 2 s to 6 s.

    At 6 s 2 of 6 MiB are missing; at 2 MiB/s the flow is level with its prefill at 8 s, and keeps its pace to the end.
    """
    subject = cluster(2.0, pipelined=True, s_per_kib=1.0)
    stream = requests([0.0], 12.0)
    engine = make_engine(engine_name, subject, stream, capacity=timeline((0, 2.0), (2, 0.5), (6, 2.0)))
    seen = []
    for time_s in (2.0, 6.0, 7.0, 8.0, 10.0):
        engine.advance(time_s)
        signals, _ = engine.measure()
        sent, backlog = signals[SIGNAL["link_sent_bytes"]] / MIB, signals[SIGNAL["link_backlog_bytes"]] / MIB
        seen.append((sent, backlog, signals[SIGNAL["link_congested_share"]]))
    np.testing.assert_allclose(
        seen, [(2.0, 0.0, 0.0), (2.0, 2.0, 1.0), (2.0, 1.0, 1.0), (2.0, 0.0, 1.0), (2.0, 0.0, 0.0)], atol=1e-9
    )
    engine.drain()
    assert engine.log()["kv_ready_s"][0] == pytest.approx(12.0, abs=1e-9)


caps = st.lists(st.floats(0.0, 1e12) | st.sampled_from([0.0, 1e9, 1e9, 2e9]), max_size=12)


@given(caps, st.floats(0.0, 1e12))
def test_fair_level_is_that_of_water_filling(flow_caps: Sequence[float], capacity: float) -> None:
    """Against progressive filling: raise all unsaturated flows together until the link or a cap stops them."""
    rates = np.zeros(len(flow_caps))
    open_flows, left = set(range(len(flow_caps))), capacity
    while open_flows:
        rise = min(left / len(open_flows), min(flow_caps[i] - rates[i] for i in open_flows))
        for i in open_flows:
            rates[i] += rise
        left -= rise * len(open_flows)
        full = {i for i in open_flows if flow_caps[i] - rates[i] <= 1e-12 * flow_caps[i]}
        if left <= 1e-12 * capacity or not full:
            break
        open_flows -= full
    level = laws.fair_level(np.sort(np.array(flow_caps, dtype=np.float64)), len(flow_caps), capacity)
    np.testing.assert_allclose(np.minimum(flow_caps, level), rates, rtol=1e-6, atol=1e-9 * capacity)


@pytest.mark.parametrize("load", [0.60, 0.74, 0.92])
def test_transfers_share_the_link_like_processor_sharing(engine_name: str, load: float) -> None:
    """Poisson transfers: each ends as an independent simulation of M/G/1-PS says, the mean is S/C / (1 − ρ)."""
    flows, mib_per_s = 12_000, 64.0
    rng = np.random.default_rng(7)
    kib = np.rint(rng.lognormal(5.0, 0.7, flows))
    mean_kib = np.exp(5.0 + 0.7**2 / 2)
    gap_s = mean_kib / mib_per_s / load
    gaps = rng.exponential(gap_s, flows + 1)
    subject = cluster(mib_per_s, pipelined=False, instances=512)
    log = ended(engine_name, subject, requests(np.cumsum(gaps[:-1]), kib)).log()
    assert (log["prefill_start_s"] == log["arrival_s"]).all()
    np.testing.assert_allclose(log["kv_ready_s"], processor_sharing(log["arrival_s"], kib / mib_per_s), atol=1e-5)
    found = np.arange(flows) - np.searchsorted(np.sort(log["kv_ready_s"]), log["arrival_s"], side="right")
    times_s = log["kv_ready_s"] - log["arrival_s"]
    mean = mean_in_queue(times_s, found, kib - mean_kib, gaps[1:] - gap_s, batches=30)
    assert mean.mean == pytest.approx(mean_kib / mib_per_s / (1 - load), abs=4 * mean.standard_error)


# --- capacity ---------------------------------------------------------------------------------------------------------


def test_capacity_changes_and_outages_stall_and_resume(engine_name: str) -> None:
    """16 MiB: 2 s at 2, down for 3 s, 4 s at 1, down for 1 s, the last 8 at 4: 4 + 0 + 4 + 0 + 8 MiB at 12 s."""
    capacity = timeline((0, 2.0), (2, 0.0), (5, 1.0), (9, 0.0), (10, 4.0))
    subject = cluster(2.0, pipelined=False)
    engine = make_engine(engine_name, subject, requests([0.0], 16.0), capacity=capacity)
    sent_mib, could_mib = [], []
    for time_s in (2.0, 4.0, 5.0, 9.0, 10.0, 11.0):
        engine.advance(time_s)
        signals, _ = engine.measure()
        sent_mib.append(signals[SIGNAL["link_sent_bytes"]] / MIB)
        could_mib.append(signals[SIGNAL["link_capacity_bytes"]] / MIB)
    np.testing.assert_allclose(sent_mib, [4.0, 0.0, 0.0, 4.0, 0.0, 4.0], atol=1e-9)
    np.testing.assert_allclose(could_mib, [4.0, 0.0, 0.0, 4.0, 0.0, 4.0], atol=1e-9)
    engine.drain()
    assert engine.log()["kv_ready_s"][0] == pytest.approx(12.0, abs=1e-9)


def test_a_pipelined_flow_outlives_an_outage(engine_name: str) -> None:
    """8 MiB made in 8 s on a line of 2, down from 2 to 8: the missing 6 MiB then take 3 s."""
    subject = cluster(2.0, pipelined=True, s_per_kib=1.0)
    log = ended(engine_name, subject, requests([0.0], 8.0), timeline((0, 2.0), (2, 0.0), (8, 2.0))).log()
    assert log["kv_ready_s"][0] == pytest.approx(11.0, abs=1e-9)


def test_a_link_that_stays_down_ends_the_run_and_loses_nobody(engine_name: str) -> None:
    subject = cluster(2.0, pipelined=True, s_per_kib=1.0)
    engine = ended(engine_name, subject, requests([0.0, 0.5, 3.0], 1.0), timeline((0, 2.0), (2, 0.0)))
    log, (signals, _) = engine.log(), engine.measure()
    np.testing.assert_array_equal(np.isnan(log["first_token_s"]), [False, False, True])
    assert signals[SIGNAL["waiting"]] == signals[SIGNAL["link_flows"]] == 1
    assert signals[SIGNAL["link_backlog_bytes"]] == MIB
