"""What the planner advises: from its figures, from a trace, and where a plan comes to an edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planner.advice import THRESHOLDS
from prfaas_env.planner.cost import remote_sizes
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.loaded import loaded
from prfaas_env.planner.report import report
from prfaas_env.planner.sweep import sweep
from prfaas_env.planner.traffic import traffic
from prfaas_env.theory.plan import plan
from prfaas_env.workload.lengths import Constant, Empirical, NominalWorkload
from tests.questions import LENGTHS, OWN, trace_file

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
