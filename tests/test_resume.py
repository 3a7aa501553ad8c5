"""An evaluation that is killed goes on where it stopped, and ends with the same bytes as one that was not."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prfaas_env.config import ConfigError
from prfaas_env.evaluation import journal, runner
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.evaluation.fingerprint import policy_hash
from prfaas_env.evaluation.runner import plan_cells, run_cell
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.scenario import load_scenario

ROOT = Path(__file__).resolve().parent.parent
SHORT = "{name: short, extends: paper-stationary-80, horizon_s: 300, control_step_s: 30}"
# A policy whose episode takes its time, acts out of bounds (so that there is a note), and is made anew for each.
SLOW = """
import time
import numpy as np
class Slow:
    action_mode = "residual"
    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        time.sleep({step_s})
        return np.full(2, 1.5), state
"""


@pytest.fixture
def short(tmp_path: Path) -> Path:
    (path := tmp_path / "short.yaml").write_text(SHORT)
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, which nobody edits while an evaluation is interrupted."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("prfaas_env", "agents", "hardware_profiles"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy2(ROOT / "evaluate.py", copy)
    return copy


@contextmanager
def running(
    project: Path, out: Path, scenario: Path, policies: str, seeds: int, workers: int
) -> Iterator[subprocess.Popen[bytes]]:
    """``evaluate.py`` as a process group of its own, whatever is left of which is killed at the end.

    With the reference engine: the compiled one would be compiled anew for the copy.
    """
    arguments = {"--policies": policies, "--scenarios": scenario, "--seeds": seeds, "--out": out}
    arguments |= {"--engine": "reference", "--workers": workers}
    command = [sys.executable, "evaluate.py", *(str(part) for pair in arguments.items() for part in pair)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=project, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def kept(out: Path) -> dict[str, int]:
    """The finished cells, with the time at which each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.npz")}


def wait_for_more_than(known: int, out: Path, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + 60.0
    while len(kept(out)) <= known and process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.005)


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(
    kills: int, project: Path, short: Path, tmp_path: Path
) -> None:
    chance = random.Random(kills)
    (slow := tmp_path / "slow.py").write_text(SLOW.format(step_s=0.02))
    short.write_text(SHORT.replace("300", "120"))
    policies, seeds = f"static,{slow}", 3 * kills
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with running(project, whole, short, policies, seeds, 2) as process:
        assert process.wait() == 0
    assert len(kept(whole)) == 2 * seeds
    for kill in range(kills):
        before = kept(broken)
        with running(project, broken, short, policies, seeds, 1 + kill % 2) as process:
            if kill:  # the first is killed before it has anything
                wait_for_more_than(len(before), broken, process)
            time.sleep(chance.uniform(0.0, 0.2))
            process.kill()  # the parent alone: its workers must see to themselves
            assert process.wait() == -signal.SIGKILL
        assert before.items() <= kept(broken).items()  # nothing is lost, nothing done again
        assert not (broken / "results.json").exists()
    assert len(before) >= kills - 2
    with running(project, broken, short, policies, seeds, 2) as process:
        assert process.wait() == 0
    assert before.items() <= kept(broken).items()
    assert kept(broken).keys() == kept(whole).keys()
    files = {path.name for path in whole.iterdir() if path.is_file()}
    assert {"results.json", "leaderboard.md"} <= files
    for name in files:
        assert (broken / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_a_cell_however_long(workers: int, project: Path, short: Path, tmp_path: Path) -> None:
    (slow := tmp_path / "slow.py").write_text(SLOW.format(step_s=600))
    out = tmp_path / "out"
    with running(project, out, short, f"{slow},static", 1, workers) as process:
        wait_for_more_than(0, out, process)
        time.sleep(0.3)
        begin_s = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 130
        assert time.monotonic() - begin_s < 10.0
    content = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [row["policy"] for row in content["rows"]] == ["static"]
    assert content["planned"] == 2


# --- what is run again ----------------------------------------------------------------------------------------------


class Counted:
    """Evaluations in this process, each of which says which cells it has run."""

    def __init__(self, out: Path, scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out, self.scenario, self.ran = out, scenario, list[tuple[str, int]]()

        def counting(scenario: Any, policy: str, seed: int, engine: str) -> Any:
            self.ran.append((policy, seed))
            return simulate(scenario, policy, seed, engine)

        monkeypatch.setattr(runner, "simulate", counting)

    def __call__(self, policies: list[str], seeds: int, **more: Any) -> set[tuple[str, int]]:
        self.ran.clear()
        options: Mapping[str, Any] = {"engine": "compiled", **more}
        found = evaluate(policies, [str(self.scenario)], range(seeds), self.out, **options)
        assert len(found.cells) == len(policies) * seeds
        assert len(self.ran) == len(set(self.ran))
        return set(self.ran)


@pytest.fixture
def counted(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(tmp_path / "out", short, monkeypatch)


def test_policies_and_seeds_are_added_and_the_rest_is_there(counted: Counted) -> None:
    assert counted(["static"], 2) == {("static", 0), ("static", 1)}
    assert counted(["static", "naive"], 2) == {("naive", 0), ("naive", 1)}
    assert counted(["naive", "static"], 3) == {("naive", 2), ("static", 2)}
    assert counted(["static"], 1) == set()
    assert counted(["static"], 1, fresh=True) == {("static", 0)}
    assert counted(["static"], 2) == {("static", 1)}  # what was fresh is kept, what was before it is gone


def test_what_has_changed_is_run_again(
    counted: Counted, short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine := tmp_path / "mine.py").write_text(SLOW.format(step_s=0))
    policies, own = ["static", str(mine)], {(str(mine), 0)}
    everything = {("static", 0), *own}
    assert counted(policies, 1) == everything
    assert counted(policies, 1, engine="reference") == everything
    mine.write_text(SLOW.format(step_s=0).replace("1.5", "0.5"))
    assert counted(policies, 1) == own
    short.write_text(SHORT.replace("300", "330"))
    assert counted(policies, 1) == everything
    monkeypatch.setattr(journal, "code_hash", lambda: "another")
    assert counted(policies, 1) == everything
    monkeypatch.undo()
    short.write_text(SHORT)
    mine.write_text(SLOW.format(step_s=0))
    assert Counted(counted.out, short, monkeypatch)(policies, 1) == set()  # all as at first, and still there


def test_what_is_kept_of_a_cell_comes_back_as_it_was(short: Path, tmp_path: Path) -> None:
    (drawn,) = plan_cells(["static"], [load_scenario(short)], [0], "reference")
    kept, cells = run_cell(drawn), journal.Journal(tmp_path / "cells", {"static": "0"})
    cells.add(drawn, kept)
    found = cells.find(drawn)
    assert found is not None
    assert len(found.slowest) > 0
    for one in fields(kept):
        before, after = getattr(kept, one.name), getattr(found, one.name)
        assert (before.tobytes() == after.tobytes()) if isinstance(before, np.ndarray) else before == after


def test_a_damaged_file_is_run_again(counted: Counted) -> None:
    assert counted(["static"], 2) == {("static", 0), ("static", 1)}
    first, second = (counted.out / "cells" / name for name in sorted(kept(counted.out)))
    whole = first.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"PK", b"KP"), second.read_bytes()):
        first.write_bytes(damaged)
        assert len(counted(["static"], 2)) == 1
        assert first.read_bytes() != damaged


def test_a_model_and_its_card_are_its_hash(tmp_path: Path, short: Path) -> None:
    scenario = load_scenario(short)
    model, card = tmp_path / "model.zip", tmp_path / "model.json"
    model.write_bytes(b"one")
    seen = {policy_hash(str(model), scenario)}
    for path, content in ((card, b"{}"), (card, b"{ }"), (model, b"other")):
        path.write_bytes(content)
        seen.add(policy_hash(str(model), scenario))
    assert len(seen) == 4
    assert policy_hash("static", scenario) != policy_hash("learned", scenario)


def test_other_code_in_a_worker_is_refused(short: Path) -> None:
    cell = plan_cells(["static"], [load_scenario(short)], [0], "compiled")[0]
    with pytest.raises(ConfigError, match=r"runs code [0-9a-f]{16} of prfaas_env or its libraries, expected 0123"):
        run_cell(cell, code="0123")
