"""The table of observation components, and the way from facts to the vector and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.environment.actions import ACTION_SPANS
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import (
    COARSE_EDGES_TOKENS,
    COMPONENTS,
    FACT,
    coarse_shares,
    decode,
    encode,
    layout_hash,
    observation_table,
    raw_observation,
)
from prfaas_env.environment.recent import FAST_S, RECENT_FACTS, empty_recent, recent_rates, update_recent
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNAL, SIGNALS, length_bin

NAMES = [c.name for c in COMPONENTS]
LOW, HIGH = (np.array([getattr(c, side) for c in COMPONENTS], dtype=float) for side in ("low", "high"))


def index(name: str) -> int:
    return NAMES.index(name)


def test_names_are_unique_and_every_fact_exists() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {c.fact for c in COMPONENTS} | {c.per for c in COMPONENTS} <= set(FACT)
    assert (LOW < HIGH).all()
    assert all(c.low >= 0 for c in COMPONENTS if c.scale == "log")


@given(st.lists(st.floats(0, 1), min_size=len(COMPONENTS), max_size=len(COMPONENTS)))
def test_decode_gives_back_what_was_encoded(shares: list[float]) -> None:
    raw = LOW + np.array(shares) ** 4 * (HIGH - LOW)  # the fourth power reaches small values of wide ranges too
    back = np.array(list(decode(encode(raw)).values()))
    np.testing.assert_allclose(back, raw, rtol=2e-5, atol=2e-6)


def test_the_bounds_are_reached_and_what_lies_beyond_is_clipped() -> None:
    np.testing.assert_array_equal(encode(LOW), -np.ones(len(LOW), np.float32))
    np.testing.assert_array_equal(encode(HIGH), np.ones(len(HIGH), np.float32))
    np.testing.assert_array_equal(encode(np.full(len(HIGH), np.inf)), encode(HIGH))
    np.testing.assert_array_equal(encode(np.full(len(HIGH), -np.inf)), encode(LOW))


def test_a_component_is_its_fact_over_its_divisor_and_zero_without_one() -> None:
    facts = np.zeros(len(FACT))
    facts[FACT["one"]], facts[FACT["arrived_fast_per_s"]], facts[FACT["lambda_max_rps"]] = 1.0, 2.4, 3.2
    raw = raw_observation(facts)
    assert raw[index("arrivals")] == 2.4
    assert raw[index("load")] == pytest.approx(0.75)
    assert raw[index("arrivals_trend")] == 0.0  # nothing over nothing


def test_a_batch_is_decoded_as_its_rows_are() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (5, len(COMPONENTS))).astype(np.float32)
    batch = decode(rows)
    assert {column.shape for column in batch.values()} == {(5,)}
    for k, row in enumerate(rows):
        assert {name: column[k] for name, column in batch.items()} == decode(row)
    assert {column.shape for column in decode(rows[:0]).values()} == {(0,)}


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, len(COMPONENTS)), ()])
def test_observation_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"expected {len(COMPONENTS)} components"):
        decode(np.zeros(shape))


def test_coarse_bins_hold_the_fine_ones_they_cover() -> None:
    for tokens in (20, 1023, 1025, 19_400, 131_000, 140_000, 900_000):
        weights = np.zeros(len(LENGTH_BIN_CENTRES_TOKENS))
        weights[length_bin(tokens)] = 5.0
        shares = coarse_shares(weights)
        here = int(np.searchsorted(COARSE_EDGES_TOKENS, tokens, side="right")) - 1
        assert shares[here] == shares.sum() == 1.0
    assert coarse_shares(np.zeros(len(LENGTH_BIN_CENTRES_TOKENS))).sum() == 0.0


def test_recent_rates_are_unbiased_from_the_first_interval_on_and_forget() -> None:
    recent, signals = empty_recent(), np.zeros(len(SIGNALS))
    assert not recent_rates(recent).any()
    signals[SIGNAL["interval_s"]], signals[SIGNAL["arrived"]] = 10.0, 32.0
    for _ in range(3):
        update_recent(recent, signals, 300.0)
        assert recent_rates(recent)[RECENT_FACTS.index("arrived_fast_per_s")] == pytest.approx(3.2)
        assert recent_rates(recent)[RECENT_FACTS.index("arrived_slow_per_s")] == pytest.approx(3.2)
    signals[SIGNAL["interval_s"]], signals[SIGNAL["arrived"]] = FAST_S, 0.0
    update_recent(recent, signals, 300.0)
    kept_s = (10 + 10 * np.exp(-10 / FAST_S) + 10 * np.exp(-20 / FAST_S)) * np.exp(-1)
    assert recent_rates(recent)[0] == pytest.approx(3.2 * kept_s / (kept_s + FAST_S))


def test_the_table_names_every_component() -> None:
    rows = observation_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == NAMES


def test_the_layout_hash_follows_what_a_model_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = layout_hash()
    reworded = tuple(c._replace(meaning="other words") for c in COMPONENTS)
    wider = (2.0 * ACTION_SPANS[0], *ACTION_SPANS[1:])
    for name, changed, same in (
        ("COMPONENTS", reworded, True),
        ("COMPONENTS", COMPONENTS[::-1], False),
        ("ACTION_SPANS", wider, False),
    ):
        monkeypatch.setattr(f"prfaas_env.environment.observation.{name}", changed)
        layout_hash.cache_clear()
        assert (layout_hash() == before) is same
        monkeypatch.undo()
    layout_hash.cache_clear()


# What does not move there by design: sizes and the step, which tell deployments apart; failures, of which this scenario
# has none; prompts longer than its length law allows.
CONSTANT_BY_DESIGN = {
    "failed_nodes",
    "control_step_s",
    "local_instances",
    "remote_instances",
    "uncached_share_from_131072",
}


def test_no_component_is_constant_over_an_episode_but_by_design() -> None:
    narrow = {"capacity": {"kind": "mean-reverting", "mean_gbps": 12}}  # an idle link would leave its signals at 0
    loop = ControlLoop(load_scenario("drift-mix").with_overrides(link=narrow, horizon_s=1200.0), "price")
    rng = np.random.default_rng(0)
    seen, ended = [loop.reset(5)], False
    while not ended:
        interval = loop.step(rng.uniform(-1, 1, 2))
        seen.append(interval.observation)
        ended = interval.ended
    episode = np.array(seen)
    assert np.isfinite(episode).all()
    constant = {name for name, column in zip(NAMES, episode.T, strict=True) if (column == column[0]).all()}
    assert constant == CONSTANT_BY_DESIGN
