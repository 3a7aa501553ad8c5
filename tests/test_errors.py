"""How commands end when their surroundings fail them: one line, a code that is not 0, never a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import click
import pytest

from prfaas_env.cli import errors
from prfaas_env.config import ConfigError
from prfaas_env.evaluation.results import prepare_folder, write_atomically
from prfaas_env.policies import load_policy
from prfaas_env.resources import locate
from prfaas_env.scenario import load_scenario
from prfaas_env.workload.traces import find_trace

ROOT = Path(__file__).resolve().parent.parent
PLAN = f"'{sys.executable}' -m prfaas_env plan"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("redirected", "message"),
    [(">&-", "error: standard output is closed\n"), (">/dev/full", "error: output: No space left on device\n")],
)
def test_output_that_cannot_be_written(redirected: str, message: str) -> None:
    done = shell(f"{PLAN} {redirected}")
    assert (done.returncode, done.stderr) == (errors.FAILED, message)


def test_an_ascii_terminal_gets_escapes() -> None:
    done = shell(PLAN, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u039b_max" in done.stdout


def test_arguments_that_are_no_text_are_refused_in_one_line() -> None:
    done = shell(PLAN + r" --workload $'\xff.yaml'")
    assert done.returncode == errors.BAD_INPUT
    assert re.fullmatch(r"error: [^\n]+: no such file\n", done.stderr)


@pytest.mark.parametrize("name", ["~no-such-user/x", "x" * 300, "./" + "x" * 300])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match=r"no such file|unknown"):
        locate("scenarios", f"{name}.yaml")
    with pytest.raises(ConfigError, match=r"no such file|unknown"):
        locate("scenarios", name)
    with pytest.raises(ConfigError, match="no such file"):
        find_trace(f"{name}.csv")
    with pytest.raises(ConfigError, match="no such file"):
        load_policy(f"{name}.zip", load_scenario("paper-stationary"))


def test_a_folder_where_a_file_is_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "results.json").mkdir()
    with pytest.raises(ConfigError, match=r"results.json: is a folder"):
        prepare_folder(tmp_path, ("results.json",))


def test_what_is_no_text_is_written_all_the_same(tmp_path: Path) -> None:
    write_atomically(tmp_path / "page", "evaluate \udcff")
    assert (tmp_path / "page").read_text(encoding="utf-8") == "evaluate ?"


def test_a_worker_that_dies_and_sigterm_end_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @click.argument("how")
    def ending(how: str) -> None:
        if how == "broken":
            raise BrokenExecutor
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10.0)

    for how, code in (("broken", errors.FAILED), ("terminated", errors.TERMINATED)):
        with pytest.raises(SystemExit) as ended:
            errors.run(ending, [how])
        assert ended.value.code == code
    assert capsys.readouterr().err == "error: a worker process ended abruptly (out of memory?)\n"
