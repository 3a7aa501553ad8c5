"""The paired comparison against values worked out by hand, and its intervals against their promise."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from prfaas_env.evaluation.bootstrap import expanded_tail, interval
from prfaas_env.evaluation.statistics import (
    compare,
    interquartile_mean,
    interquartile_means,
    optimality_gap,
    performance_profile,
    win_share,
)


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


def test_aggregates_over_scores_by_hand() -> None:
    scores = np.array([[-50.0, 0.0], [100.0, 130.0]])
    assert optimality_gap(scores, 100.0) == pytest.approx((150 + 100 + 0 + 0) / 4)
    assert performance_profile(scores, [-60.0, 0.0, 50.0, 130.0, 131.0]).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert win_share(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 2.0, 2.0, 2.0])) == pytest.approx(1.5 / 4)
    table = np.array([[0, 1, 2, 3, 10.0], [5.0] * 5])
    assert interquartile_means(table).tolist() == pytest.approx([2.0, 5.0])


def mean_of_means(means: list[np.ndarray]) -> np.ndarray:
    return np.asarray(sum(mean[..., 0] for mean in means)) / len(means)


def test_the_studentised_interval_is_built_as_it_says() -> None:
    """One group, the mean: its jackknife error is s/√n, and the quantile is that of the same draws, by hand."""
    values = np.array([1.0, 2.0, 4.0, 8.0, 5.0, 7.0])
    low, high = interval([values[:, None]], mean_of_means, rng(), resamples=200)
    drawn = values[rng().integers(6, size=(200, 6))]
    errors = drawn.std(axis=1, ddof=1) / np.sqrt(6)
    far = np.sort(np.abs(drawn.mean(axis=1) - values.mean()) / errors)
    half = far[int(np.ceil(0.95 * 199))] * values.std(ddof=1) / np.sqrt(6)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half))


def test_a_statistic_of_two_groups_adds_their_variances() -> None:
    """With one group constant, the interval of the mean of both is half that of the other alone."""
    values, constant = np.geomspace(1.0, 9.0, 12)[:, None], np.full((12, 1), 3.0)
    alone = interval([values], mean_of_means, rng())
    both = interval([constant, values], mean_of_means, rng())
    assert both[1] - both[0] == pytest.approx((alone[1] - alone[0]) / 2, rel=0.05)
    assert sum(both) / 2 == pytest.approx((3.0 + values.mean()) / 2)


def test_equal_units_give_a_point_interval() -> None:
    assert interval([np.full((10, 1), 0.1), np.full((7, 1), 0.7)], mean_of_means, rng()) == pytest.approx((0.4, 0.4))


@pytest.mark.parametrize(("n", "scenarios", "trials"), [(5, 1, 400), (10, 1, 400), (30, 1, 250), (10, 4, 250)])
def test_intervals_cover_the_truth_as_often_as_they_promise(n: int, scenarios: int, trials: int) -> None:
    """Log-normal episodes (σ = 1, as unlike as ours) whose ratio varies by 30 %: the true ratio of means is 0.9.

    Of 250 trials the share has a standard error of 1.4 %; docs/evaluation.md has the figures of longer simulations.
    """
    covered = coverage_of_ratios(n, scenarios, trials, resamples=400)
    assert 0.92 <= covered <= 0.985


@pytest.mark.slow
def test_coverage_is_what_the_page_says() -> None:
    """The table of docs/evaluation.md, from two thousand simulated evaluations each."""
    page = (Path(__file__).parents[1] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    sizes = re.findall(r"(\d+) × (\d+) \|", next(line for line in page.splitlines() if "| seeds ×" in line))
    written = re.findall(r"\.\d{3}", next(line for line in page.splitlines() if line.startswith("| coverage")))
    assert len(sizes) == len(written) > 5
    for (n, scenarios), share in zip(sizes, written, strict=True):
        found = coverage_of_ratios(int(n), int(scenarios), 2000, resamples=1000)
        assert found == pytest.approx(float(share), abs=0.004), (n, scenarios)


def coverage_of_ratios(n: int, scenarios: int, trials: int, resamples: int) -> float:
    draws, covered, sigma = np.random.default_rng(3), 0, 0.3
    for _ in range(trials):
        baseline = draws.lognormal(1.0, 1.0, (scenarios, n))
        policy = 0.9 * baseline * draws.lognormal(-(sigma**2) / 2, sigma, (scenarios, n))
        found = compare(list(zip(policy, baseline, strict=True)), draws, resamples=resamples)
        covered += found.low <= 0.9 <= found.high
    return covered / trials
