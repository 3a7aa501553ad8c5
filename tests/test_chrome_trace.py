"""A run as a Chrome trace: the format, and every span and counter against the request log and the timeline."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from prfaas_env.cli.app import main
from prfaas_env.evaluation.chrome_trace import COUNTERS, LARGEST, chrome_trace
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.result import RunResult
from prfaas_env.simulator.stages import STAGES, ttft_parts_s

Event = dict[str, Any]
NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "ts", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
    "M": {"name", "pid", "args"},
}


@pytest.fixture(scope="module", params=["drift-mix", "node-failures"])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return load_scenario(request.param).with_overrides(horizon_s=600.0)


@pytest.fixture(scope="module")
def run(scenario: Scenario) -> RunResult:
    return simulate(scenario, "dual-timescale", seed=1)


@pytest.fixture(scope="module")
def events(scenario: Scenario, run: RunResult) -> list[Event]:
    written = json.loads(json.dumps(chrome_trace(run, scenario.deployment), allow_nan=False))
    assert written["otherData"]["policy"] == "dual-timescale"
    return list(written["traceEvents"])


def test_every_event_is_of_the_format_and_its_track_has_a_name(events: list[Event]) -> None:
    named = {(e["pid"], e.get("tid")) for e in events if e["name"] in ("process_name", "thread_name")}
    for event in events:
        assert set(event) - {"ph", "tid"} == NEEDED[event["ph"]] - {"tid"}
        if event["ph"] in "Xsf":
            assert (event["pid"], event["tid"]) in named
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0


def test_spans_are_those_of_the_request_log(events: list[Event], run: RunResult) -> None:
    log = run.requests
    times = {"prefill": ("prefill_start_s", "prefill_end_s"), "decode": ("decode_start_s", "finish_s")}
    times["KV"] = ("prefill_start_s", "kv_ready_s")
    for what, (start, end) in times.items():
        found = {e["args"]["request"]: e for e in events if e["ph"] == "X" and e["cat"] == what}
        there = np.isfinite(log[end]) & (log["remote"] if what == "KV" else True)
        assert sorted(found) == np.flatnonzero(there).tolist()
        for i, event in found.items():
            assert event["ts"] == pytest.approx(1e6 * log[start][i], abs=1e-2)
            assert event["ts"] + event["dur"] == pytest.approx(1e6 * log[end][i], abs=1e-2)
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    for event in (e for e in events if e["ph"] == "X" and e["cat"] != "KV"):
        one = log[event["args"]["request"]]
        cluster = "remote" if event["cat"] == "prefill" and one["remote"] else "local"
        assert processes[event["pid"]] == f"{cluster} {one[event['cat'] + '_instance']}"


def test_spans_of_a_track_do_not_overlap_and_flows_join_prefill_and_decode(events: list[Event]) -> None:
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(end <= start + 2e-3 for (_, end), (start, _) in pairwise(spans))
    starts, ends = ({e["id"] for e in events if e["ph"] == ph} for ph in "sf")
    assert starts == ends != set()


def test_counters_are_those_of_the_timeline(events: list[Event], run: RunResult) -> None:
    counted = [e for e in events if e["ph"] == "C"]
    assert {e["name"] for e in counted} == set(COUNTERS)
    for name, signals in COUNTERS.items():
        for signal in signals:
            shown = [e["args"][signal] for e in counted if e["name"] == name]
            expected = run.timeline[signal]
            np.testing.assert_allclose(shown, np.where(np.isfinite(expected), expected, LARGEST))


def test_the_parts_of_ttft_are_what_the_log_says(run: RunResult, scenario: Scenario) -> None:
    log, parts = run.requests, ttft_parts_s(run.requests)
    served = np.isfinite(log["ttft_s"])
    assert served.any()
    assert np.isnan(parts[~served]).all()
    np.testing.assert_allclose(parts[served].sum(axis=1), log["ttft_s"][served])
    assert (parts[served] >= -1e-9).all()
    plain = served & (log["decode_start_s"] <= log["first_token_s"])
    for stage, start, end in (
        ("queue", "arrival_s", "prefill_start_s"),
        ("prefill", "prefill_start_s", "prefill_end_s"),
        ("transfer", "prefill_end_s", "kv_ready_s"),
        ("decode wait", "kv_ready_s", "decode_start_s"),
    ):
        np.testing.assert_allclose(parts[plain, STAGES.index(stage)], (log[end] - log[start])[plain], atol=1e-9)
    np.testing.assert_allclose(parts[served, -1], scenario.deployment.ttft_overhead_s, atol=1e-9)


def test_a_run_without_requests_has_no_mean(tmp_path: Path) -> None:
    scenario = tmp_path / "none.yaml"
    scenario.write_text("extends: paper-stationary-50\nname: none\nload: 0.0\nhorizon_s: 30\n", encoding="utf-8")
    out = tmp_path / "run.json"
    done = CliRunner().invoke(main, ["record", str(scenario), "static", "--out", str(out)], catch_exceptions=False)
    assert done.output == f"written: {out} (0 requests, none was served)\n"


def test_the_command_writes_the_trace(tmp_path: Path) -> None:
    out = tmp_path / "run.json.gz"
    arguments = ["record", "paper-stationary", "closed-form", "--seed", "3", "--out", str(out)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.output.startswith(f"written: {out}")
    trace = json.loads(gzip.decompress(out.read_bytes()))
    assert (
        trace["otherData"] | {"scenario": "paper-stationary", "policy": "closed-form", "seed": 3} == trace["otherData"]
    )
    assert {e["ph"] for e in trace["traceEvents"]} == set(NEEDED)
    missing = CliRunner().invoke(main, [*arguments[:-1], str(tmp_path / "no" / "run.json")])
    assert "--out: expected a file in a folder that exists" in str(missing.exception)
