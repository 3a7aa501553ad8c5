"""The planner: every figure against another way to it, every refusal in one line, the page and the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import prfaas_env
from prfaas_env.config import ConfigError, to_mapping
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planner.advice import THRESHOLDS
from prfaas_env.planner.cost import EqualCost, cost_at, equal_cost, remote_sizes
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.latency import least_ttft
from prfaas_env.planner.loaded import WARM_UP, Loaded, loaded, objective, steady
from prfaas_env.planner.paper import TABLE_6
from prfaas_env.planner.report import Report, report
from prfaas_env.planner.sensitivity import Sensitivity, scaled, sensitivity
from prfaas_env.planner.stages import stages
from prfaas_env.planner.sweep import sweep
from prfaas_env.planner.traffic import traffic
from prfaas_env.theory.plan import plan
from prfaas_env.workload.lengths import Constant, Empirical, Mixture, MixturePart, NominalWorkload, TruncatedLogNormal
from tests.browser import carried
from tests.commands import Ended, ended

LENGTHS = TruncatedLogNormal(9.90, 1.00, 128, 131072)
PAPER = NominalWorkload(LENGTHS, Constant(1024))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    return lambda *arguments: ended(capsys, "plan", *arguments)


@pytest.fixture(scope="module")
def paper() -> Question:
    return question()


@pytest.fixture(scope="module")
def prfaas() -> Deployment:
    return load_deployment("prfaas-pd")


def trace_file(folder: Path, lengths: np.ndarray, gap_s: float = 1.0, output: int = 200) -> str:
    path = folder / "own.csv"
    rows = [f"{i * gap_s:.3f},{int(length)},{output}" for i, length in enumerate(lengths)]
    path.write_text("\n".join(["at,asked,answered", *rows]) + "\n", encoding="utf-8")
    return str(path)


OWN = "arrival=at,input=asked,output=answered"


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


# ---- advice


def test_advice_compares_numbers_worked_out_elsewhere(paper: Question, prfaas: Deployment) -> None:
    assert prfaas.remote is not None
    found = {one.quantity: one for one in report(paper, simulated=False).advice}
    assert {one.way for one in found.values()} == {"request lengths", "traffic pattern", "KV weight", "infrastructure"}
    assert set(found) == set(THRESHOLDS)
    far = LENGTHS.quantile(np.linspace(1 - paper.plan.offload_fraction, 1, 100_001)[:-1])
    remote_s, local_s = (c.profile.prefill.time_s(far).mean() for c in (prfaas.remote, prfaas.local))
    phi_gbps = 8e-9 * prfaas.local.profile.kv.size_bytes(far).mean() / remote_s
    by_hand = {
        "P(L > t), the share that crosses": paper.plan.offload_fraction,
        "N_prfaas · Φ_kv over the link": 4 * phi_gbps / 100,
        "local over remote prefill time": local_s / remote_s,
        "transfer rate over Φ_kv": 100 / phi_gbps,
        "Λ_max over homogeneous PD, equal cost": 1.1378,
    }
    assert {key: found[key].value for key in by_hand} == pytest.approx(by_hand, rel=1e-3)
    assert found["local over remote prefill time"].threshold == 2.0
    assert all(one.favourable for one in found.values() if one.way != "traffic pattern")
    assert all(one.favourable is None for one in found.values() if one.way == "traffic pattern")
    for one in found.values():
        if one.favourable is not None:
            assert one.value is not None
            assert one.threshold is not None
            assert one.favourable == (one.value >= one.threshold if one.at_least else one.value <= one.threshold)


def test_heavy_kv_on_a_thin_link_and_dear_egress_are_not_favourable() -> None:
    heavy = question(profiles=["remote=minimax-m2.5-8xh200", "local=minimax-m2.5-8xh200"])
    found = {one.quantity: one for one in report(heavy, simulated=False).advice}
    assert found["N_prfaas · Φ_kv over the link"].favourable is False
    assert found["local over remote prefill time"].value == pytest.approx(1.0)
    dear = {one.quantity: one for one in report(question(prices=["egress=0.05"]), simulated=False).advice}
    assert dear["local over remote prefill time"].favourable is False


def test_a_break_even_below_nothing_is_none(call: Callable[..., Ended]) -> None:
    assert re.search(r"\nBreak-even with homogeneous PD: \d+\.\d\d USD/h", call("--no-simulation").out)
    dear = call("--no-simulation", "--prices", "egress=0.05").out
    assert "\nNo break-even with homogeneous PD: remote instances would not be worth it" in dear


def test_the_verdict_on_crossing_follows_the_money(paper: Question) -> None:
    worth = report(paper, simulated=False).verdict
    assert worth.crossing is True
    assert "+13.8%" in worth.crossing_sentence
    assert worth.routing == "not stated"
    dear = report(question(prices=["remote=40"]), simulated=False).verdict
    assert dear.crossing is False
    assert dear.crossing_sentence.endswith("nor is it with fewer or more remote instances.")
    assert paper.deployment.remote is not None
    crowd = replace(paper.deployment, remote=replace(paper.deployment.remote, instances=12))
    crowded = replace(paper, deployment=crowd)
    best = max(remote_sizes(crowded), key=lambda one: one.ratio_homogeneous)
    said = report(crowded, simulated=False).verdict
    assert said.crossing is False
    assert said.crossing_sentence.endswith(f"with N_prfaas = {best.n_prfaas} it is, {best.ratio_homogeneous - 1:+.1%}.")
    assert report(question("homogeneous-pd"), simulated=False).verdict.crossing is None
    inside = report(question(link_gbps=9.5, prices=["remote=20"]), simulated=False)
    assert inside.equal_cost is not None
    assert f"{inside.equal_cost.same_dc_premium_usd_per_hour:,.2f} USD/h more" in inside.verdict.crossing_sentence


# ---- traces


def drifting(shuffle: bool) -> np.ndarray:
    """Lengths whose mix turns half-way from short to long, or the same ones in any order."""
    rng = np.random.default_rng(1)
    lengths = np.concatenate([rng.lognormal(8.0, 1.0, 2000), rng.lognormal(10.5, 0.7, 2000)]).clip(64, 120_000)
    return rng.permutation(lengths) if shuffle else lengths


@pytest.mark.parametrize(("shuffle", "routing"), [(False, "adaptive"), (True, "static")])
def test_a_trace_that_drifts_asks_for_an_adaptive_threshold(tmp_path: Path, shuffle: bool, routing: str) -> None:
    asked = question(trace=trace_file(tmp_path, drifting(shuffle)), columns=OWN)
    found = report(asked, simulated=False)
    assert found.verdict.routing == routing
    assert found.trace is not None
    assert found.trace.adapting_gain is not None
    assert (found.trace.adapting_gain > 0.2) is not shuffle
    assert abs(found.trace.adapting_gain) < 0.03 or not shuffle
    assert found.trace.requests == 4000
    assert found.trace.load == pytest.approx(found.trace.rate_rps / asked.plan.lambda_max_rps)
    assert found.trace.dispersion_1min == pytest.approx(0.0, abs=0.05)  # one a second, evenly


def test_a_traces_measured_lengths_are_the_workload(tmp_path: Path, prfaas: Deployment) -> None:
    lengths = drifting(shuffle=True).astype(np.int64)
    asked = question(trace=trace_file(tmp_path, lengths), columns=OWN)
    measured = NominalWorkload(Empirical(tuple(lengths.astype(float).tolist())), Constant(200))
    assert asked.plan.lambda_max_rps == pytest.approx(plan(prfaas, measured).lambda_max_rps, rel=1e-3)
    assert asked.deployment.name == "prfaas-pd"
    assert question("naive-heterogeneous-pd", trace=trace_file(tmp_path, lengths), columns=OWN).trace is not None


def test_uncached_lengths_of_a_measured_trace(real_trace: Callable[[str], Path]) -> None:
    asked = question(trace=str(real_trace("mooncake-fast25/conversation_trace.jsonl.gz")))
    assert asked.trace is not None
    found = traffic(asked.trace)
    assert found.requests == 12_031
    assert found.cached_share == pytest.approx(0.374, abs=0.005)
    assert found.dispersion_1min == pytest.approx(3.0, rel=0.1)
    assert 1.0 - float(asked.workload.lengths.cdf(8000)) == pytest.approx(0.273, abs=0.002)


def test_rows_left_out_of_a_trace_and_its_few_requests_are_said_once(
    call: Callable[..., Ended], tmp_path: Path
) -> None:
    path = trace_file(tmp_path, np.array([0, *range(1000, 100_000, 1000)]))
    ended = call("--trace", path, "--columns", OWN, "--no-simulation", "--json")
    assert (ended.code, ended.err) == (0, "")
    left_out, few = json.loads(ended.out)["notes"][:2]
    assert left_out.startswith(f"{path}: 1 of 100 rows left out")
    assert few == f"{path}: 99 requests only: any share of them, and so the plan, is ± 10% at best"


def test_a_trace_of_one_length_says_that_no_threshold_divides_it(tmp_path: Path) -> None:
    asked = question(trace=trace_file(tmp_path, np.full(50, 5000)), columns=OWN)
    found = report(asked, simulated=False)
    assert any("every request has 5,000 uncached tokens" in note for note in found.notes)
    assert found.verdict.routing == "not stated"  # too short to tell
    assert sweep(asked).share is None


# ---- notes at the edges


def test_a_threshold_at_the_edge_says_what_to_do() -> None:
    lengths = Constant(1000)
    short = Question(load_deployment("prfaas-pd"), NominalWorkload(lengths, Constant(10)))
    assert any("all go to one side" in note for note in short.notes())
    assert any(
        note.startswith("t* = 0 tokens, next to no request is shorter: send every prefill remote")
        for note in short.notes()
    )
    slow = replace(short, deployment=replace(short.deployment, remote=None, link=None))
    assert not any("t*" in note for note in slow.notes())
    dead = question(link_gbps=1e-6)
    assert any("keep everything local" in note for note in dead.notes())
    assert report(dead, simulated=False).verdict.crossing is False


@pytest.mark.parametrize(
    ("tokens", "said"),
    [(1000, "20% of the requests are shorter than 1,024 tokens"), (150_000, "20% of the requests are longer than 131")],
)
def test_lengths_that_no_profile_has_a_time_for_are_counted(prfaas: Deployment, tokens: float, said: str) -> None:
    measured = (2000.0, 20_000.0, 20_000.0, 100_000.0)
    asked = Question(prfaas, NominalWorkload(Empirical((tokens, *measured)), Constant(100)))
    assert [note for note in asked.notes() if "prefill time for" in note and note.startswith(said)]
    inside = Question(prfaas, NominalWorkload(Empirical(measured), Constant(100)))
    assert not [note for note in inside.notes() if "prefill time for" in note]


def test_lengths_over_the_context_limit_are_counted() -> None:
    lengths = Empirical((1000.0, 2_000_000.0))
    asked = Question(load_deployment("prfaas-pd"), NominalWorkload(lengths, Constant(10)))
    assert any(note.startswith("50.0% of the requests exceed") for note in asked.notes())
    assert loaded(asked, 0.3, seeds=2).refused_share == pytest.approx(0.5, abs=0.02)


# ---- sweeps


def test_sweeps_pass_through_the_plan(paper: Question) -> None:
    found, best = sweep(paper), paper.plan
    assert found.split is not None
    assert found.split.n_prefill == list(range(1, 8))
    rates = np.array(found.split.lambda_max_rps)
    assert rates.max() == pytest.approx(best.lambda_max_rps, rel=0.03)
    i, k = 4, 30
    at = plan(paper.deployment, PAPER, n_prefill=i + 1, threshold_tokens=found.split.threshold_tokens[k])
    assert rates[i, k] == pytest.approx(at.lambda_max_rps)
    assert found.link is not None
    thin = question(link_gbps=found.link.link_gbps[10]).plan
    assert found.link.lambda_max_rps[10] == pytest.approx(thin.lambda_max_rps)
    assert found.link.lambda_max_rps == sorted(found.link.lambda_max_rps)
    assert found.share is not None
    share = np.array(found.share.offload_fraction)
    k = int(np.argmin(abs(share - 0.3)))
    at = plan(paper.deployment, PAPER, n_prefill=3, threshold_tokens=found.share.threshold_tokens[k])
    assert found.share.lambda_max_rps[k] == pytest.approx(at.lambda_max_rps, rel=1e-6)
    least = np.minimum(np.minimum(found.share.remote_rps, found.share.local_rps), found.share.decode_rps)
    np.testing.assert_allclose(found.share.lambda_max_rps, least, rtol=1e-9)
    assert found.price is not None
    k = 40
    costs = equal_cost(question(prices=[f"remote={14 * found.price.price_ratio[k]}"]))
    assert costs is not None
    assert found.price.ratio_homogeneous[k] == pytest.approx(costs.ratio_homogeneous)


def test_the_command_writes_a_page_with_its_charts(call: Callable[..., Ended], tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="pages need plotly (extra 'report')")
    ended = call("--sweep", "--out", str(tmp_path), "--no-simulation", "--json")
    assert (ended.code, ended.err) == (0, "")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:|#)|@import|url\(""", page)
    drawn = carried(page, "charts")
    titles = re.findall(r"<h3>(.*?)</h3>", page)
    assert titles == [
        "Λ_max over t and N_p",
        "Λ_max over the share that crosses",
        "Λ_max over the link",
        "Equal-cost ratio over prices",
    ]
    assert [chart["data"][0]["type"] for chart in drawn] == ["heatmap", "scatter", "scatter", "scatter"]
    legend = {one["name"] for one in json.loads(re.findall(r'id="series">(.*?)</script>', page, flags=re.S)[0])}
    assert {trace["meta"] for chart in drawn for trace in chart["data"] if "meta" in trace} == legend
    written = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert written == json.loads(ended.out)
    assert set(written["sweep"]) == {"split", "link", "share", "price"}
    pinned = call("-d", "naive-heterogeneous-pd", "--sweep", "--out", str(tmp_path), "--no-simulation", "--json")
    assert [key for key, value in json.loads(pinned.out)["sweep"].items() if value is None] == ["split", "share"]


# ---- the command


def test_json_adds_to_the_published_keys(call: Callable[..., Ended]) -> None:
    found = json.loads(call("--json", "--seeds", "2", "--slo-ttft", "5").out)
    asked = question()
    assert {key: found[key] for key in asked.plan.as_mapping()} == asked.plan.as_mapping()
    for key, record in {"sensitivity": Sensitivity, "loaded": Loaded}.items():
        assert set(found[key][0]) == {f.name for f in fields(record)}
    assert found["equal_cost"].keys() == {f.name for f in fields(EqualCost)}
    assert [row["load"] for row in found["loaded"]] == [0.5, 0.8, 0.95]
    assert [row["load"] for row in found["cost"]] == [0.5, 0.8, 0.95, found["slo"]["at"]["load"]]
    assert found["loaded"][0] == asdict(loaded(asked, 0.5, seeds=2))
    more = {f.name for f in fields(Report)} - {"asked"} | {"deployment", "workload", "form", "binding_stage", "changes"}
    assert set(found) == set(asked.plan.as_mapping()) | more


def test_everything_is_printed(call: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    ended = call("--seeds", "2", "--slo-ttft", "5")
    assert (ended.code, ended.err) == (0, "")
    found = report(question(), seeds=2, slo_ttft_s=5.0)
    assert found.slo is not None
    assert found.equal_cost is not None
    shown = [
        "limited by remote compute and local prefill; then link at 12%, decode at 83%",
        *(f"{one.elasticity:+.2f}" for one in found.sensitivity),
        *(f"{one.ttft_mean_s:.2f} ± {one.ttft_mean_high_s - one.ttft_mean_s:.2f}" for one in found.loaded),
        *(f"{one.ttft_mean_s:.2f} ± {one.ttft_mean_high_s - one.ttft_mean_s:.2f}" for one in found.least_ttft),
        *(f"{one.usd_per_million_output_tokens:.2f}" for one in found.cost),
        f"up to {found.slo.at.rate_rps:.3f} req/s, {found.slo.at.load:.1%} of Λ_max",
        *(f"{one.relative_error:+.1%}" for one in found.paper),
        f"{found.equal_cost.ratio_homogeneous - 1:+.1%}",
        f"{found.equal_cost.break_even_remote_usd_per_hour:,.2f} USD/h for a remote instance",
        *(one.reason[:60] for one in found.advice),
        found.verdict.routing_sentence[:100],
        found.verdict.crossing_sentence[:100],
    ]
    assert [text for text in shown if text not in ended.out] == []


def test_the_documentations_example_is_what_the_command_prints(
    call: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    text = (Path(__file__).resolve().parent.parent / "docs" / "planner.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ python -m prfaas_env plan (.*)$\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    ended = call(*found[1].split(), "--seeds", "2")

    def closed_form(printed: str) -> list[str]:
        """Without what is simulated, which the documentation has of more seeds."""
        lines = filter(None, map(str.rstrip, printed.splitlines()))
        simulated = (
            "±",
            "least mean TTFT",
            "mean over the plan's",
            "P90 of TTFT within",
            "Simulated:",
            "USD / M output tokens",
            "At a share of",
        )
        return [line for line in lines if not any(word in line for word in simulated) and "──" not in line]

    assert closed_form(found[2]) == closed_form(ended.out)


def test_prices_come_from_files_and_arguments_the_later_replacing_the_earlier(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump({"8xH20": 10.0, "8xH200": 20.0, "egress": 0.01}), encoding="utf-8")
    asked = question(prices=[str(path), "remote=25,egress=0.02"])
    assert asked.deployment.remote is not None
    assert asked.deployment.link is not None
    assert asked.deployment.remote.profile.price_usd_per_hour == 25.0
    assert asked.deployment.local.profile.price_usd_per_hour == 10.0
    assert asked.deployment.link.price_usd_per_gb == 0.02


def test_profiles_are_replaced_together(prfaas: Deployment) -> None:
    swapped = question(profiles=["remote=hybrid-1t-8xh20", "local=hybrid-1t-8xh200"]).deployment
    assert swapped.remote is not None
    assert prfaas.remote is not None
    assert (swapped.remote.profile, swapped.local.profile) == (prfaas.local.profile, prfaas.remote.profile)


def test_instances_without_a_price_have_no_cost(tmp_path: Path) -> None:
    profile = to_mapping(load_deployment("homogeneous-pd").local.profile) | {"price_usd_per_hour": 0}
    path = tmp_path / "free.yaml"
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    asked = question(profiles=[f"local={path}"])
    found = report(asked, simulated=False)
    assert (found.cost, found.equal_cost, found.verdict.crossing) == ((), None, None)
    assert any("--prices 8xH20=USD_PER_HOUR" in note for note in found.notes)
    with pytest.raises(ConfigError, match=r"^--prices: no price of the local instances \(8xH20\)"):
        question(profiles=[f"local={path}"], prices=["8xH200=28"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "remot=hybrid-1t-8xh20"], "--profile: expected remote=NAME_OR_FILE or local=NAME_OR_FILE, got"),
        (["--profile", "hybrid-1t-8xh20"], "--profile: expected remote=NAME_OR_FILE or local=NAME_OR_FILE, got"),
        (["--profile", "local=hybrid-1t-8xh21"], "unknown profile 'hybrid-1t-8xh21'; did you mean"),
        (["--profile", "remote=minimax-m2.5-8xh200"], "--profile: remote.profile: its model is 'minimax-m2.5' but"),
        (["-d", "homogeneous-pd", "--profile", "remote=hybrid-1t-8xh20"], "--profile remote=hybrid-1t-8xh20: deploym"),
        (["--link-gbps", "0"], "--link-gbps: capacity_gbps: expected a number > 0, got 0"),
        (["-d", "homogeneous-pd", "--link-gbps", "9"], "--link-gbps: deployment 'homogeneous-pd' has no link"),
        (["--prices", "no/prices.yaml"], "--prices: expected KEY=VALUE or a YAML file, got 'no/prices.yaml'"),
        (["--prices", "8xH2O=3"], "--prices: 8xH2O: deployment 'prfaas-pd' has no such price; did you mean '8xH20'?"),
        (["--prices", "8xH20=-3"], "--prices: 8xH20: expected a price in USD, a number ≥ 0, got '-3'"),
        (["--prices", "8xH20=nan"], "--prices: 8xH20: expected a price in USD, a number ≥ 0, got 'nan'"),
        (["--slo-ttft", "1"], "--slo-ttft: 1 s is not above P90 of TTFT in an empty system, 3.46 s: no rate meets it"),
        (["--slo-ttft", "nan"], "--slo-ttft: expected a number of seconds > 0, got nan"),
        (["--slo-ttft", "inf", "--json"], "--slo-ttft: expected a number of seconds > 0, got inf"),
        (["--prices", "=3"], "--prices: expected KEY=VALUE, got '=3'"),
        (
            ["--profile", "local=hybrid-1t-8xh20", "--profile", "local=hybrid-1t-8xh200"],
            "--profile local=hybrid-1t-8xh200: local is given already, expected it once",
        ),
        (["--slo-ttft", "9", "--no-simulation"], "--slo-ttft: expected without --no-simulation"),
        (["--trace", "nowhere.jsonl"], "trace 'nowhere.jsonl' not found"),
        (
            ["--trace", "drift-mix"],
            "--trace: expected a trace file (.jsonl, .csv, …), got 'drift-mix'; scenarios go to",
        ),
        (["--trace", "x.csv", "-w", "drift-mix"], "--trace: expected without --workload: the trace is the workload"),
        (["--out", "{}"], "--out: expected with --sweep"),
        (["--columns", OWN], "--columns: expected with --trace"),
        (["-d", "homogeneous-pd", "--sweep", "--out", "{}"], "--sweep: deployment 'homogeneous-pd' has no remote"),
    ],
)
def test_bad_arguments(call: Callable[..., Ended], tmp_path: Path, arguments: list[str], message: str) -> None:
    refused(call(*(text.format(tmp_path) for text in arguments)), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the trace is empty"),
        ("at,asked,answered\n", "the trace is empty"),
        (
            "at,asked,answered\n0,-1,3\n1,x,3\n",
            "the trace has no usable row (line 2: asked: expected a whole number ≥ 1",
        ),
        (
            "at,asked,answered\n0,5000000,3\n1,5000000,3\n",
            "every input has 5,000,000 tokens or more, context_limit_tok",
        ),
    ],
)
def test_bad_traces(call: Callable[..., Ended], tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    refused(call("--trace", str(path), "--columns", OWN), f"{path}: {message}")
    if not text:
        refused(call("--trace", str(path)), f"{path}: {message}")


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"8xH20": 14.0, "8xB200": 60.0}, "8xB200: deployment 'prfaas-pd' has no such price; did you mean '8xH200'?"),
        ({"8xH20": "cheap"}, "8xH20: expected a price in USD, a number ≥ 0, got 'cheap'"),
        ([1, 2], "expected a mapping of prices, such as '8xH20: 14.0'"),
    ],
)
def test_bad_price_files(call: Callable[..., Ended], tmp_path: Path, plain: Any, message: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    refused(call("--prices", str(path)), f"{path}: {message}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("times_s", [8.86e6, 1.559e7, 4.771e7, 2.343e8], "practically none: prefill cannot keep up; check the units"),
        ("step_times_ms", [2.5e9], "practically none: decode cannot keep up; check the units of decode"),
    ],
)
def test_a_rate_of_nothing_names_what_is_too_slow(
    call: Callable[..., Ended], tmp_path: Path, key: str, value: list[float], message: str
) -> None:
    profile = to_mapping(load_deployment("homogeneous-pd").local.profile)
    profile["prefill" if key == "times_s" else "decode"][key] = value
    path = tmp_path / "slow.yaml"
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    ended = call("-d", "homogeneous-pd", "--profile", f"local={path}")
    refused(ended, "deployment 'homogeneous-pd': Λ_max is ")
    assert message in ended.err


def test_what_the_simulation_refuses_whole_is_said() -> None:
    most = load_deployment("prfaas-pd").local.profile.context_limit_tokens
    asked = Question(load_deployment("prfaas-pd"), NominalWorkload(Constant(most - 1), Constant(100)), "mine.yaml")
    with pytest.raises(ConfigError, match=r"^mine.yaml: the simulation served none of [\d,]+ requests"):
        loaded(asked, 0.5, seeds=2)


def refused(ended: Ended, message: str) -> None:
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {message}")
    assert ended.err.count("\n") == 1
