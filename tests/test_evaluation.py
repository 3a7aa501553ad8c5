"""An evaluation from the command line to its files: schema, pairing, bad input, interruption."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evaluate as command_line
import prfaas_env
from prfaas_env.cli.errors import run
from prfaas_env.config import ConfigError
from prfaas_env.describe.description import describe
from prfaas_env.evaluation import evaluation, runner, suites
from prfaas_env.evaluation.results import ROW_KEYS, CellResult, Evaluation
from prfaas_env.evaluation.runner import plan_cells, run_cells
from prfaas_env.evaluation.simulate import ActionWarning, simulate
from prfaas_env.evaluation.standings import standings
from prfaas_env.evaluation.suites import resolve_suite
from prfaas_env.parallel.executor import Serial
from prfaas_env.parallel.local import LocalPool
from prfaas_env.scenario import Scenario, load_scenario, suite_hash

SHORT = "{name: short, extends: paper-stationary-80, horizon_s: 300, control_step_s: 30}"
IDLE = "{name: idle, extends: paper-stationary-80, horizon_s: 60, load: 0}"


@pytest.fixture
def short(tmp_path: Path) -> Path:
    path = tmp_path / "short.yaml"
    path.write_text(SHORT)
    return path


def call(*arguments: str) -> int:
    """``evaluate.py`` with these arguments, in this process; its exit code."""
    with pytest.raises(SystemExit) as exit_:
        run(command_line.main, list(arguments))
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def evaluated(out: Path, scenario: Path, policies: str = "static,naive", seeds: int = 2, *more: str) -> int:
    options = {"--policies": policies, "--scenarios": str(scenario), "--seeds": str(seeds), "--out": str(out)}
    return call(*(part for pair in options.items() for part in pair), "--workers", "1", *more)


def content_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return found


# --- the files ------------------------------------------------------------------------------------------------------


def test_files_follow_the_schema(short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "out"
    assert evaluated(out, short, "static,dual-timescale") == 0
    files = {"results.json", "leaderboard.md", "cells"}
    assert files <= {path.name for path in out.iterdir()} <= {*files, "report.html"}
    content = content_of(out)
    assert content["schema"] == 1
    assert content["version"] == prfaas_env.__version__
    assert content["suite_hash"] == suite_hash([load_scenario(short)])
    assert content["baseline"] == "dual-timescale"
    assert content["command"].startswith("python evaluate.py")
    assert content["deployments"] == {"short": "prfaas-pd"}
    assert content["skipped"] == content["notes"] == []
    assert content["libraries"]["numpy"] == np.__version__
    if (Path(__file__).parents[1] / ".git").exists():
        assert re.fullmatch("[0-9a-f]{40}(-dirty)?", content["git_commit"])
    rows = content["rows"]
    assert [(row["policy"], row["seed"]) for row in rows] == [
        (policy, seed) for seed in (0, 1) for policy in ("static", "dual-timescale")
    ]
    for row in rows:
        assert tuple(row)[: len(ROW_KEYS)] == ROW_KEYS
        assert row["scenario"] == "short"
        assert row["completed"] + row["rejected"] == row["arrived"] > 0
        assert row["in_system"] == 0
        assert 0 < row["ttft_p50_s"] <= row["ttft_p90_s"] <= row["ttft_p99_s"]
    shown = capsys.readouterr().out
    for name in ("static", "dual-timescale", "short"):
        assert name in shown
        assert name in (out / "leaderboard.md").read_text(encoding="utf-8")


def test_policies_meet_the_same_requests_and_seeds_differ(short: Path) -> None:
    runs = {(policy, seed): simulate(short, policy, seed) for policy in ("static", "naive") for seed in (0, 1)}
    for seed in (0, 1):
        for name in ("arrival_s", "input_tokens", "output_tokens"):
            assert np.array_equal(runs["static", seed].requests[name], runs["naive", seed].requests[name])
    assert not np.array_equal(
        runs["static", 0].requests["arrival_s"][:50], runs["static", 1].requests["arrival_s"][:50]
    )
    assert runs["naive", 0].requests["remote"].all()
    assert runs["naive", 0].summary["offload_fraction"] == 1.0


def test_workers_do_not_change_results(short: Path) -> None:
    cells = plan_cells(["static", "least-completion"], [load_scenario(short)], [3], "reference")
    alone = dict(run_cells(cells, Serial()))
    with LocalPool(2, print) as pool:
        for i, pooled in run_cells(cells, pool):
            assert pooled.row == alone[i].row
            assert pooled.row["policy"] == cells[i].policy
            assert np.array_equal(pooled.ttft_s, alone[i].ttft_s, equal_nan=True)
            assert np.array_equal(pooled.timeline, alone[i].timeline)


def test_an_episode_without_requests_gives_nulls(tmp_path: Path) -> None:
    scenario = tmp_path / "idle.yaml"
    scenario.write_text(IDLE)
    assert evaluated(tmp_path, scenario) == 0
    for row in content_of(tmp_path)["rows"]:
        assert row["arrived"] == row["completed"] == row["throughput_rps"] == 0
        assert row["ttft_mean_s"] is row["goodput"] is row["usd_per_million_output_tokens"] is None
    assert "No policy can be ranked" in (tmp_path / "leaderboard.md").read_text(encoding="utf-8")


def test_a_simulation_says_what_it_was(short: Path) -> None:
    found = simulate(short, "static", seed=5)
    assert found.meta["policy"] == "static"
    assert found.meta["seed"] == 5
    assert found.meta["scenario_hash"] == load_scenario(short).hash
    assert len(found.timeline) == 10
    assert found.timeline["time_s"][-1] == 300.0
    assert found.timeline["arrived"].sum() == len(found.requests) == found.summary["arrived"]


def test_any_object_with_predict_is_a_policy(short: Path) -> None:
    class Zero:
        action_mode = "residual"
        starts = 0

        def predict(
            self, observation: np.ndarray, state: Any = None, episode_start: Any = None, deterministic: bool = True
        ) -> tuple[np.ndarray, Any]:
            self.starts += int(episode_start[0])
            assert deterministic
            assert observation.shape == (len(observation),)
            return np.zeros(2, dtype=np.float32), (state or 0) + 1

    policy = Zero()
    zero, windowed = simulate(short, policy, 1), simulate(short, "windowed-closed-form", 1)
    assert policy.starts == 1
    assert zero.meta["policy"] == "Zero"
    assert np.array_equal(zero.requests["ttft_s"], windowed.requests["ttft_s"])
    with pytest.raises(ConfigError, match="policy object: expected an object with predict"):
        simulate(short, object())
    Zero.action_mode = "residul"
    with pytest.raises(ConfigError, match="policy Zero: action_mode: expected one of residual, absolute, price, got"):
        simulate(short, Zero())
    del Zero.action_mode
    with pytest.raises(ConfigError, match="policy Zero: expected an attribute action_mode"):
        simulate(short, Zero())
    with pytest.raises(ConfigError, match="seed: expected a whole number ≥ 0"):
        simulate(short, "static", seed=-1)


# --- a policy in a file ---------------------------------------------------------------------------------------------


CONSTANT = """
import numpy as np
class Constant:
    action_mode = "residual"
    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return np.full(2, {value}), state
"""


def test_the_example_of_the_readme_is_a_policy(short: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "agents" / "README.md").read_text(encoding="utf-8")
    (mine := tmp_path / "mine.py").write_text(re.findall(r"```python\n(.*?)```", page, flags=re.S)[0])
    scenario = load_scenario(short).with_overrides(load=2.0)
    spared, plain = simulate(scenario, mine), simulate(scenario, "windowed-closed-form")
    assert spared.summary["arrived"] == plain.summary["arrived"]
    assert not np.array_equal(spared.timeline["threshold_tokens"], plain.timeline["threshold_tokens"])
    assert evaluated(tmp_path / "out", short, f"dual-timescale,{mine}", 1) == 0
    assert {row["policy"] for row in content_of(tmp_path / "out")["rows"]} == {"dual-timescale", str(mine)}


def test_a_function_in_the_file_makes_the_policy(short: Path, tmp_path: Path) -> None:
    (mine := tmp_path / "mine.py").write_text(
        CONSTANT.format(value=0.0)
        + "class Other(Constant):\n    pass\ndef policy(scenario):\n    assert scenario.name\n    return Other()\n"
    )
    found, windowed = simulate(short, mine), simulate(short, "windowed-closed-form")
    assert np.array_equal(found.requests["ttft_s"], windowed.requests["ttft_s"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "mine.py: no such file"),
        ("def broken(:", "mine.py: cannot be loaded (SyntaxError"),
        (
            "\nimport no_such_module",
            "mine.py: cannot be loaded (ModuleNotFoundError: No module named 'no_such_module', line 2)",
        ),
        ("x = 1", "exactly one class with predict and action_mode; found classes: none"),
        (CONSTANT.format(value=0) + "class Two(Constant):\n    pass", "found classes: Constant, Two"),
        (
            "def policy(scenario):\n    return 1 / 0",
            "mine.py: makes no policy (ZeroDivisionError: division by zero, line 2)",
        ),
        ("def policy(scenario):\n    return None", "mine.py: expected an object with predict, got None"),
        (
            CONSTANT.format(value=0).replace("residual", "price?"),
            "action_mode: expected one of residual, absolute, price",
        ),
    ],
)
def test_a_file_that_is_no_policy_is_one_line(
    text: str | None, expected: str, short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    assert evaluated(tmp_path / "out", short, str(tmp_path / "mine.py")) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert re.fullmatch(r"error: [^\n]+\n", said)


def test_actions_out_of_bounds_are_said_once_and_those_within_rounding_are_not(
    short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine := tmp_path / "mine.py").write_text(CONSTANT.format(value=1.5))
    with pytest.warns(ActionWarning, match=r"mine.py: actions outside \[-1, 1\] were clipped"):
        assert simulate(short, mine).meta["clipped_actions"] == 10
    assert evaluated(tmp_path, short, str(mine)) == 0
    note = f"policy {mine}: actions outside [-1, 1] were clipped"
    assert capsys.readouterr().err.replace("\n", "").count("were clipped") == 1
    assert note in (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    mine.write_text(CONSTANT.format(value=1.0005))
    assert simulate(short, mine).meta["clipped_actions"] == 0
    mine.write_text(CONSTANT.format(value="np.nan"))
    with pytest.raises(ValueError, match="expected 2 finite numbers"):
        simulate(short, mine)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"--policies": "statik"}, "unknown policy 'statik'; did you mean 'static'?"),
        ({"--policies": "no/such/model.zip"}, "no/such/model.zip: no such file"),
        ({"--policies": ","}, "policies: expected at least one"),
        ({"--scenarios": "drift-mixx"}, "unknown scenario 'drift-mixx'; did you mean 'drift-mix'?"),
        ({"--scenarios": "no/such.yaml"}, "no/such.yaml: no such file"),
        ({"--scenarios": ","}, "scenarios: nothing left to run"),
        ({"--seeds": "0"}, "'--seeds'"),
        ({"--seeds": "many"}, "'--seeds'"),
        ({"--engine": "referense"}, "unknown engine 'referense'; did you mean 'reference'?"),
        ({"--cluster": "rey"}, "cluster: expected ray or ray://host:port, got 'rey'"),
        ({"--cluster": "ray://127.0.0.1:1"}, "cluster ray://127.0.0.1:1: cannot be reached"),
        ({"--out": "{file}/out"}, "cannot write into this output folder"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    changed: dict[str, str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    given = {
        "--policies": "static",
        "--scenarios": "drift-mix",
        "--seeds": "1",
        "--out": str(tmp_path / "out"),
        **changed,
    }
    given["--out"] = given["--out"].format(file=tmp_path / "file")
    assert call(*(part for pair in given.items() for part in pair)) == 2
    said = capsys.readouterr()
    assert expected in said.err
    assert re.fullmatch(r"error: [^\n]+\n", said.err)
    assert said.out == ""
    assert not (tmp_path / "out" / "results.json").exists()


def test_an_absent_trace_is_skipped_in_a_group_and_an_error_by_name(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent.yaml"
    absent.write_text("{name: absent, extends: mooncake-conversation, workload: {path: nowhere/to/be/found.jsonl}}")
    monkeypatch.setitem(suites.GROUPS, "some", (str(short), str(absent)))
    suite = resolve_suite(["some"])
    assert [scenario.name for scenario in suite.scenarios] == ["short"]
    assert len(suite.skipped) == 1
    assert "'nowhere/to/be/found.jsonl' not found" in suite.skipped[0]
    assert call("--policies", "static", "--scenarios", str(absent), "--seeds", "1", "--out", str(tmp_path)) == 2
    assert "not found" in capsys.readouterr().err


@pytest.mark.parametrize(("horizon_s", "said"), [(600, True), (60, False)])
def test_a_trace_that_ends_before_the_horizon_is_said(
    horizon_s: int, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"timestamp": 1000 * s, "input_length": 500, "output_length": 20, "hash_ids": [s]} for s in range(120)]
    (tmp_path / "trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (path := tmp_path / "brief.yaml").write_text(
        f"{{extends: mooncake-conversation, horizon_s: {horizon_s}, "
        "workload: {path: trace.jsonl, sha256: null, rate_scale: 1.0}}"
    )
    assert evaluated(tmp_path / "out", path, "static", 1) == 0
    remark = r"no request arrives after 1[12]\d s of the horizon of 600 s"
    notes = content_of(tmp_path / "out")["notes"]
    assert bool(notes) == said
    for text in (*notes, " ".join(capsys.readouterr().err.split()), *describe(str(path)).remarks) if said else ():
        assert re.search(remark, text)
    assert ("**Note**: brief: no request" in (tmp_path / "out" / "leaderboard.md").read_text(encoding="utf-8")) == said


def test_two_scenarios_of_one_name_are_refused_and_one_named_twice_runs_once(tmp_path: Path, short: Path) -> None:
    assert len(resolve_suite([str(short), str(short)]).scenarios) == 1
    other = tmp_path / "other.yaml"
    other.write_text(SHORT.replace("300", "330"))
    message = f"two different scenarios have this name, {short} and {other}: add `name:`"
    with pytest.raises(ConfigError, match=re.escape(message)):
        resolve_suite([str(short), str(other)])


def test_a_file_that_extends_without_a_name_is_called_as_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "busy.yaml").write_text("{extends: paper-stationary-80, horizon_s: 300, load: 0.9}")
    (tmp_path / "busier.yaml").write_text("{extends: busy.yaml, load: 0.95}")
    (tmp_path / "named.yaml").write_text("{extends: busy.yaml, name: mine}")
    files = [str(tmp_path / f"{name}.yaml") for name in ("busy", "busier", "named")]
    suite = resolve_suite(["paper-stationary-80", *files])
    assert [scenario.name for scenario in suite.scenarios] == ["paper-stationary-80", "busy", "busier", "mine"]


def test_every_group_names_shipped_scenarios() -> None:
    for group in suites.GROUPS:
        assert suites.members(group)
        assert all(isinstance(load_scenario(member), Scenario) for member in suites.members(group))


# --- interruption and failure ---------------------------------------------------------------------------------------


def test_interruption_keeps_what_is_finished(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(cells: list[runner.Cell], *more: Any) -> Iterator[tuple[int, CellResult]]:
        yield from islice(run_cells(cells, *more), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "run_cells", interrupted)
    assert evaluated(tmp_path, short) == 130
    content = content_of(tmp_path)
    rows = [(row["policy"], row["seed"]) for row in content["rows"]]
    assert rows[:2] == [("static", 0), ("naive", 0)]  # seed by seed
    assert len(rows) == 3
    assert content["planned"] == 4
    assert "3 of 4, interrupted" in (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert "interrupted: 3 of 4 episodes are kept" in capsys.readouterr().err


def test_a_failing_cell_keeps_the_others_and_says_where(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(scenario: Scenario, policy: str, seed: int, engine: str) -> Any:
        if seed == 1:
            raise ConfigError("broken on purpose")
        return simulate(scenario, policy, seed, engine)

    monkeypatch.setattr(runner, "simulate", failing)
    assert evaluated(tmp_path, short) == 2
    assert re.search("error: (static|naive) on short, seed 1: broken on purpose\n", capsys.readouterr().err)
    assert len(content_of(tmp_path)["rows"]) == 2


# --- standings ------------------------------------------------------------------------------------------------------


def made_up(policies: dict[str, list[float | None]], baseline: str) -> Evaluation:
    """An evaluation of one scenario in which each policy has these mean TTFTs, one a seed; ``None`` was not run."""
    rows = [
        {"policy": policy, "scenario": "short", "seed": seed, "ttft_mean_s": ttft_s, "goodput": 0.5}
        for policy, values in policies.items()
        for seed, ttft_s in enumerate(values)
        if ttft_s is not None
    ]
    scenario = load_scenario("paper-stationary-80").with_overrides(name="short")
    cells = [CellResult(row, np.empty(0)) for row in rows]
    return Evaluation(cells, list(policies), [scenario], range(9), "reference", baseline, "1", planned=len(cells))


def test_standings_pair_by_seed_and_rank_by_ratio() -> None:
    board = standings(made_up({"slow": [2.0, 4.0, 8.0], "base": [None, 2.0, 4.0], "quick": [99.0, 1.0, 2.0]}, "base"))
    assert [standing.policy for standing in board.ranked] == ["quick", "base", "slow"]
    assert board.of("quick").overall.ratio == pytest.approx(0.5)  # its first seed has no pair
    assert board.of("quick").overall.pairs == 2
    assert board.of("quick").means["short"]["ttft_mean_s"] == pytest.approx(34.0)
    assert board.of("base").overall.win_share == 0.5


def test_a_comparison_does_not_depend_on_who_else_takes_part() -> None:
    ttft: dict[str, list[float | None]] = {"base": [2.0, 4.0, 5.0, 1.0], "one": [1.0, 3.0, 6.0, 1.5]}
    alone, among = standings(made_up(ttft, "base")), standings(made_up({"two": [9.0] * 4, **ttft}, "base"))
    assert alone.of("one").overall == among.of("one").overall
