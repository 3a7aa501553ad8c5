"""The planner's figures, each against another way to it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prfaas_env
from prfaas_env.config import to_mapping
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planner.cost import cost_at, equal_cost, remote_sizes
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.latency import least_ttft
from prfaas_env.planner.loaded import WARM_UP, loaded, objective, steady
from prfaas_env.planner.paper import TABLE_6
from prfaas_env.planner.report import report
from prfaas_env.planner.sensitivity import scaled, sensitivity
from prfaas_env.planner.stages import stages
from prfaas_env.theory.plan import plan
from prfaas_env.workload.lengths import Constant, Empirical, Mixture, MixturePart, NominalWorkload
from tests.questions import LENGTHS, PAPER

# ---- what limits the rate


def test_stages_are_the_four_terms_of_equation_6(paper: Question, prfaas: Deployment) -> None:
    found = {one.stage: one for one in stages(paper)}
    rng = np.random.default_rng(0)
    lengths = LENGTHS.quantile(rng.random(200_000))
    t, n_p = paper.plan.threshold_tokens, paper.plan.n_prefill
    assert t is not None
    assert n_p is not None
    assert prfaas.remote is not None
    far, near = lengths[lengths > t], lengths[lengths <= t]
    share = len(far) / len(lengths)
    by_hand = {
        "remote compute": 4 / prfaas.remote.profile.prefill.time_s(far).mean() / share,
        "link": 100e9 / (8 * prfaas.remote.profile.kv.size_bytes(far).mean()) / share,
        "local prefill": n_p / prfaas.local.profile.prefill.time_s(near).mean() / (1 - share),
        "decode": 5 * 20 / (0.025 * 1024),
    }
    assert {name: one.capacity_rps for name, one in found.items()} == pytest.approx(by_hand, rel=0.01)
    assert [name for name, one in found.items() if one.limits] == ["remote compute", "local prefill"]
    assert found["decode"].utilisation_at_lambda_max == pytest.approx(paper.plan.lambda_max_rps / by_hand["decode"])


@pytest.mark.parametrize(
    ("change", "limiting"),
    [
        ({"link_gbps": 5.0}, ["link", "local prefill"]),
        ({"n_prefill": 7}, ["decode"]),
        ({"threshold_tokens": 100_000.0, "n_prefill": 3}, ["local prefill"]),
        ({"deployment": "naive-heterogeneous-pd"}, ["remote compute"]),
    ],
)
def test_the_stage_that_limits(change: dict[str, Any], limiting: list[str]) -> None:
    assert [one.stage for one in stages(question(**change)) if one.limits] == limiting


def test_a_link_of_next_to_nothing_is_used_to_the_full() -> None:
    """The sliver of the law that it carries lies beyond every threshold with a finite name."""
    asked = question(link_gbps=0.001)
    assert 0.0 < asked.plan.offload_fraction < 1e-4
    used = {one.stage: one.utilisation_at_lambda_max for one in stages(asked)}
    assert used["link"] == pytest.approx(asked.plan.egress_gbps / 0.001, rel=1e-6)
    assert {one.stage for one in stages(asked) if one.limits} == {"link", "local prefill"}


def test_without_pipelining_compute_and_link_share_one_time(paper: Question) -> None:
    asked = replace(paper, deployment=replace(paper.deployment, layerwise_pipelining=False), n_prefill=3)
    found = {one.stage: one for one in stages(asked)}
    assert found["remote compute"].capacity_rps == found["link"].capacity_rps
    assert found["link"].capacity_rps == pytest.approx(asked.plan.lambda_max_rps, rel=1e-3)


# ---- sensitivity


def test_sensitivity_is_the_plan_of_a_deployment_changed_by_hand(paper: Question, prfaas: Deployment) -> None:
    found = {one.input: one for one in sensitivity(paper)}

    def rate(change: dict[str, Any], workload: NominalWorkload = PAPER) -> float:
        plain = to_mapping(prfaas)
        for key, value in change.items():
            *path, last = key.split(".")
            at = plain
            for part in path:
                at = at[part]
            at[last] = value
        return prfaas_env.plan(Deployment(**plain), workload).lambda_max_rps

    remote_s, local_s = (c.profile.prefill.times_s for c in (prfaas.remote, prfaas.local) if c)
    by_hand = {
        "link capacity": [rate({"link.capacity_gbps": gbps}) for gbps in (90.0, 110.0)],
        "remote prefill speed": [
            rate({"remote.profile.prefill.times_s": [t / x for t in remote_s]}) for x in (0.9, 1.1)
        ],
        "local prefill speed": [rate({"local.profile.prefill.times_s": [t / x for t in local_s]}) for x in (0.9, 1.1)],
        "decode speed": [rate({"local.profile.decode.step_times_ms": [25.0 / x]}) for x in (0.9, 1.1)],
        "mean output length": [rate({}, replace(PAPER, output_tokens=Constant(1024 * x))) for x in (0.9, 1.1)],
        "N_prfaas": [rate({"remote.instances": n}) for n in (3, 5)],
        "local instances": [rate({"local.instances": n}) for n in (7, 9)],
    }
    for name, rates in by_hand.items():
        one = found[name]
        assert [one.lambda_max_low_rps, one.lambda_max_high_rps] == pytest.approx(rates, rel=1e-12), name
        assert one.low_ratio is not None
        slope = np.log(rates[1] / rates[0]) / np.log(one.high_ratio / one.low_ratio)
        assert one.elasticity == pytest.approx(slope), name
    assert found["remote prefill speed"].n_prefill_low == 4  # the split is solved again, too
    assert set(found) == {*by_hand, "KV size", "mean input length"}


def test_inputs_that_do_not_bind_have_no_weight_and_those_that_do_share_it(paper: Question) -> None:
    assert {one.input: one.elasticity for one in sensitivity(paper)}["link capacity"] == 0.0
    thin = {one.input: one.elasticity for one in sensitivity(question(link_gbps=5.0, n_prefill=3))}
    assert thin["link capacity"] > 0.2
    assert thin["KV size"] == pytest.approx(-thin["link capacity"], rel=0.02)  # bits over bits per second
    assert thin["remote prefill speed"] == 0.0


@pytest.mark.parametrize(
    "law",
    [
        LENGTHS,
        Constant(900),
        Empirical((100.0, 2000.0, 2000.0, 70_000.0)),
        Mixture((MixturePart(3, LENGTHS), MixturePart(1, Constant(400)))),
    ],
)
def test_a_scaled_law_has_every_quantile_scaled(law: Any) -> None:
    u = np.linspace(0.01, 0.99, 25)
    np.testing.assert_allclose(scaled(law, 1.1).quantile(u), 1.1 * law.quantile(u), rtol=1e-6)


def test_a_single_local_instance_cannot_be_taken_away(prfaas: Deployment) -> None:
    one = replace(prfaas, local=replace(prfaas.local, instances=2, prefill=1))
    found = {one.input: one for one in sensitivity(Question(one, PAPER))}["local instances"]
    assert (found.low_ratio, found.lambda_max_low_rps, found.high_ratio) == (None, None, 1.5)


# ---- cost


def test_cost_of_a_million_tokens_is_what_a_simulated_run_is_billed() -> None:
    asked = question(prices=["egress=0.05", "8xH200=30"])
    bill = cost_at(asked, 0.5)
    assert bill is not None
    scenario = replace(steady(asked, bill.rate_rps), control_step_s=300.0)
    billed = prfaas_env.simulate(scenario, "static", 0).summary
    assert bill.usd_per_million_output_tokens == pytest.approx(billed["usd_per_million_output_tokens"], rel=0.03)
    instances_usd = 4 * 30.0 + 8 * 14.0
    egress_usd = asked.plan.egress_gbps / 2 / 8 * 3600 * 0.05
    assert bill.usd_per_hour == pytest.approx(instances_usd + egress_usd)


def test_equal_cost_by_hand_from_plans_of_homogeneous_pd(paper: Question) -> None:
    costs = equal_cost(paper)
    assert costs is not None
    assert costs.usd_per_hour == 4 * 28 + 8 * 14
    assert costs.homogeneous_instances == 16.0
    homogeneous = load_deployment("homogeneous-pd")
    many = replace(homogeneous, local=replace(homogeneous.local, instances=16_000, prefill=1))  # splits to a thousandth
    finest = plan(many, PAPER).lambda_max_rps / 1000
    assert costs.homogeneous_lambda_max_rps == pytest.approx(finest, rel=1e-3)
    sixteen = replace(homogeneous, local=replace(homogeneous.local, instances=16, prefill=1))
    assert costs.homogeneous_whole_lambda_max_rps == plan(sixteen, PAPER).lambda_max_rps
    assert costs.ratio_homogeneous == pytest.approx(prfaas_env.plan("prfaas-pd").lambda_max_rps / finest, rel=1e-3)
    dearer = equal_cost(question(prices=[f"remote={costs.break_even_remote_usd_per_hour}"]))
    assert dearer is not None
    assert dearer.ratio_homogeneous == pytest.approx(1.0)


def test_every_size_of_the_remote_cluster_by_hand(paper: Question) -> None:
    found = {one.n_prfaas: one for one in remote_sizes(paper)}
    assert list(found) == list(range(1, 9))
    for n in (1, 7):
        plain = to_mapping(paper.deployment)
        plain["remote"]["instances"] = n
        asked = Question(Deployment(**plain), PAPER)
        costs = equal_cost(asked)
        assert costs is not None
        assert found[n].lambda_max_rps == asked.plan.lambda_max_rps
        assert found[n].usd_per_hour == n * 28 + 8 * 14
        assert found[n].ratio_homogeneous == pytest.approx(costs.ratio_homogeneous)


def test_the_same_data_centre_is_the_shipped_baseline(paper: Question) -> None:
    free = equal_cost(paper)
    assert free is not None
    inside = prfaas_env.plan("same-dc-heterogeneous").lambda_max_rps
    assert free.same_dc_lambda_max_rps == inside
    assert free.ratio_same_dc == pytest.approx(1.0)
    assert free.same_dc_premium_usd_per_hour == pytest.approx(0.0)
    asked = question(link_gbps=8.0, prices=["egress=0.02"])
    thin = equal_cost(asked)
    assert thin is not None
    per_usd = asked.plan.lambda_max_rps / thin.usd_per_hour / (inside / 224.0)
    assert thin.ratio_same_dc == pytest.approx(per_usd)
    dearer = question(prices=[f"remote={28 + thin.same_dc_premium_usd_per_hour}"]).deployment.instances_usd_per_hour
    assert asked.plan.lambda_max_rps / thin.usd_per_hour == pytest.approx(inside / dearer)


# ---- under load


def test_loaded_ttft_is_that_of_simulate_at_the_same_seeds(paper: Question) -> None:
    found = loaded(paper, 0.8, seeds=2)
    scenario = replace(steady(paper, 0.8 * paper.plan.lambda_max_rps), control_step_s=300.0)  # the policy never acts
    assert scenario.deployment.threshold_tokens == 19_606.0
    assert scenario.deployment.local.prefill == paper.plan.n_prefill
    runs = [prfaas_env.simulate(scenario, "static", seed).requests for seed in (0, 1)]
    late = [log["ttft_s"][log["arrival_s"] >= WARM_UP * scenario.horizon_s] for log in runs]
    means, p90s = [x.mean() for x in late], [np.percentile(x, 90) for x in late]
    assert found.ttft_mean_s == pytest.approx(np.mean(means))
    assert found.ttft_p90_s == pytest.approx(np.mean(p90s))
    assert found.requests == sum(map(len, runs))
    half = 12.7062 * abs(means[0] - means[1]) / 2  # Student's t with one degree of freedom; s / √2 = |Δ| / 2
    assert found.ttft_mean_high_s - found.ttft_mean_s == pytest.approx(half, rel=1e-4)


def test_little_load_is_the_closed_forms_empty_system(paper: Question) -> None:
    found = loaded(paper, 0.02, seeds=2)
    assert found.ttft_mean_s == pytest.approx(paper.plan.ttft_mean_s, rel=0.02)
    assert found.ttft_p90_s == pytest.approx(paper.plan.ttft_p90_s, rel=0.02)


def test_the_rate_of_an_objective_meets_it_and_no_more(paper: Question) -> None:
    met = objective(paper, 5.0, seeds=2)
    assert met.at.ttft_p90_s <= 5.0 < loaded(paper, met.at.load + 0.002, seeds=2).ttft_p90_s
    assert not met.at_least
    easy = objective(paper, 1e4, seeds=2)
    assert easy.at_least
    assert easy.at.load == 0.99


def test_the_setting_of_the_least_ttft_is_that_of_simulate_and_better(paper: Question) -> None:
    planned = loaded(paper, 0.8, seeds=2)
    found = least_ttft(paper, planned)
    assert found is not None
    assert found.n_prefill == 4  # the paper's 3 sustain more, but wait longer
    assert found.threshold_tokens is not None
    scenario = replace(steady(paper, found.rate_rps), control_step_s=300.0)
    place = replace(scenario.deployment.with_split(4), threshold_tokens=float(round(found.threshold_tokens)))
    scenario = replace(scenario, deployment=place)
    assert found.rate_rps == pytest.approx(0.8 * paper.plan.lambda_max_rps)
    means = []
    for seed in (0, 1):
        log = prfaas_env.simulate(scenario, "static", seed).requests
        means.append(log["ttft_s"][log["arrival_s"] >= WARM_UP * scenario.horizon_s].mean())
    assert found.ttft_mean_s == pytest.approx(np.mean(means), rel=0.01)  # the run is as long, not to the second
    assert found.ttft_mean_s < 0.95 * planned.ttft_mean_s
    assert found.predicted_mean_s == pytest.approx(found.ttft_mean_s, rel=0.1)


def test_where_the_plan_has_the_least_ttft_it_is_named(paper: Question) -> None:
    thin = question(link_gbps=10.0)
    planned = loaded(thin, 0.95, seeds=2)
    own = least_ttft(thin, planned)
    assert own is not None
    assert own.predicted_mean_s is None
    assert (own.threshold_tokens, own.n_prefill) == (thin.plan.threshold_tokens, thin.plan.n_prefill)
    assert own.ttft_mean_s == planned.ttft_mean_s
    assert least_ttft(question(n_prefill=3), planned) is None
    assert least_ttft(question("naive-heterogeneous-pd"), planned) is None


# ---- the paper


@pytest.mark.parametrize("name", TABLE_6)
def test_the_papers_column_stands_beside_its_own_case_and_no_other(name: str) -> None:
    rows = report(question(name), simulated=False).paper
    assert {row.key for row in rows} == set(TABLE_6[name])
    for row in rows:
        assert row.relative_error == pytest.approx(row.here / row.paper - 1)
        assert abs(row.relative_error) < (0.08 if row.key == "egress_gbps" else 0.02), row
    assert question(name, prices=["8xH20=10"]).paper == name  # no row but the last depends on prices


def test_no_other_case_has_a_column_of_the_paper() -> None:
    others = [
        question("prfaas-pd", "mooncake-like"),
        question(threshold_tokens=9000.0),
        question(form="representative"),
        question(link_gbps=50.0),
        question("same-dc-heterogeneous"),
    ]
    assert [asked.paper for asked in others] == [None] * 5


def test_the_papers_figures_are_those_of_the_documentation() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "closed-form.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z-]+) \| ([a-z_0-9]+) \| ([\d.]+) \| [\d.]+ \|$", text, flags=re.MULTILINE)
    assert len(rows) == 15
    assert [(name, key) for name, key, paper in rows if TABLE_6[name][key] != float(paper)] == []
