"""The paired comparison against values worked out by hand, and its intervals against their promise."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_env.evaluation.statistics import compare, expanded_tail, interquartile_mean


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_ratio_of_means_wins_and_interquartile_mean_by_hand() -> None:
    policy, baseline = np.array([1.0, 2.0, 9.0, 4.0]), np.array([2.0, 4.0, 6.0, 4.0])
    found = compare([(policy, baseline)], rng())
    assert found.ratio == pytest.approx(16 / 16)
    assert found.win_share == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    # paired ratios .5, .5, 1.5, 1: the middle half of the sorted four is .5 and 1
    assert found.interquartile_ratio == pytest.approx(0.75)
    assert found.pairs == 4
    assert found.low < found.ratio < found.high


def test_overall_ratio_is_the_geometric_mean_of_the_scenarios() -> None:
    half = (np.array([1.0, 3.0]), np.array([2.0, 6.0]))
    double = (np.array([200.0, 600.0, 400.0]), np.array([100.0, 300.0, 200.0]))
    found = compare([half, double], rng())
    assert found.ratio == pytest.approx(1.0)  # ½ × 2; the scenario with the larger TTFT does not drown the other
    assert (found.low, found.high) == pytest.approx((1.0, 1.0))  # both ratios are the same in every pair
    assert found.win_share == pytest.approx(2 / 5)


def test_constant_ratio_has_a_point_interval_however_much_episodes_vary() -> None:
    baseline = np.array([1.0, 10.0, 100.0, 1000.0])
    found = compare([(0.8 * baseline, baseline)], rng())
    assert (found.low, found.high) == pytest.approx((0.8, 0.8))
    assert found.better
    assert not found.worse


def test_interval_of_two_pairs_spans_the_possible_resamples() -> None:
    # Resamples give 1/1, 4/1 or their mix 5/2; with two pairs the expanded interval takes the extremes.
    found = compare([(np.array([1.0, 4.0]), np.array([1.0, 1.0]))], rng())
    assert (found.ratio, found.low, found.high) == pytest.approx((2.5, 1.0, 4.0))


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_pairs_give_no_interval(n: int) -> None:
    found = compare([(np.ones(n), np.ones(n))], rng())
    assert found.pairs == n
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert np.isnan(found.ratio) == (n == 0)
    assert not found.better
    assert not found.worse


def test_pairs_without_a_value_are_left_out() -> None:
    policy, baseline = np.array([1.0, np.nan, 3.0]), np.array([2.0, 5.0, np.nan])
    found = compare([(policy, baseline)], rng())
    assert found.pairs == 1
    assert found.ratio == pytest.approx(0.5)


def test_a_seeded_generator_gives_the_same_interval() -> None:
    baseline = np.geomspace(1.0, 50.0, 20)
    pairs = [(baseline + np.sin(baseline), baseline)]
    assert compare(pairs, rng()) == compare(pairs, rng())
    assert compare(pairs, rng()) != compare(pairs, np.random.default_rng(8))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 1.0, 2.0], 1.0),
        ([100.0, 1.0, 2.0, -50.0], 1.5),
        ([0, 1, 2, 3, 10.0], 2.0),
    ],
)
def test_interquartile_mean_by_hand(values: list[float], expected: float) -> None:
    # of five values 1.25 are cut at each end: (0.75 × 1 + 2 + 0.75 × 3) / 2.5 = 2
    assert interquartile_mean(np.array(values)) == pytest.approx(expected)


def test_expanded_tail_tends_to_the_plain_one() -> None:
    assert expanded_tail(10, degrees=9) == pytest.approx(0.0085, abs=3e-4)  # Φ(−2.2622 · √(10/9)) = Φ(−2.3846)
    assert expanded_tail(100_000, degrees=99_999) == pytest.approx(0.025, rel=1e-3)


@pytest.mark.parametrize(("n", "scenarios", "least"), [(10, 1, 0.90), (30, 1, 0.90), (5, 4, 0.90)])
def test_intervals_cover_the_truth_as_often_as_they_promise(n: int, scenarios: int, least: float) -> None:
    """Log-normal episodes (σ = 1, as unlike as ours) whose ratio varies by 30 %: the true ratio of means is 0.9."""
    draws, trials, sigma = np.random.default_rng(3), 400, 0.3
    covered = 0
    for _ in range(trials):
        baseline = draws.lognormal(1.0, 1.0, (scenarios, n))
        policy = 0.9 * baseline * draws.lognormal(-(sigma**2) / 2, sigma, (scenarios, n))
        found = compare(list(zip(policy, baseline, strict=True)), draws, resamples=600)
        covered += found.low <= 0.9 <= found.high
    assert least <= covered / trials <= 0.99
