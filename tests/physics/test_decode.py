"""Continuous batching: a batch of b sequences advances each of them one token per T_step(b) (model.md section 2.5)."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.simulator.engine import make_engine
from prfaas_env.simulator.signals import SIGNAL
from tests.physics.build import deployment, ended, profile, requests
from tests.physics.queueing import mean_in_queue, processor_sharing

PREFILL_S = 2.0**-10  # of one KiB here; so short that it only shifts every time by as much


def test_rising_step_time_by_hand(engine_name: str) -> None:
    """Steps of 1/8, 1/4 and 1/2 s for batches of one, two and three.

    Seconds after the first hand-off, tokens in brackets: A alone until B comes at 0.25, A [2]; both at 4 tokens/s until
    C comes at 0.5, A [3], B [1]; three at 2 tokens/s until 1.0, where A [4] and B [2] end, C [1], and D, which has
    waited for a slot since 0.625, gets one; two at 4 tokens/s until D [1] ends at 1.25, C [2]; C alone.
    """
    decode = profile(PREFILL_S, slots=3, step_ms=(125.0, 250.0, 500.0))
    stream = requests([0.0, 0.25, 0.5, 0.625], output_tokens=[4, 2, 3, 1])
    log = ended(engine_name, deployment(decode, prefill=4), stream).log()
    np.testing.assert_array_equal(log["kv_ready_s"] - PREFILL_S, [0.0, 0.25, 0.5, 0.625])
    np.testing.assert_array_equal(log["decode_start_s"] - PREFILL_S, [0.0, 0.25, 0.5, 1.0])
    np.testing.assert_array_equal(log["first_token_s"] - PREFILL_S, [0.125, 0.5, 1.0, 1.25])
    np.testing.assert_array_equal(log["finish_s"] - PREFILL_S, [1.0, 1.0, 1.375, 1.25])
    np.testing.assert_array_equal(log["ttft_s"], log["first_token_s"] - log["arrival_s"])
    np.testing.assert_allclose(log["tpot_s"], [0.875 / 3, 0.5, 0.375 / 2, 0.0], rtol=1e-15)


def test_a_sequence_goes_to_the_instance_with_the_most_free_slots(engine_name: str) -> None:
    decode = profile(PREFILL_S, slots=2, step_ms=1000.0)
    log = ended(engine_name, deployment(decode, prefill=8, decode=3), requests(np.arange(7) / 8, output_tokens=9)).log()
    instances = log["decode_instance"] - 8
    np.testing.assert_array_equal(instances, [0, 1, 2, 0, 1, 2, 0])  # the last waits for the first to end
    assert log["decode_start_s"][6] == log["finish_s"][0] == 9 + PREFILL_S


def test_slots_are_taken_first_come_first_served(engine_name: str) -> None:
    """By hand-off, not by arrival: the second request is shorter, so its KV is there first."""
    decode = profile(1.0, slots=1, step_ms=1000.0)
    stream = requests([0.0, 0.25, 0.5], [4.0, 1.0, 1.0], output_tokens=3)
    log = ended(engine_name, deployment(decode, prefill=3), stream).log()
    np.testing.assert_array_equal(log["kv_ready_s"], [4.0, 1.25, 1.5])
    np.testing.assert_array_equal(log["decode_start_s"], [7.25, 1.25, 4.25])


def test_memory_caps_hand_offs_in_flight(engine_name: str) -> None:
    """Room for one request on each of two instances: the third transfer begins when the first sequence has ended.

    1 GiB of KV a request and a fabric of 1 GiB/s: a transfer takes its second from the grant, whatever the prefill.
    """
    decode = profile(PREFILL_S, kv_fixed_mib=1024.0, slots=8, step_ms=1000.0, hbm_gib=1.5)
    subject = deployment(decode, prefill=4, decode=2, fabric_gbps=8 * 2**30 / 1e9)
    log = ended(engine_name, subject, requests([0.0, 0.125, 0.25], output_tokens=[2, 4, 1])).log()
    np.testing.assert_array_equal(log["prefill_start_s"], [0.0, 0.125, 0.25])
    np.testing.assert_array_equal(log["kv_ready_s"], [1.0, 1.125, 4.0])
    np.testing.assert_array_equal(log["decode_instance"], [4, 5, 4])
    np.testing.assert_array_equal(log["finish_s"], [3.0, 5.125, 5.0])


def test_memory_is_reserved_for_the_whole_context(engine_name: str) -> None:
    """Input and output tokens: two requests of 3 + 1 MiB do not fit into 7.5 MiB together, two of 2 + 1 MiB do."""
    for input_kib, together in ((3.0, False), (2.0, True)):
        decode = profile(PREFILL_S, kv_mib_per_kib=1.0, slots=8, step_ms=1.0, hbm_gib=7.5 / 1024)
        log = ended(
            engine_name, deployment(decode, prefill=2), requests([0.0, 0.0], input_kib, output_tokens=1024)
        ).log()
        assert (log["decode_start_s"][1] < log["finish_s"][0]) == together


def test_occupancy_without_a_limit_is_rate_times_holding_time(engine_name: str) -> None:
    """M/G/∞: mean occupancy λ E[S], Poisson with any law of S; here uniform on 1 … 200 tokens at 0.1 s."""
    jobs, rate, step_s = 20_000, 2.0, 0.125
    rng = np.random.default_rng(5)
    outputs = rng.integers(1, 201, jobs)
    stream = requests(np.cumsum(rng.exponential(1 / rate, jobs)), output_tokens=outputs)
    engine = make_engine(engine_name, deployment(profile(PREFILL_S, step_ms=125.0), prefill=64), stream)
    warm_s, horizon_s = 100.0, float(stream.arrival_s[-1])
    engine.advance(warm_s)
    engine.measure()
    engine.advance(horizon_s)
    signals, _ = engine.measure()
    occupancy = signals[SIGNAL["decode_busy_share"]] * 65_536
    expected = rate * 100.5 * step_s
    # Var of the time average of M/G/∞ → rate · E[S²] / T.
    standard_error = np.sqrt(rate * np.mean(np.arange(1, 201.0) ** 2) * step_s**2 / (horizon_s - warm_s))
    assert standard_error < 0.01 * expected
    assert occupancy == pytest.approx(expected, abs=3 * standard_error)
    log = engine.log()
    in_decode = (log["decode_start_s"] <= horizon_s) & ~(log["finish_s"] <= horizon_s)
    assert signals[SIGNAL["decode_active"]] == in_decode.sum()


@pytest.mark.parametrize("law", ["constant", "geometric", "two-point"])
def test_sharing_in_proportion_is_insensitive(engine_name: str, law: str) -> None:
    """T_step(b) = b T_step(1) is processor sharing: the mean sojourn is E[S] / (1 − ρ), whatever the law of S."""
    jobs, load, slots, unit_s = 15_000, 0.6, 128, 2.0**-10
    rng = np.random.default_rng(6)
    outputs = {
        "constant": np.full(jobs, 1000),
        "geometric": rng.geometric(1 / 1000, jobs),
        "two-point": rng.choice([250, 4000], jobs, p=[0.8, 0.2]),
    }[law]
    gap_s = 1000 * unit_s / load
    gaps = rng.exponential(gap_s, jobs + 1)
    decode = profile(2.0**-20, slots=slots, step_ms=[1000 * unit_s * b for b in range(1, slots + 1)])
    stream = requests(np.cumsum(gaps[:-1]), output_tokens=outputs)
    log = ended(engine_name, deployment(decode, prefill=8), stream).log()
    found = np.arange(jobs) - np.searchsorted(np.sort(log["finish_s"]), log["arrival_s"], side="right")
    assert found.max() < slots
    ends = processor_sharing(log["decode_start_s"], outputs * unit_s)
    np.testing.assert_allclose(log["finish_s"], ends, rtol=0, atol=1e-6)
    sojourn = mean_in_queue(log["finish_s"] - log["decode_start_s"], found, outputs - 1000.0, gaps[1:] - gap_s)
    expected = 1000 * unit_s / (1 - load)
    assert sojourn.standard_error < 0.02 * expected
    assert sojourn.mean == pytest.approx(expected, abs=4 * sojourn.standard_error)
