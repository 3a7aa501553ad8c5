"""``plan`` and ``list`` as a user meets them: figures, JSON, and bad input as one line with exit code 2."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import prfaas_env
from prfaas_env.cli.app import COMMANDS
from prfaas_env.cli.errors import run
from prfaas_env.config import ConfigError
from prfaas_env.resources import folder
from prfaas_env.theory.plan import Plan
from tests.commands import Ended, ended


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def quick(*arguments: str) -> Ended:
        # What a simulation adds is tested in test_planner_command.py.
        return ended(capsys, *arguments, *(["--no-simulation"] if arguments[:1] == ("plan",) else []))

    return quick


def shipped(kind: str, name: str) -> dict[str, Any]:
    plain = yaml.safe_load((folder(kind) / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(plain, dict)
    return plain


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Any], str]:
    def write(name: str, plain: Any) -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump(plain), encoding="utf-8")
        return str(path)

    return write


def test_plan_prints_table_6(call: Callable[..., Ended]) -> None:
    ended = call("plan")
    assert (ended.code, ended.err) == (0, "")
    for shown in ("prfaas-pd", "3.242 req/s", "19,606 tokens", "49.1%", "12.3 of 100 Gbps", "mean 2.26 s, P90 3.46 s"):
        assert shown in ended.out
    assert ended.out.count("binds") == 2  # Eq. 7: both prefill pools, at the optimum


@pytest.mark.parametrize("deployment", ["prfaas-pd", "homogeneous-pd", "naive-heterogeneous-pd"])
def test_plan_json_has_the_published_keys(call: Callable[..., Ended], deployment: str) -> None:
    found = json.loads(call("plan", "--deployment", deployment, "--json").out)
    assert set(Plan.__dataclass_fields__) <= set(found)
    assert found["deployment"] == deployment
    absent = {"homogeneous-pd": "n_prfaas", "naive-heterogeneous-pd": "n_prefill"}.get(deployment)
    assert [key for key in ("n_prfaas", "n_prefill") if found[key] is None] == ([absent] if absent else [])


def test_plan_takes_a_scenarios_own_deployment_unless_one_is_named(
    call: Callable[..., Ended], written: Callable[[str, Any], str]
) -> None:
    mine = written("mine.yaml", {"extends": "drift-mix", "name": "mine", "deployment": "homogeneous-pd"})
    assert call("plan", "-w", mine).out.startswith(f"{mine} on its own deployment homogeneous-pd (")
    assert json.loads(call("plan", "-w", mine, "--json").out)["deployment"] == "homogeneous-pd"
    assert call("plan", "-w", mine, "-d", "prfaas-pd").out.startswith(f"prfaas-pd on {mine} (")
    assert json.loads(call("plan", "-d", mine, "--json").out)["deployment"] == "homogeneous-pd"
    only_extends = written("again.yaml", {"extends": "drift-mix", "name": "again"})
    assert json.loads(call("plan", "-d", only_extends, "--json").out)["deployment"] == "prfaas-pd"


def test_plan_takes_names_files_and_records(written: Callable[[str, Any], str]) -> None:
    paper = prfaas_env.plan()
    scenario = prfaas_env.load_scenario("paper-stationary")
    for arguments in (
        ("prfaas-pd", "paper-stationary"),
        ("prfaas-pd",),
        (scenario.deployment, scenario),
        (scenario,),
        (Path(written("mine.yaml", shipped("deployments", "prfaas-pd"))), scenario.nominal),
    ):
        assert prfaas_env.plan(*arguments) == paper
    homogeneous = prfaas_env.plan("homogeneous-pd", n_prefill=8)
    assert (homogeneous.n_prefill, homogeneous.n_decode) == (8, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prfas-pd",), "unknown deployment 'prfas-pd'; did you mean 'prfaas-pd'?"),
        (("prfaas-pd", "drift-mx"), "unknown scenario 'drift-mx'; did you mean 'drift-mix'?"),
        ((3,), "deployment: expected a name, a path, a Deployment or a Scenario, got int"),
        (("prfaas-pd", 3), "workload: states no laws"),
    ],
)
def test_plan_refuses_what_it_cannot_take(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        prfaas_env.plan(*arguments)


def test_curves_show_whole_tokens(call: Callable[..., Ended]) -> None:
    shown = call("plan", "--curves").out
    assert "│ 10,454           │ 2.712 " in shown


def test_plan_with_files_of_ones_own(call: Callable[..., Ended], written: Callable[[str, Any], str]) -> None:
    profile = shipped("hardware_profiles", "hybrid-1t-8xh20")
    written("mine.yaml", profile | {"name": "mine"})
    deployment = shipped("deployments", "homogeneous-pd") | {
        "local": {"profile": "mine.yaml", "instances": 12, "prefill": 9}
    }
    workload = {
        "lengths": {"kind": "constant", "tokens": 8192},
        "output_tokens": {"kind": "constant", "tokens": 1024},
    }
    found = json.loads(
        call("plan", "-d", written("own.yaml", deployment), "-w", written("w.yaml", workload), "--json").out
    )
    assert found["theta_pd_p_rps"] == pytest.approx(found["n_prefill"] / 1.559)  # T_prefill(8K) of the file
    rates = [min(n / 1.559, (12 - n) * 0.78125) for n in range(1, 12)]
    assert found["lambda_max_rps"] == pytest.approx(max(rates))


def test_plan_curves_peak_at_the_plan(call: Callable[..., Ended]) -> None:
    found = json.loads(call("plan", "--curves", "--json").out)
    rates = [row["lambda_max_rps"] for row in found["by_split"]]
    assert max(rates) == found["lambda_max_rps"]
    assert rates.index(max(rates)) + 1 == found["n_prefill"]
    by_threshold = [row["lambda_max_rps"] for row in found["by_threshold"]]
    assert 0.95 * found["lambda_max_rps"] < max(by_threshold) <= found["lambda_max_rps"]
    assert "by threshold" in call("plan", "--curves").out
    assert "by_threshold" not in json.loads(call("plan", "-d", "homogeneous-pd", "--curves", "--json").out)


def test_plan_at_a_given_setting(call: Callable[..., Ended]) -> None:
    found = json.loads(call("plan", "--threshold", "19400", "--n-prefill", "3", "--json").out)
    assert found["lambda_max_rps"] == pytest.approx(3.228, abs=5e-4)


def test_list(call: Callable[..., Ended]) -> None:
    found = json.loads(call("list", "--json").out)
    assert set(found) == {"deployments", "profiles", "scenarios", "policies"}
    assert {"prfaas-pd", "homogeneous-pd", "naive-heterogeneous-pd", "same-dc-heterogeneous"} <= set(
        found["deployments"]
    )
    assert {"hybrid-1t-8xh200", "hybrid-1t-8xh20"} <= set(found["profiles"])
    assert {"paper-stationary", "drift-mix"} <= set(found["scenarios"])
    assert {"static", "closed-form", "dual-timescale"} <= set(found["policies"])
    for kind, names in found.items():
        assert json.loads(call("list", kind, "--json").out) == {kind: names}
        shown = call("list", kind)
        assert shown.code == 0
        assert all(name in shown.out for name in names)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help(call: Callable[..., Ended], command: list[str]) -> None:
    ended = call(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Usage:")


# --- bad input -------------------------------------------------

BAD_PROFILES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "decreasing prefill time": (
        lambda p: p["prefill"].update(times_s=[0.9, 0.8, 4.8, 23.4]),
        "prefill.times_s: expected a prefill time that increases with length",
    ),
    "missing key": (lambda p: p["decode"].pop("slots"), "decode.slots: missing key (a whole number ≥ 1 and ≤ 65536)"),
    "misspelt key": (
        lambda p: p.update(contxt_limit_tokens=p.pop("context_limit_tokens")),
        "contxt_limit_tokens: unknown key; did you mean 'context_limit_tokens'?",
    ),
    "NaN": (lambda p: p["kv"].update(fixed_mib=float("nan")), "kv.fixed_mib: expected a number, got nan"),
    "no provenance": (lambda p: p["provenance"].pop("kv"), "provenance.kv: missing key"),
    "unknown kind of provenance": (
        lambda p: p["provenance"]["kv"].update(how="guessed"),
        "provenance.kv.how: expected one of 'measured', 'derived', 'calibrated', 'assumed', got 'guessed'",
    ),
}


@pytest.mark.parametrize("case", BAD_PROFILES)
def test_bad_profile(call: Callable[..., Ended], written: Callable[[str, Any], str], case: str) -> None:
    spoil, message = BAD_PROFILES[case]
    profile = shipped("hardware_profiles", "hybrid-1t-8xh20")
    spoil(profile)
    path = written("profile.yaml", profile)
    deployment = shipped("deployments", "homogeneous-pd")
    deployment["local"]["profile"] = path
    refused(call("plan", "--deployment", written("deployment.yaml", deployment)), f"{path}: {message}")


BAD_DEPLOYMENTS: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "no decode node": (
        "prfaas-pd",
        lambda d: d["local"].update(prefill=8),
        "local.prefill: expected fewer than the 8 instances, so that one decodes, got 8",
    ),
    "prefill nowhere": (
        "homogeneous-pd",
        lambda d: d["local"].update(prefill=0),
        "local.prefill: expected at least 1: no instance could prefill",
    ),
    "remote without a link": ("prfaas-pd", lambda d: d.pop("link"), "link: missing key"),
    "misspelt key": (
        "prfaas-pd",
        lambda d: d.update(threshold=1),
        "threshold: unknown key; did you mean 'threshold_tokens'?",
    ),
    "NaN": (
        "prfaas-pd",
        lambda d: d["link"].update(capacity_gbps=float("nan")),
        "link.capacity_gbps: expected a number, got nan",
    ),
    "dead link": (
        "prfaas-pd",
        lambda d: d["link"].update(capacity_gbps=0),
        "link.capacity_gbps: expected a number > 0, got 0",
    ),
}


@pytest.mark.parametrize("case", BAD_DEPLOYMENTS)
def test_bad_deployment(call: Callable[..., Ended], written: Callable[[str, Any], str], case: str) -> None:
    base, spoil, message = BAD_DEPLOYMENTS[case]
    deployment = shipped("deployments", base)
    spoil(deployment)
    path = written("deployment.yaml", deployment)
    refused(call("plan", "--deployment", path), f"{path}: {message}")


def test_misspelt_profile_in_a_deployment(call: Callable[..., Ended], written: Callable[[str, Any], str]) -> None:
    deployment = shipped("deployments", "homogeneous-pd")
    deployment["local"]["profile"] = "hybrid-1t-8xh21"
    ended = call("plan", "--deployment", written("deployment.yaml", deployment))
    refused(ended, "unknown profile 'hybrid-1t-8xh21'; did you mean 'hybrid-1t-8xh20'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "-d", "prfas-pd"], "unknown deployment 'prfas-pd'; did you mean 'prfaas-pd'?"),
        (["plan", "-w", "paper-stationry"], "unknown scenario 'paper-stationry'; did you mean 'paper-stationary"),
        (["plan", "-d", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["plan", "--n-prefill", "8"], "n_prefill: expected 1 to 7 for deployment 'prfaas-pd', got 8"),
        (["plan", "--threshold", "nan"], "threshold_tokens: expected a number ≥ 0, got nan"),
        (["plan", "--threshold", "many"], "Invalid value for '--threshold'"),
        (["plan", "--jsn"], "No such option '--jsn'. Did you mean '--json'?"),
        (["pln"], "unknown command 'pln'; did you mean 'plan'?"),
        (["list", "deployment"], "unknown kind 'deployment'; did you mean 'deployments'?"),
        (["list", "flavours"], "unknown kind 'flavours'; valid: deployments, policies, profiles, scenarios"),
    ],
)
def test_bad_arguments(call: Callable[..., Ended], arguments: list[str], message: str) -> None:
    refused(call(*arguments), message)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"lengths": {"kind": "constant", "tokens": 100}}, "output_tokens: missing key"),
        (
            {"lengths": {"kind": "log-normal"}, "output_tokens": {"kind": "constant", "tokens": 1}},
            "lengths.kind: unknown kind 'log-normal'; did you mean 'truncated-log-normal'?",
        ),
        (
            {
                "lengths": {"kind": "empirical", "values_tokens": [10, float("nan")]},
                "output_tokens": {"kind": "constant", "tokens": 1},
            },
            "lengths.values_tokens[1]: expected a number, got nan",
        ),
    ],
)
def test_bad_workload(
    call: Callable[..., Ended], written: Callable[[str, Any], str], plain: dict[str, Any], message: str
) -> None:
    path = written("workload.yaml", plain)
    refused(call("plan", "--workload", path), f"{path}: {message}")


def refused(ended: Ended, message: str) -> None:
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith(f"error: {message}")
    assert ended.err.count("\n") == 1


def test_a_folder_is_called_a_folder(call: Callable[..., Ended], tmp_path: Path) -> None:
    for option in ("-d", "-w"):
        refused(call("plan", option, str(tmp_path)), f"{tmp_path}: is a folder, expected a YAML file")


def test_without_a_command_the_help_is_shown(call: Callable[..., Ended]) -> None:
    ended = call()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: ")
    assert all(f"\n  {name} " in ended.err for name in COMMANDS)


def test_messages_speak_of_files_not_of_classes(call: Callable[..., Ended], written: Callable[[str, Any], str]) -> None:
    mine = written("mine.yaml", {"name": "mine", "deployment": "prfaas-pd", "workload": "x"})
    refused(call("plan", "-w", mine), f"{mine}: nominal: missing key (a mapping with lengths, output_tokens)")
    profile = shipped("hardware_profiles", "hybrid-1t-8xh20")
    profile["kv"]["fixed_mib"] = 1.0
    written("other.yaml", profile)
    deployment = shipped("deployments", "prfaas-pd")
    deployment["local"]["profile"] = "other.yaml"
    path = written("deployment.yaml", deployment)
    refused(call("plan", "-d", path), f"{path}: remote.profile: its kv is {{'fixed_mib': 173.906, 'bytes_per_token'")


def test_interrupt_ends_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as exit_:
        run(interrupted, [])
    assert exit_.value.code == 130
    assert capsys.readouterr().err.strip().splitlines() == ["interrupted"]


def test_a_defect_is_not_dressed_up_as_bad_input() -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(broken, [])
    assert not issubclass(ZeroDivisionError, ConfigError)


def test_the_module_runs_as_a_process_and_survives_a_closed_pipe() -> None:
    python = [sys.executable, "-m", "prfaas_env"]
    bad = subprocess.run([*python, "plan", "-d", "prfas-pd"], capture_output=True, text=True, timeout=60, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: unknown deployment 'prfas-pd'; did you mean 'prfaas-pd'?\n"
    with subprocess.Popen(
        [*python, "plan", "--json", "--no-simulation"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as piped:
        assert piped.stdout is not None
        assert piped.stderr is not None
        piped.stdout.close()
        assert b"Traceback" not in piped.stderr.read()
