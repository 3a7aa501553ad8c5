"""The closed form against the paper's Table 6, against brute force, and in its corners."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, LENGTH_BIN_EDGES_TOKENS, length_bin
from prfaas_env.theory import closed_form as eq
from prfaas_env.theory.online import OnlineClosedForm
from prfaas_env.theory.plan import Plan, StageModel, plan, sweep_splits, sweep_thresholds
from prfaas_env.workload.lengths import Constant, Empirical, Mixture, MixturePart, NominalWorkload, TruncatedLogNormal

# Paper section 4: inputs truncated (re-drawn) to [128, 131072], outputs of 1,024 tokens.
LENGTHS = TruncatedLogNormal(mu=9.90, sigma=1.00, low_tokens=128, high_tokens=131_072)
PAPER = NominalWorkload(LENGTHS, Constant(1024))


def with_link(deployment: Deployment, gbps: float, layerwise: bool = True) -> Deployment:
    assert deployment.link is not None
    link = replace(deployment.link, capacity_gbps=gbps)
    return replace(deployment, link=link, layerwise_pipelining=layerwise)


# --- the paper ---------------------------------------------------

TABLE_6 = {
    "prfaas-pd": {
        "threshold_tokens": 19_400, "n_prfaas": 4, "n_prefill": 3, "n_decode": 5, "theta_prfaas_rps": 1.61,
        "theta_pd_p_rps": 1.64, "theta_pd_d_rps": 3.91, "lambda_max_rps": 3.24, "ttft_mean_s": 2.22, "ttft_p90_s": 3.51,
        "offload_fraction": 0.496, "l_long_tokens": 45_046, "l_short_tokens": 10_200,
    },
    "homogeneous-pd": {
        "threshold_tokens": None, "n_prfaas": None, "n_prefill": 9, "n_decode": 3, "theta_prfaas_rps": None,
        "theta_pd_p_rps": 2.11, "theta_pd_d_rps": 2.35, "lambda_max_rps": 2.11, "ttft_mean_s": 4.44, "ttft_p90_s": 9.73,
        "offload_fraction": 0.0, "l_long_tokens": None, "egress_gbps": 0.0,
    },
    "naive-heterogeneous-pd": {
        "threshold_tokens": None, "n_prfaas": 4, "n_prefill": None, "n_decode": 8, "theta_prfaas_rps": 2.45,
        "theta_pd_p_rps": None, "theta_pd_d_rps": 6.25, "lambda_max_rps": 2.45, "ttft_mean_s": 1.74, "ttft_p90_s": 3.51,
        "offload_fraction": 1.0, "l_short_tokens": None,
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "figure"), [(name, figure) for name, column in TABLE_6.items() for figure in column])
def test_table_6(name: str, figure: str) -> None:
    expected = TABLE_6[name][figure]  # type: ignore[index]
    found = getattr(plan(load_deployment(name), PAPER), figure)
    if expected is None or figure.startswith("n_"):
        assert found == expected
    else:
        assert found == pytest.approx(expected, rel=0.02, abs=1e-9)


def test_ratios_and_egress_of_table_6(prfaas: Deployment) -> None:
    base = plan(load_deployment("homogeneous-pd"), PAPER).lambda_max_rps
    assert plan(prfaas, PAPER).lambda_max_rps / base == pytest.approx(1.54, rel=0.02)
    assert plan(load_deployment("naive-heterogeneous-pd"), PAPER).lambda_max_rps / base == pytest.approx(1.16, rel=0.02)
    assert plan(prfaas, PAPER).egress_gbps == pytest.approx(13.0, rel=0.08)  # the paper says "about 13"


def test_the_papers_own_setting(prfaas: Deployment) -> None:
    """At t = 19,400 exactly: the figures that the calibration was checked with, to its printed digits."""
    found = plan(prfaas, PAPER, n_prefill=3, threshold_tokens=19_400)
    assert found.offload_fraction == pytest.approx(0.4957, abs=5e-5)
    assert found.l_long_tokens == pytest.approx(45_046, abs=2)
    assert found.theta_prfaas_rps == pytest.approx(1.600, abs=5e-4)
    assert found.theta_pd_p_rps == pytest.approx(1.657, abs=5e-4)
    assert found.lambda_max_rps == pytest.approx(3.228, abs=5e-4)
    assert (found.ttft_mean_s, found.ttft_p90_s) == pytest.approx((2.25, 3.46), abs=5e-3)


def test_the_documentations_table_is_what_plan_says() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "closed-form.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| ([a-z_0-9]+) \| [\d.]+ \| ([\d.]+) \|$", text, flags=re.MULTILINE)
    assert len(rows) == 15
    plans = {name: plan(load_deployment(name), PAPER) for name in TABLE_6}
    for name, figure, printed in rows:
        decimals = len(printed.partition(".")[2])
        assert f"{getattr(plans[name], figure):.{decimals}f}" == printed, (name, figure)


def test_equal_cost_gain(prfaas: Deployment) -> None:
    homogeneous = load_deployment("homogeneous-pd")
    per_usd = [plan(d, PAPER).lambda_max_rps / d.instances_usd_per_hour for d in (prfaas, homogeneous)]
    assert per_usd[0] / per_usd[1] == pytest.approx(1.15, abs=0.03)


@pytest.mark.parametrize(("gbps", "loss"), [(100, 0.11), (50, 0.20), (25, 0.33), (13, 0.48)])
def test_value_of_overlap(prfaas: Deployment, gbps: float, loss: float) -> None:
    """Without layer-wise pipelining a remote instance computes and sends in turn, at its share of the link."""
    rates = [
        plan(with_link(prfaas, gbps, layerwise), PAPER, n_prefill=3, threshold_tokens=19_400).theta_prfaas_rps
        for layerwise in (True, False)
    ]
    assert rates[0] == pytest.approx(1.61, rel=0.01)
    assert rates[1] is not None
    assert rates[1] / 1.61 == pytest.approx(1 - loss, abs=0.01)


def test_rate_without_overlap(prfaas: Deployment) -> None:
    found = plan(with_link(prfaas, 100.0, layerwise=False), PAPER, n_prefill=3, threshold_tokens=19_400)
    assert found.lambda_max_rps == pytest.approx(2.89, rel=0.01)
    assert found.lambda_max_rps / plan(load_deployment("homogeneous-pd"), PAPER).lambda_max_rps == pytest.approx(
        1.37, abs=0.02
    )


def test_forms_differ_by_one_to_three_per_cent(prfaas: Deployment) -> None:
    found = [plan(prfaas, PAPER, form=form).lambda_max_rps for form in ("distribution", "representative")]
    assert 1.01 < found[1] / found[0] < 1.03


# --- against brute force -----------------------------------------


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("gbps", [100.0, 10.0, 3.0])
def test_the_optimum_beats_every_threshold_and_split(prfaas: Deployment, gbps: float, layerwise: bool) -> None:
    deployment = with_link(prfaas, gbps, layerwise)
    thresholds = np.geomspace(128, 131_072, 3000)
    best = plan(deployment, PAPER)
    by_split = {p.n_prefill: p.lambda_max_rps for p in sweep_splits(deployment, PAPER)}
    for n_prefill in range(1, 8):
        swept = sweep_thresholds(deployment, PAPER, n_prefill, thresholds)
        assert swept.max() <= by_split[n_prefill] * (1 + 1e-9)
        assert swept.max() == pytest.approx(by_split[n_prefill], rel=2e-3)  # the grid comes close
    assert best.lambda_max_rps == max(by_split.values())


def test_against_direct_sampling(prfaas: Deployment) -> None:
    """Means over half a million drawn requests, no histogram and no interpolation."""
    lengths = LENGTHS.sample(np.random.default_rng(7), 500_000)
    assert prfaas.remote is not None
    found = plan(prfaas, PAPER)
    away = lengths > found.threshold_tokens
    remote_s = prfaas.remote.profile.prefill.time_s(lengths[away]).mean()
    local_s = prfaas.local.profile.prefill.time_s(lengths[~away]).mean()
    assert away.mean() == pytest.approx(found.offload_fraction, abs=0.003)  # four standard errors
    assert 4 / remote_s == pytest.approx(found.theta_prfaas_rps, rel=0.005)
    assert 3 / local_s == pytest.approx(found.theta_pd_p_rps, rel=0.005)


def test_slow_link_binds_and_is_then_full(prfaas: Deployment) -> None:
    found = plan(with_link(prfaas, 5.0), PAPER)
    assert found.egress_gbps == pytest.approx(5.0, rel=1e-6)
    assert found.threshold_tokens > plan(prfaas, PAPER).threshold_tokens  # less is sent out


@given(
    mu=st.floats(5.0, 13.0),
    gbps=st.floats(0.5, 400.0),
    remote=st.integers(1, 12),
    layerwise=st.booleans(),
    n_prefill=st.integers(1, 7),
)
def test_eq_7_balances_the_two_sides(mu: float, gbps: float, remote: int, layerwise: bool, n_prefill: int) -> None:
    base = with_link(load_deployment("prfaas-pd"), gbps, layerwise)
    assert base.remote is not None
    deployment = replace(base, remote=replace(base.remote, instances=remote))
    found = plan(deployment, NominalWorkload(replace(LENGTHS, mu=mu), Constant(1024)), n_prefill=n_prefill)
    assert found.theta_prfaas_rps is not None
    assert found.theta_pd_p_rps is not None
    p = found.offload_fraction
    assert found.theta_prfaas_rps / p == pytest.approx(found.theta_pd_p_rps / (1 - p), rel=1e-6)
    assert found.lambda_max_rps == pytest.approx(min(found.theta_prfaas_rps / p, found.theta_pd_d_rps), rel=1e-6)
    assert found.egress_gbps <= gbps * (1 + 1e-9)


# --- corners -----------------------------------------------------


def test_an_atom_goes_to_one_side_whole(prfaas: Deployment) -> None:
    """All requests alike: no threshold divides them, so one side idles and Λ_max is the better side's own."""
    found = plan(prfaas, NominalWorkload(Constant(20_000), Constant(1024)), n_prefill=3)
    assert prfaas.remote is not None
    remote = 4 / float(prfaas.remote.profile.prefill.time_s(20_000))
    local = 3 / float(prfaas.local.profile.prefill.time_s(20_000))
    assert found.lambda_max_rps == pytest.approx(max(remote, local))
    assert found.offload_fraction in (0.0, 1.0)


def test_empirical_sample_converges_to_its_law(prfaas: Deployment) -> None:
    sample = Empirical(tuple(float(x) for x in LENGTHS.quantile((np.arange(2000) + 0.5) / 2000)))
    found, expected = plan(prfaas, NominalWorkload(sample, Constant(1024))), plan(prfaas, PAPER)
    assert found.lambda_max_rps == pytest.approx(expected.lambda_max_rps, rel=2e-3)
    assert found.threshold_tokens == pytest.approx(expected.threshold_tokens, rel=3e-3)


def test_mixture_of_a_law_with_itself_is_the_law(prfaas: Deployment) -> None:
    twice = Mixture((MixturePart(1.0, LENGTHS), MixturePart(3.0, LENGTHS)))
    found, expected = plan(prfaas, NominalWorkload(twice, Constant(1024))), plan(prfaas, PAPER)
    assert found.lambda_max_rps == pytest.approx(expected.lambda_max_rps, rel=1e-9)


def test_kernels_at_the_edges() -> None:
    """No remote instance or a dead link keeps everything; no local prefill sends everything."""
    loads = eq.stage_loads(np.full(4, 0.25), np.arange(1.0, 5.0), np.arange(1.0, 5.0) / 2, np.full(4, 1e9))
    log_lengths = np.log(np.array([1e3, 2e3, 4e3, 8e3]))
    splits = np.array([0.0, 1.0, 2.0])
    for layerwise in (True, False):
        dead = eq.balanced_cuts(loads, splits, 4.0, 0.0, layerwise)
        assert dead.tolist() == [0.0, 4.0, 4.0]
        at = eq.loads_at(loads, dead)
        assert eq.prefill_rps(at, splits, 4.0, 0.0, layerwise) == pytest.approx([0.0, 1 / 2.5, 2 / 2.5])
        assert eq.balanced_cuts(loads, splits, 0.0, 1e11, layerwise).tolist() == [0.0, 4.0, 4.0]
        everything = eq.prefill_rps(eq.loads_at(loads, np.zeros(1)), np.zeros(1), 4.0, 1e11, layerwise)
        assert everything == pytest.approx([1 / (1.25 / 4 + (0 if layerwise else 0.01))])
    assert eq.threshold_at(log_lengths, np.array([0.0, 1.5, 4.0])) == pytest.approx([0.0, 2e3, np.inf])


@given(cut=st.floats(0.5, 126.9))
def test_threshold_and_cut_are_inverse(cut: float) -> None:
    log_centres = np.log(LENGTH_BIN_CENTRES_TOKENS)
    threshold = eq.threshold_at(log_centres, np.array([cut]))
    assert eq.cut_at(log_centres, threshold) == pytest.approx([cut], abs=1e-6)


def test_bin_edges_cut_whole_bins() -> None:
    cuts = np.arange(1.0, 128.0)
    assert eq.threshold_at(np.log(LENGTH_BIN_CENTRES_TOKENS), cuts) == pytest.approx(LENGTH_BIN_EDGES_TOKENS[1:-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_prefill": 8}, "n_prefill: expected 1 to 7"),
        ({"n_prefill": 0}, "n_prefill: expected 1 to 7"),
        ({"threshold_tokens": float("nan")}, "expected a number ≥ 0, got nan"),
        ({"threshold_tokens": -1.0}, "expected a number ≥ 0"),
        ({"form": "exact"}, "form: expected 'distribution' or 'representative'"),
    ],
)
def test_plan_refuses(prfaas: Deployment, arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(prfaas, PAPER, **arguments)  # type: ignore[arg-type]


def test_plan_refuses_a_threshold_where_the_route_is_pinned_and_a_workload_without_laws(prfaas: Deployment) -> None:
    with pytest.raises(ConfigError, match="prefills everything at the local cluster"):
        plan(load_deployment("homogeneous-pd"), PAPER, threshold_tokens=19_400)
    with pytest.raises(ConfigError, match="states no laws"):
        plan(prfaas, object())  # type: ignore[arg-type]


def test_plan_fields_are_the_published_ones() -> None:
    names = """threshold_tokens n_prfaas n_prefill n_decode lambda_max_rps theta_prfaas_rps theta_pd_p_rps
    theta_pd_d_rps offload_fraction l_long_tokens l_short_tokens egress_gbps ttft_mean_s ttft_p90_s"""
    assert list(Plan.__dataclass_fields__) == names.split()


# --- online ------------------------------------------------------


def online(deployment: Deployment, window_s: float = 300.0) -> OnlineClosedForm:
    return OnlineClosedForm(deployment, PAPER, window_s, 10.0)


def counts_of(law: TruncatedLogNormal, n: int) -> np.ndarray:
    return np.bincount(length_bin(law.quantile((np.arange(n) + 0.5) / n)), minlength=128)


@pytest.mark.parametrize("name", list(TABLE_6))
def test_an_empty_window_gives_the_nominal_plan(name: str) -> None:
    deployment = load_deployment(name)
    expected, found = plan(deployment, PAPER), online(deployment).advise(100.0, deployment.local.prefill)
    assert found.n_prefill == (expected.n_prefill or 0)
    assert found.lambda_max_rps == pytest.approx(expected.lambda_max_rps, rel=1e-3)
    assert found.offload_fraction == pytest.approx(expected.offload_fraction, abs=1e-3)
    edge = {"local": LENGTH_BIN_EDGES_TOKENS[-1], "remote": LENGTH_BIN_EDGES_TOKENS[0]}
    assert found.threshold_tokens == pytest.approx(
        expected.threshold_tokens or edge[deployment.route_pinned or ""], rel=1e-3
    )


@pytest.mark.parametrize("mu", [8.595, 9.364, 10.483, 11.383])
def test_a_full_window_follows_the_traffic(prfaas: Deployment, mu: float) -> None:
    law = replace(LENGTHS, mu=mu)
    form, counts = online(prfaas), counts_of(law, 3000)
    for _ in range(31):
        advice = form.update(counts, 3000, 3000 * 512.0, 100.0, 2)
    seen = NominalWorkload(law, Constant(512))
    expected = plan(prfaas, seen)
    assert advice.n_prefill == expected.n_prefill
    assert advice.threshold_tokens == pytest.approx(expected.threshold_tokens, rel=5e-3)
    assert advice.lambda_max_rps == pytest.approx(expected.lambda_max_rps, rel=5e-3)
    present = plan(prfaas, seen, n_prefill=2)
    assert advice.threshold_at_present_split_tokens == pytest.approx(present.threshold_tokens, rel=5e-3)
    assert advice.lambda_max_at_present_split_rps == pytest.approx(present.lambda_max_rps, rel=5e-3)


def test_the_window_forgets(prfaas: Deployment) -> None:
    form = online(prfaas, window_s=50.0)
    fresh = form.advise(100.0, 3)
    form.update(counts_of(replace(LENGTHS, mu=11.0), 500), 500, 500 * 4096.0, 100.0, 3)
    nothing = np.zeros(128)
    for step in range(5):
        assert form.advise(100.0, 3) != fresh, step
        form.update(nothing, 0, 0.0, 100.0, 3)
    assert form.advise(100.0, 3) == fresh


def test_a_dead_link_keeps_everything_local(prfaas: Deployment) -> None:
    advice = online(prfaas).advise(0.0, 3)
    assert advice.threshold_tokens == LENGTH_BIN_EDGES_TOKENS[-1]
    assert advice.offload_fraction == 0.0
    assert 0 < advice.lambda_max_rps < online(prfaas).advise(1.0, 3).lambda_max_rps


@given(
    counts=st.lists(st.integers(0, 1000), min_size=128, max_size=128), gbps=st.floats(0, 1000), layerwise=st.booleans()
)
def test_advice_is_finite_whatever_arrives(counts: list[int], gbps: float, layerwise: bool) -> None:
    form = online(replace(load_deployment("prfaas-pd"), layerwise_pipelining=layerwise))
    advice = form.update(np.array(counts), 0, 0.0, gbps, 3)
    assert np.isfinite(advice).all()
    assert LENGTH_BIN_EDGES_TOKENS[0] <= advice.threshold_tokens <= LENGTH_BIN_EDGES_TOKENS[-1]
    assert 0 <= advice.offload_fraction <= 1
    assert advice.lambda_max_rps >= advice.lambda_max_at_present_split_rps


@pytest.mark.parametrize("bad", [{"window_s": 0.0}, {"step_s": float("nan")}, {"prior_requests": -1.0}])
def test_online_refuses(prfaas: Deployment, bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(bad))}: expected a number > 0"):
        OnlineClosedForm(**({"deployment": prfaas, "nominal": PAPER, "window_s": 300.0, "step_s": 10.0} | bad))  # type: ignore[arg-type]


def test_representative_loads_agree_with_the_distribution_on_one_length(prfaas: Deployment) -> None:
    """With a single length both forms are the same."""
    one = NominalWorkload(Constant(20_000), Constant(1024))
    forms = [StageModel.of(prfaas, one, form).loads for form in ("distribution", "representative")]
    assert forms[0] == pytest.approx(forms[1])


@pytest.mark.parametrize(("wait_s", "spare"), [(7.0, 1.0), (22.0, 0.5), (0.0, 37 / 30)])
@pytest.mark.parametrize("rate_rps", [3.5, 9.0])
@pytest.mark.parametrize("n_prefill", [1.0, 3.0])
def test_the_filling_threshold_leaves_the_local_pool_just_its_time(
    prfaas: Deployment, n_prefill: float, rate_rps: float, wait_s: float, spare: float
) -> None:
    """Less what works its queue off, or more while there is none."""
    tokens = online(prfaas).filling(n_prefill, rate_rps, wait_s)
    points = LENGTHS.points(200_000)
    kept = points.lengths_tokens <= tokens
    work_s = points.weights[kept] @ prfaas.local.profile.prefill.time_s(points.lengths_tokens[kept])
    assert rate_rps * work_s == pytest.approx(n_prefill * spare, rel=0.06)  # inside a bin the work is taken as even


def test_the_filling_threshold_is_at_its_top_where_the_local_pool_can_do_it_all(prfaas: Deployment) -> None:
    top = LENGTH_BIN_EDGES_TOKENS[-1]
    form = online(prfaas)
    assert form.filling(3.0, 0.0, 7.0) == top
    assert form.filling(3.0, 0.05, 7.0) == top
    assert form.filling(0.0, 5.0, 7.0) == form.filling(1.0, 5.0, 7.0)  # all are converting
    low, high = form.filling(2.0, 4.0, 7.0), form.filling(3.0, 4.0, 7.0)
    assert LENGTH_BIN_EDGES_TOKENS[0] < low < high < top


def test_while_the_local_queue_is_far_too_long_nothing_more_goes_there(prfaas: Deployment) -> None:
    assert online(prfaas).filling(3.0, 4.0, 37.0) <= LENGTHS.low_tokens
