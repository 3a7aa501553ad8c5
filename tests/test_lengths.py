"""Length laws: each one's quantile, CDF, mean, sample and points must tell the same story."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.config import ConfigError
from prfaas_env.workload.lengths import Constant, Empirical, LengthLaw, Mixture, MixturePart, TruncatedLogNormal

PAPER = TruncatedLogNormal(mu=9.90, sigma=1.00, low_tokens=128, high_tokens=131_072)
SHORT = TruncatedLogNormal(mu=4.0, sigma=0.3, low_tokens=16, high_tokens=500)
LAWS: dict[str, LengthLaw] = {
    "truncated log-normal": PAPER,
    "far in its upper tail": TruncatedLogNormal(mu=2.0, sigma=1.0, low_tokens=50_000, high_tokens=131_072),
    "constant": Constant(1024),
    "empirical": Empirical((100.0, 100.0, 900.0, 2000.0, 64_000.0)),
    "mixture": Mixture((MixturePart(1.0, SHORT), MixturePart(3.0, PAPER))),
    "mixture with an atom": Mixture((MixturePart(0.2, Constant(300)), MixturePart(0.8, PAPER))),
}


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest) -> LengthLaw:
    return LAWS[request.param]


def test_sample_follows_the_cdf(law: LengthLaw) -> None:
    n = 40_000
    sample = law.sample(np.random.default_rng(11), n)
    assert sample.dtype == np.int64
    grid = np.unique(np.quantile(sample, np.linspace(0.01, 0.99, 99), method="inverted_cdf"))
    seen = np.searchsorted(np.sort(sample), grid, side="right") / n
    # Kolmogorov–Smirnov at 1e-4; + 0.5 since a request has whole tokens, rounded from the law's length
    assert np.abs(seen - law.cdf(grid + 0.5)).max() < 2.2 / np.sqrt(n)


def test_quantile_is_the_inverse_of_the_cdf(law: LengthLaw) -> None:
    u = np.linspace(0.001, 0.999, 500)
    lengths = law.quantile(u)
    assert (np.diff(lengths) >= 0).all()
    assert (law.cdf(lengths * (1 + 1e-9)) >= u - 1e-9).all()
    assert (law.cdf(lengths * (1 - 1e-6)) <= u + 1e-4).all()


def test_points_have_the_laws_mean(law: LengthLaw) -> None:
    lengths, weights, atom = law.points(4096)
    assert weights.sum() == pytest.approx(1.0)
    assert (np.diff(lengths) > 0).all()
    assert len(atom) == len(lengths)
    assert weights @ lengths == pytest.approx(law.mean(), rel=1e-3)


def test_same_seed_same_lengths(law: LengthLaw) -> None:
    first, again = (law.sample(np.random.default_rng(3), 1000) for _ in range(2))
    assert (first == again).all()


def test_the_papers_law() -> None:
    assert PAPER.mean() == pytest.approx(27_486, abs=1)
    assert PAPER.quantile([0.5, 0.9, 0.99]) == pytest.approx([19_200, 62_400, 115_400], rel=2e-3)
    assert 1 - PAPER.cdf(19_400) == pytest.approx(0.496, abs=5e-4)


def test_mu_for_a_share_above_the_threshold() -> None:
    """Measured drift moves P(L > 19.4K); these are the means that give .1 … .9."""
    expected = [8.595, 9.040, 9.364, 9.645, 9.911, 10.184, 10.483, 10.847, 11.383]
    found = PAPER.mu_for(np.arange(1, 10) / 10, 19_400)
    assert found == pytest.approx(expected, abs=6e-4)
    assert 1 - PAPER.cdf(19_400, found) == pytest.approx(np.arange(1, 10) / 10, abs=1e-9)


@given(mu=st.floats(-15, 35), u=st.floats(0, 1))
def test_a_drifting_mean_never_leaves_the_bounds(mu: float, u: float) -> None:
    length = PAPER.quantile(u, mu)
    assert PAPER.low_tokens <= length <= PAPER.high_tokens
    if 0.001 < u < 0.999:
        assert PAPER.cdf(length, mu) == pytest.approx(u, abs=1e-6)


def test_mu_is_taken_request_by_request() -> None:
    u, mu = np.array([0.2, 0.5, 0.9]), np.array([8.0, 9.0, 11.0])
    assert PAPER.quantile(u, mu).tolist() == [float(PAPER.quantile(a, b)) for a, b in zip(u, mu, strict=True)]


def test_a_mixture_keeps_its_shares_and_one_uniform_a_request() -> None:
    mixture = LAWS["mixture with an atom"]
    rng = np.random.default_rng(5)
    sample = mixture.sample(rng, 50_000)
    assert (sample == 300).mean() == pytest.approx(0.2, abs=0.006)
    used = np.random.default_rng(5)
    used.random(50_000)
    assert rng.random() == used.random()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TruncatedLogNormal(9.9, 1.0, 500, 500), "low_tokens: expected less than high_tokens"),
        (lambda: TruncatedLogNormal(9.9, 0.0, 128, 1000), "sigma: expected a number > 0"),
        (lambda: TruncatedLogNormal(500.0, 1.0, 128, 1000), "mu: expected within 30 sigma"),
        (lambda: Constant(0.5), "tokens: expected a number ≥ 1"),
        (lambda: Empirical(()), "values_tokens: expected at least one length"),
        (lambda: Empirical((float("nan"),)), r"values_tokens\[0\]: expected a number, got nan"),
        (lambda: Mixture(()), "parts: expected at least one law"),
        (lambda: PAPER.mu_for(1.0, 19_400), "expected shares > 0 and < 1"),
        (lambda: PAPER.mu_for(0.5, 100), "threshold_tokens: expected inside the law's bounds"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator]
