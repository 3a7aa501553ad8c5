"""The ends of the range: nothing to do, one of everything, the impossible, and several things at one instant."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.profiles import MIB
from prfaas_env.simulator.conditions import CapacityTimeline
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import make_engine
from prfaas_env.simulator.log import COMPLETED, REJECTED
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNAL
from tests.physics.build import deployment, ended, link, profile, requests


def test_no_requests(engine_name: str) -> None:
    engine = make_engine(engine_name, deployment(remote=profile()), requests([]))
    engine.drain()
    engine.advance(10.0)
    signals, bins = engine.measure()
    assert len(engine.log()) == 0
    assert signals[SIGNAL["time_s"]] == signals[SIGNAL["interval_s"]] == 10.0
    assert bins.shape == LENGTH_BIN_CENTRES_TOKENS.shape
    assert bins.sum() == signals[SIGNAL["arrived"]] == signals[SIGNAL["waiting"]] == 0
    assert np.isfinite(signals).all()


def test_one_request_on_the_least_deployment(engine_name: str) -> None:
    """One prefill node, one decode node of one slot: 2 s of prefill, 3 tokens of 1/2 s, 0.07 s of overhead."""
    subject = deployment(profile(slots=1, step_ms=500.0), ttft_overhead_s=0.07)
    (row,) = ended(engine_name, subject, requests([1.0], 2.0, 3)).log()
    times = [row[f"{name}_s"] for name in ("prefill_start", "prefill_end", "kv_ready", "first_token", "finish")]
    np.testing.assert_allclose(times, [1.0, 3.0, 3.0, 3.5, 4.5], atol=1e-9)
    assert row["ttft_s"] == pytest.approx(2.57)
    assert row["tpot_s"] == pytest.approx(0.5)
    assert (row["status"], row["remote"], row["prefill_instance"], row["decode_instance"]) == (COMPLETED, False, 0, 1)


def test_what_can_never_fit_is_refused_with_its_reason(engine_name: str) -> None:
    """Input + output against the context limit, and their KV against the memory; the others go on."""
    narrow = profile(kv_mib_per_kib=1.0, hbm_gib=8 / 1024, context_limit_tokens=16 * 1024, step_ms=1.0)
    stream = requests([0.0, 1.0, 2.0, 3.0, 4.0], [15.0, 16.0, 7.0, 7.0, 1.0], [1024, 1, 1024, 1025, 1])
    engine = ended(engine_name, deployment(narrow), stream)
    log, (signals, bins) = engine.log(), engine.measure()
    np.testing.assert_array_equal(log["reject_reason"], [2, 1, 0, 2, 0])
    np.testing.assert_array_equal(log["status"] == REJECTED, log["reject_reason"] > 0)
    np.testing.assert_array_equal(np.isnan(log["finish_s"]), log["reject_reason"] > 0)
    assert (signals[SIGNAL["arrived"]], signals[SIGNAL["rejected"]], signals[SIGNAL["completed"]]) == (5, 3, 2)
    assert bins.sum() == 2


def test_limits_are_still_inside(engine_name: str) -> None:
    """A context of exactly the limit, KV of exactly the memory, a length of exactly the threshold."""
    subject = deployment(
        profile(kv_mib_per_kib=1.0, hbm_gib=4 / 1024, context_limit_tokens=4 * 1024, step_ms=1.0), remote=profile()
    )
    stream = requests([0.0, 1.0, 2.0], [3.0, 3.0, 2.0], [1024, 1025, 1])
    log = ended(engine_name, subject, stream, control=Control(1, 3.0 * 1024 - 1)).log()
    np.testing.assert_array_equal(log["status"], [COMPLETED, REJECTED, COMPLETED])
    np.testing.assert_array_equal(log["remote"], [True, False, False])
    log = ended(engine_name, subject, stream, control=Control(1, 3.0 * 1024)).log()
    assert not log["remote"].any()


def test_time_does_not_run_backwards(engine_name: str) -> None:
    engine = make_engine(engine_name, deployment(), requests([0.0]))
    engine.advance(2.0)
    engine.advance(2.0)
    with pytest.raises(ValueError, match="cannot advance to 1"):
        engine.advance(1.0)


def test_advance_stops_before_the_arrivals_of_its_instant(engine_name: str) -> None:
    """So a control given at that instant routes them; completions of the instant have happened."""
    engine = make_engine(engine_name, deployment(remote=profile()), requests([0.0, 1.0]), control=Control(1, np.inf))
    engine.advance(1.0)
    assert len(engine.log()) == 1
    assert engine.log()["kv_ready_s"][0] == 1.0
    engine.apply(Control(1, 0.0))
    engine.drain()
    np.testing.assert_array_equal(engine.log()["remote"], [False, True])


def test_requests_of_one_instant_are_served_by_number(engine_name: str) -> None:
    log = ended(engine_name, deployment(prefill=2), requests(np.zeros(6))).log()
    np.testing.assert_array_equal(log["prefill_start_s"], [0.0, 0.0, 1.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(log["prefill_instance"], [0, 1, 0, 1, 0, 1])


def test_an_instance_that_is_freed_serves_the_arrival_of_that_instant(engine_name: str) -> None:
    log = ended(engine_name, deployment(), requests([0.0, 1.0, 2.0])).log()
    np.testing.assert_array_equal(log["prefill_start_s"], log["arrival_s"])


@pytest.mark.parametrize(("price_s", "remote"), [(0.9, True), (1.1, False)])
def test_price_law_weighs_waits_and_services(engine_name: str, price_s: float, remote: bool) -> None:
    """At 2 s: 5 s of wait and 2 of prefill here; 3 of wait, 1 of prefill and 2 of delay there. That saves 1 s."""
    subject = deployment(profile(1.0), remote=profile(0.5), line=link(1e9, delay_ms=2000.0))
    engine = make_engine(engine_name, subject, requests([0.0, 1.0, 2.0], [10.0, 6.0, 2.0]))
    for at_s, price in ((0.0, -1e9), (1.0, 1e9), (2.0, price_s)):
        engine.advance(at_s)
        engine.apply(Control(1, law="price", price_s=price))
    engine.drain()
    np.testing.assert_array_equal(engine.log()["remote"], [True, False, remote])


@pytest.mark.parametrize(("price_s", "remote"), [(-2.1, True), (-1.9, False)])
def test_price_law_counts_the_part_of_a_transfer_that_prefill_does_not_hide(
    engine_name: str, price_s: float, remote: bool
) -> None:
    """2 s of prefill here; 1 there, and 8 MiB at 2 MiB/s, of which 3 s are exposed: 2 s worse."""
    subject = deployment(profile(1.0), remote=profile(0.5, kv_mib_per_kib=4.0), line=link(2.0))
    control = Control(1, law="price", price_s=price_s)
    assert ended(engine_name, subject, requests([0.0], 2.0), control=control).log()["remote"][0] == remote


def test_price_law_keeps_requests_here_while_the_link_is_down(engine_name: str) -> None:
    """… at any price; the threshold law does what it is told, and the request waits for the link."""
    down = CapacityTimeline(np.array([0.0, 4.0]), np.array([0.0, 8.0]))
    subject = deployment(profile(1.0), remote=profile(0.5, kv_mib_per_kib=1.0))
    for control, remote, ready_s in ((Control(1, law="price", price_s=-1e9), False, 1.0), (Control(1, 0.0), True, 4.0)):
        (row,) = ended(engine_name, subject, requests([0.0]), down, control).log()
        assert row["remote"] == remote
        assert row["kv_ready_s"] == pytest.approx(ready_s + remote * MIB * 8 / 8e9, abs=1e-9)
