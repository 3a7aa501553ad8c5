"""The bench runs, its page is what its results say, and the plain pipeline beside the engines is no straw man."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import agreement, sweep
from benchmarks.__main__ import STAGES, main
from benchmarks.engines import MODELS, SCENARIOS, subject
from benchmarks.page import PAGE, RESULTS, performance_page
from benchmarks.pipeline import run_pipeline
from benchmarks.tables import number, tables
from benchmarks.targets import TARGETS, verdicts
from prfaas_env.deployment import load_deployment
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.engine import make_engine


def test_a_quick_run_measures_everything_and_judges_nothing(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
    out = tmp_path / "new" / "bench.json"
    result = CliRunner().invoke(main, ["--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    results = json.loads(out.read_text(encoding="utf-8"))
    assert set(STAGES) < set(results)
    assert results["targets"] == []
    assert tables(results)[0].title.startswith("Engines")
    assert {(row["scenario"], row["model"]) for row in results["engines"]} >= {
        (scenario, model) for scenario in SCENARIOS for model in MODELS if scenario != "mooncake-like"
    }
    assert all(row["compiled_over_reference"] > 5 for row in results["engines"])


def test_the_page_is_what_the_committed_results_say() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == performance_page(results)
    assert results["command"] == "python -m benchmarks"
    assert results["targets"] == verdicts(results)
    assert len(results["targets"]) == len(TARGETS)


def test_a_missed_target_is_called_missed() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    results["share_of_engine"]["share"] = 0.59
    results["starts"]["cold_s"] = None
    judged = {row["name"]: row["met"] for row in verdicts(results)}
    assert len(judged) == len(TARGETS) - 1
    assert [met for name, met in judged.items() if name.startswith("vector environment")] == [False]
    results["targets"] = verdicts(results)
    assert any(row[-1] == "MISSED" for row in tables(results)[0].rows)


def test_models_are_what_they_are_called() -> None:
    """`full` has the faults, caches and classes that the figures claim; `conversations` the cache hits too."""
    small, full, conversations = (subject("paper", model, 1800.0) for model in MODELS)
    assert small.scenario.deployment.local.cache.capacity_gib == 0
    assert len(small.draw.faults.times_s) == 0
    for run in (full, conversations):
        assert run.scenario.deployment.local.cache.capacity_gib > 0
        assert len(run.draw.faults.times_s) > 0
        assert set(run.draw.stream.service_class) == {0, 1}
        assert len(run.draw.capacity.times_s) > 10
    scenario, draw, _ = conversations
    engine = make_engine("compiled", scenario.deployment, draw.stream, objectives=scenario.objectives)
    engine.drain()
    assert (engine.log()["cached_tokens"] > 0).mean() > 0.2


def test_the_plain_pipeline_agrees_where_nothing_is_shared() -> None:
    """At a tenth of the load the link and the batches are hardly shared: mean TTFT is that of the engine."""
    stream = load_scenario("paper-stationary").with_overrides(load=0.1).draw(0).stream
    deployment = load_deployment("prfaas-pd")
    ttft_s = run_pipeline(deployment, stream)
    engine = make_engine("compiled", deployment, stream)
    engine.drain()
    expected = engine.log()["ttft_s"].mean() - deployment.ttft_overhead_s
    assert len(ttft_s) == len(stream)
    assert np.mean(ttft_s) == pytest.approx(expected, rel=0.1)


def test_numbers_keep_three_figures() -> None:
    assert [number(x) for x in (None, 0.6218, 1.5, 57.04, 123.4, 1_956_467.7)] == [
        "–",
        "0.622",
        "1.5",
        "57",
        "123",
        "1,960,000",
    ]


def test_the_agreement_page_says_what_was_exercised(tmp_path: Path) -> None:
    out = tmp_path / "agreement.md"
    result = CliRunner().invoke(agreement.main, ["--cases", "20", "--seed", "3", "--out", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert "--cases 20 --seed 3" in text
    counts = {
        row.split("|")[1].strip(): int(row.split("|")[3])
        for row in text.splitlines()
        if row.startswith("| ") and "runs |" not in row
    }
    assert set(counts) == set(agreement.FEATURES)
    assert 10 < counts["requests"] <= 20


def test_the_committed_agreement_is_large_and_has_seen_everything() -> None:
    text = agreement.DEFAULT_PAGE.read_text(encoding="utf-8")
    cases = int(text.partition("--cases ")[2].split()[0])
    rows = [row.split("|") for row in text.splitlines() if row.startswith("| ") and "meaning" not in row]
    assert cases >= 10_000
    assert {row[1].strip() for row in rows} == set(agreement.FEATURES)
    assert min(int(row[3].replace(",", "")) for row in rows) >= math.sqrt(cases) / 10


def test_a_sweep_is_reckoned_from_its_cells() -> None:
    assert sweep.finished_s([3.0, 3.0, 2.0, 2.0, 2.0], 2) == 7.0
    assert sweep.finished_s([5.0], 3) == 5.0
    work_h, wall_h = sweep.sweep_hours(mean_s=36.0, longest_s=72.0, keep_s=0.001, cells=10_000, cores=1000)
    assert (work_h, wall_h) == (100.0, pytest.approx(0.1 + 0.02))
    assert sweep.sweep_hours(mean_s=0.1, longest_s=0.2, keep_s=0.01, cells=10_000, cores=1000)[1] * 3600 == 100.0


def test_the_page_of_a_sweep_runs_what_it_says(tmp_path: Path) -> None:
    (scenario := tmp_path / "short.yaml").write_text("{extends: drift-mix, horizon_s: 60}")
    out = tmp_path / "sweep.md"
    given = ["--policies", "static,naive", "--scenarios", str(scenario), "--seeds", "2", "--out", str(out)]
    result = CliRunner().invoke(sweep.main, given)
    assert result.exit_code == 0, result.output
    text = out.read_text(encoding="utf-8")
    assert f"`python -m benchmarks.sweep {' '.join(given[:-2])}`" in text
    assert "4 episodes (2 policies × 1 scenarios × 2 seeds)" in text
    assert [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| ")] == [
        "policy",
        "static",
        "naive",
    ]
