"""``plan`` as a command: the page, the JSON and what is printed, and every refusal in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from prfaas_env.config import ConfigError, to_mapping
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planner.cost import EqualCost, equal_cost
from prfaas_env.planner.inputs import Question, question
from prfaas_env.planner.loaded import Loaded, loaded
from prfaas_env.planner.report import Report, report
from prfaas_env.planner.sensitivity import Sensitivity
from prfaas_env.planner.sweep import sweep
from prfaas_env.theory.plan import plan
from prfaas_env.workload.lengths import Constant, NominalWorkload
from tests.browser import carried
from tests.commands import Ended, ended
from tests.questions import OWN, PAPER, trace_file


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    return lambda *arguments: ended(capsys, "plan", *arguments)


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


# ---- what it says


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


def test_a_break_even_below_nothing_is_none(call: Callable[..., Ended]) -> None:
    assert re.search(r"\nBreak-even with homogeneous PD: \d+\.\d\d USD/h", call("--no-simulation").out)
    dear = call("--no-simulation", "--prices", "egress=0.05").out
    assert "\nNo break-even with homogeneous PD: remote instances would not be worth it" in dear


def test_rows_left_out_of_a_trace_and_its_few_requests_are_said_once(
    call: Callable[..., Ended], tmp_path: Path
) -> None:
    path = trace_file(tmp_path, np.array([0, *range(1000, 100_000, 1000)]))
    ended = call("--trace", path, "--columns", OWN, "--no-simulation", "--json")
    assert (ended.code, ended.err) == (0, "")
    left_out, few = json.loads(ended.out)["notes"][:2]
    assert left_out.startswith(f"{path}: 1 of 100 rows left out")
    assert few == f"{path}: 99 requests only: any share of them, and so the plan, is ± 10% at best"


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


# ---- what it is given


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


# ---- bad arguments


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
