"""Scenarios: the shipped ones, what an episode draws, and how files extend and refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prfaas_env.config import ConfigError, to_mapping
from prfaas_env.deployment import load_deployment
from prfaas_env.resources import names
from prfaas_env.scenario import Draw, Scenario, load_scenario, suite, suite_hash
from prfaas_env.theory.plan import plan
from prfaas_env.workload.lengths import NominalWorkload, TruncatedLogNormal
from prfaas_env.workload.traces import TraceWorkload
from prfaas_env.workload.workload import SyntheticWorkload

SAMPLE = Path(__file__).parent / "data" / "mooncake_sample.jsonl"


LINKS = ("link-shared", "link-collapse", "link-outage")


@pytest.fixture(scope="module")
def paper() -> Scenario:
    return load_scenario("paper-stationary")


def same(a: Draw, b: Draw) -> bool:
    streams = all(
        np.array_equal(getattr(a.stream, name), getattr(b.stream, name))
        for name in ("arrival_s", "input_tokens", "output_tokens", "service_class", "block_hashes")
    )
    return streams and a.clock == b.clock and a.rate_rps == b.rate_rps


# ---- shipped


def test_the_shipped_scenarios() -> None:
    assert {f"paper-stationary{tail}" for tail in ("", "-50", "-80", "-95")} < set(names("scenarios"))
    assert {"drift-mix", "mooncake-like", "mooncake-conversation", "prefix-skew"} < set(names("scenarios"))
    assert {"link-shared", "link-collapse", "link-outage", "node-failures", "multi-tenant"} < set(names("scenarios"))


@pytest.mark.parametrize("name", names("scenarios"))
def test_every_scenario_draws_what_its_seed_says(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    if reason := scenario.workload.missing():
        pytest.skip(reason)
    a, again, other = scenario.draw(3), scenario.draw(3), scenario.draw(4)
    assert same(a, again)
    assert not same(a, other)
    assert 1000 < len(a.stream) < 100_000
    assert a.stream.arrival_s[-1] < scenario.horizon_s
    assert a.capacity is not None
    assert again.capacity is not None
    assert np.array_equal(a.capacity.gbps, again.capacity.gbps)
    assert np.array_equal(a.faults.times_s, again.faults.times_s)


def test_an_environments_generator_draws_the_same_as_its_seed(paper: Scenario) -> None:
    assert same(paper.draw(np.random.default_rng(5)), paper.draw(5))
    generator = np.random.default_rng(5)
    first, second = paper.draw(generator), paper.draw(generator)
    assert not same(first, second)  # consecutive resets without a seed differ


def test_paper_loads(paper: Scenario) -> None:
    assert paper.lambda_max_rps == pytest.approx(3.24, rel=0.005)  # paper Table 6
    loads = {round(rate / paper.lambda_max_rps, 6) for seed in range(40) if (rate := paper.draw(seed).rate_rps)}
    assert loads == {0.5, 0.8, 0.95}
    for share in (50, 80, 95):
        fixed = load_scenario(f"paper-stationary-{share}")
        assert fixed.draw(0).rate_rps == pytest.approx(share / 100 * fixed.lambda_max_rps)
        assert fixed.workload == paper.workload


def test_drift_mix_is_loaded_as_it_says() -> None:
    """Mean load .65 of what the mix of the moment sustains; above 1 in a tenth of the windows, half of the episodes."""
    scenario = load_scenario("drift-mix")
    workload, law = scenario.workload, scenario.nominal.lengths
    assert isinstance(workload, SyntheticWorkload)
    assert workload.drift is not None
    assert isinstance(law, TruncatedLogNormal)
    shares = np.linspace(0.2, 0.8, 7)
    sustained = []
    for mu in law.mu_for(shares, 19_400.0):
        nominal = NominalWorkload(replace(law, mu=float(mu)), scenario.nominal.output_tokens)
        sustained.append(plan(scenario.deployment, nominal).lambda_max_rps)
    loads, spans = [], []
    for seed in range(80):
        draw = scenario.draw(seed)
        # Five minutes average out the sampling noise and still see a short overload.
        per_window = np.histogram(draw.stream.arrival_s, bins=12, range=(0.0, 3600.0))[0] / 300.0
        window = (draw.stream.arrival_s // 300.0).astype(int)
        long = np.bincount(window, draw.stream.input_tokens > 19_400, minlength=12) / np.bincount(window, minlength=12)
        loads.append(per_window / np.interp(long, shares, sustained))
        spans.append(np.ptp(long))
    assert np.mean(loads) == pytest.approx(0.65, abs=0.03)
    over = (np.array(loads) > 1.0).mean(axis=1)
    assert (over > 0).mean() == pytest.approx(0.5, abs=0.12)
    assert over.mean() == pytest.approx(0.095, abs=0.025)
    assert np.median(spans) > 0.35  # the mix really moves within an episode


def test_mooncake_like_is_loaded_as_it_says() -> None:
    scenario = load_scenario("mooncake-like")
    assert scenario.load == 0.8
    assert scenario.draw(0).rate_rps == pytest.approx(2.0 * 3.4, rel=0.01)


def test_links_are_as_scarce_as_they_say() -> None:
    """What is left for KV: 20 Gbps less .2 to .6; collapses to a twentieth; a link that is down for minutes."""
    seeds = range(60)
    scenarios = {name: load_scenario(name).with_overrides(rate_rps=0.0) for name in LINKS}
    draws = {name: [scenario.draw(seed).capacity for seed in seeds] for name, scenario in scenarios.items()}
    lows = {name: np.array([link.gbps.min() for link in drawn if link]) for name, drawn in draws.items()}
    assert 4.0 < lows["link-shared"].min() < np.median(lows["link-shared"]) < 8.0
    assert 0.6 < (lows["link-collapse"] < 12.0).mean() < 0.95
    assert (lows["link-collapse"] > 0.0).all()
    assert 0.75 < (lows["link-outage"] == 0.0).mean() < 1.0


def test_nodes_fail_as_often_as_said() -> None:
    scenario = load_scenario("node-failures")
    failures = [(~scenario.draw(seed).faults.up).sum() for seed in range(100)]
    assert np.mean(failures) == pytest.approx(4.0, rel=0.15)  # one a quarter of an hour, and those that begin down


def test_mooncake_conversation_is_loaded_as_it_says() -> None:
    scenario = load_scenario("mooncake-conversation")
    if reason := scenario.workload.missing():
        pytest.skip(reason)
    stream = scenario.draw(0).stream
    assert len(stream) / stream.arrival_s[-1] / scenario.lambda_max_rps == pytest.approx(0.70, abs=0.01)
    assert np.quantile(stream.input_tokens, [0.5, 0.9]) == pytest.approx([15_200, 60_200], rel=0.01)
    assert stream.input_tokens.max() == 131_072


@pytest.mark.parametrize("name", names("scenarios"))
def test_deployments_start_at_the_operators_plan(name: str) -> None:
    scenario = load_scenario(name)
    best = plan(scenario.deployment, scenario.nominal)
    assert scenario.deployment.local.prefill == best.n_prefill
    assert scenario.deployment.threshold_tokens == pytest.approx(best.threshold_tokens, rel=0.02)


# ---- what is random, and what is not


def test_link_and_load_leave_the_requests_alone(paper: Scenario) -> None:
    plain = paper.with_overrides(load=0.8).draw(1)
    noisy = paper.with_overrides(load=0.8, link={"capacity": {"kind": "mean-reverting"}}).draw(1)
    assert same(plain, noisy)
    assert noisy.capacity is not None
    assert len(noisy.capacity.gbps) > 1
    listed = paper.with_overrides(load=[0.8]).draw(1)
    assert same(plain, listed)


def test_load_range(paper: Scenario) -> None:
    scenario = paper.with_overrides(load={"low": 0.6, "high": 0.9}, horizon_s=60)
    loads = np.array([(scenario.draw(seed).rate_rps or 0.0) / scenario.lambda_max_rps for seed in range(300)])
    assert 0.6 <= loads.min() < 0.61
    assert 0.89 < loads.max() <= 0.9
    assert loads.mean() == pytest.approx(0.75, abs=0.02)


def test_random_start_of_day(paper: Scenario) -> None:
    anywhen = paper.with_overrides(clock={"start_h": None})
    starts = np.array([anywhen.draw(seed).clock.start_h for seed in range(200)])
    assert starts.min() < 1.0
    assert starts.max() > 23.0
    assert paper.draw(0).clock.start_h == 0.0


def test_no_remote_cluster_no_link(paper: Scenario) -> None:
    alone = paper.with_overrides(deployment="homogeneous-pd", load=0.8)
    assert alone.draw(0).capacity is None
    assert alone.lambda_max_rps == pytest.approx(2.09, abs=0.03)


# ---- files, overrides, hashes


def test_extending_a_scenario_and_its_deployment(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "extends: drift-mix\nname: mine\nrate_rps: 2.5\n"
        "deployment: {link: {capacity_gbps: 20}, local: {cache: {capacity_gib: 64}}}\n"
        "workload: {drift: null, lengths: {mu: 9.0}}\n"
    )
    mine, base = load_scenario(path), load_scenario("drift-mix")
    assert mine.draw(0).rate_rps == 2.5
    assert mine.load is None
    assert mine.deployment.link is not None
    assert mine.deployment.link.capacity_gbps == 20.0
    assert mine.deployment.local.cache.capacity_gib == 64.0
    assert mine.deployment.local.profile == base.deployment.local.profile
    assert isinstance(mine.workload, SyntheticWorkload)
    assert mine.workload.drift is None
    assert mine.nominal.lengths.mean() < base.nominal.lengths.mean()  # taken from the changed law
    again = tmp_path / "again.yaml"
    again.write_text("extends: mine.yaml\nname: again\nload: 0.5\n")
    assert load_scenario(again).rate_rps is None


def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "trace.jsonl").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "deep" / "base.yaml").write_text(
        "name: base\ndeployment: prfaas-pd\nhorizon_s: 600\n"
        "nominal: {lengths: {kind: constant, tokens: 4000}, output_tokens: {kind: constant, tokens: 300}}\n"
        "workload: {kind: trace, path: trace.jsonl, rate_scale: 1, length_scale: 1}\n"
    )
    (tmp_path / "top.yaml").write_text("extends: deep/base.yaml\nname: top\n")
    top = load_scenario(tmp_path / "top.yaml")
    assert len(top.draw(0).stream) == 20
    # The hash stands for the content of the trace, not for where it lies.
    assert isinstance(top.workload, TraceWorkload)
    (tmp_path / "trace.jsonl").write_bytes(SAMPLE.read_bytes())
    moved = replace(top, workload=replace(top.workload, path=str(tmp_path / "trace.jsonl")))
    assert moved.hash == top.hash
    (tmp_path / "trace.jsonl").write_text(SAMPLE.read_text().replace("902", "903"))
    assert moved.with_overrides({}).hash != top.hash


def test_circular_extension_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\nname: a\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\nname: b\n")
    with pytest.raises(ConfigError, match="goes in a circle"):
        load_scenario(tmp_path / "a.yaml")


def test_overrides_say_what_is_wrong(paper: Scenario) -> None:
    refusals: dict[str, dict] = {
        r"laod: unknown key; did you mean 'load'": {"laod": 1},
        r"rate_rps: expected a number ≥ 0, got -2": {"rate_rps": -2},
        r"load: expected a number ≥ 0 and ≤ 100 or a list": {"load": -0.5},
        r"load: expected at least one value": {"load": []},
        r"workload.lengths.mu: expected a number, got nan": {"workload": {"lengths": {"mu": float("nan")}}},
        r"objectives.tpot_s: expected as many values as in ttft_s": {"objectives": {"tpot_s": []}},
        r"objectives.ttft_s: expected a list of a number > 0": {"objectives": {"ttft_s": 3}},
        r"deployment.lnk: unknown key; did you mean 'link'": {"deployment": {"lnk": 1}},
        r"unknown deployment 'prfas-pd'; did you mean 'prfaas-pd'": {"deployment": "prfas-pd"},
        r"control_step_s: expected a number ≥ 1 and ≤ 300, got 0.5": {"control_step_s": 0.5},
        r"split: expected one of .*did you mean 'train'": {"split": "trian"},
    }
    for message, overrides in refusals.items():
        with pytest.raises(ConfigError, match=message) as refusal:
            paper.with_overrides(overrides)
        assert "\n" not in str(refusal.value)


def test_unknown_and_incomplete_scenarios(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown scenario 'drift-mx'; did you mean 'drift-mix'"):
        load_scenario("drift-mx")
    path = tmp_path / "own.yaml"
    path.write_text("name: own\ndeployment: prfaas-pd\n")
    with pytest.raises(
        ConfigError, match=r"own.yaml: missing keys: workload \(a mapping of kind synthetic, trace\), nominal"
    ):
        load_scenario(path)
    path.write_text("")
    with pytest.raises(ConfigError, match=r"own.yaml: expected a mapping"):
        load_scenario(path)
    path.write_text("extends: paper-stationary\nname: own\nload: null\n")
    with pytest.raises(ConfigError, match=r"load: expected exactly one of load and rate_rps, got neither"):
        load_scenario(path)
    path.write_text("extends: mooncake-conversation\nname: own\nload: 0.5\n")
    with pytest.raises(ConfigError, match=r"load: expected none, a trace has its own rate"):
        load_scenario(path)


def test_hashes_follow_the_content(paper: Scenario) -> None:
    assert paper.hash == load_scenario("paper-stationary").hash
    assert paper.with_overrides({}).hash == paper.hash
    changed = [
        paper.with_overrides(load=[0.5, 0.8]),
        paper.with_overrides(deployment={"local": {"profile": {"prefill": {"times_s": [0.9, 1.6, 4.8, 23.5]}}}}),
        paper.with_overrides(version=2),
    ]
    assert len({scenario.hash for scenario in [paper, *changed]}) == 4
    parts: list[dict] = [{}, {"wander": None}, {"wander": None, "jumps": None}, {"regimes": None, "steps": []}]
    drifting = [paper.with_overrides(workload={"drift": part}).hash for part in parts]
    assert len({paper.hash, *drifting[:3]}) == 4  # a part that is on by default, switched off, is another workload
    assert drifting[3] == drifting[0]


def test_suites() -> None:
    pair = suite(["paper-stationary", "drift-mix"])
    assert suite_hash(pair) == suite_hash(pair[::-1])
    assert suite_hash(pair) != suite_hash(pair[:1])
    with pytest.raises(ConfigError, match="'drift-mix' is named twice"):
        suite(["drift-mix", "drift-mix"])


def test_a_scenario_can_be_pickled(paper: Scenario) -> None:
    import pickle

    clone = pickle.loads(pickle.dumps(paper))
    assert clone == paper
    assert same(clone.draw(2), paper.draw(2))


def test_deployments_can_be_named_in_full(paper: Scenario) -> None:
    direct = Scenario("mine", load_deployment("prfaas-pd"), paper.workload, paper.nominal, rate_rps=1.0, horizon_s=600)
    assert len(direct.draw(0).stream) == pytest.approx(600, abs=100)


def test_the_documentation_names_every_scenario() -> None:
    text = (Path(__file__).parents[1] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    listed = text.replace("`-80`", "`paper-stationary-80`").replace("`-95`", "`paper-stationary-95`")
    assert [name for name in names("scenarios") if f"`{name}`" not in listed] == []


def test_the_documented_scenario_file_works(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.split("```yaml\n")[1].split("```")[0])
    mine = load_scenario(tmp_path / "mine.yaml")
    draw = mine.draw(0)
    assert draw.capacity is not None
    assert draw.capacity.gbps[np.searchsorted(draw.capacity.times_s, 630.0) - 1] == 0.0
    assert len(draw.stream) > 1000


STATES = [{"capacity_share": 1, "mean_stay_s": 1e-9}, {"capacity_share": 0.5, "mean_stay_s": 1e-9}]
EXCURSION = {"per_h": 1e6, "low_duration_s": 1e-4, "high_duration_s": 1e-4}
TALK = {"message_tokens": {"kind": "constant", "tokens": 100}}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"load": 101}, "load: expected"),
        ({"rate_rps": 1e8}, "arrivals: expected at most 50,000,000"),
        ({"clock": {"day_s": 1e-9}}, "clock.day_s: expected"),
        ({"link": {"capacity": {"kind": "markov", "states": STATES}}}, "changes of the link's state: expected at most"),
        ({"link": {"excursions": {**EXCURSION, "high_duration_s": 1e9}}}, "under way at once: expected at most 1,000"),
        ({"link": {"excursions": EXCURSION}, "clock": {"day_s": 60}}, "random events: expected at most"),
        (
            {"faults": {"local": {"mean_time_between_failures_s": 1e-6, "mean_repair_s": 1e-6}}},
            "failures of local instances: expected at most",
        ),
        (
            {"workload": {"arrivals": {"bursts": {"on_over_mean": 1.5, "mean_on_s": 1e-6, "mean_off_s": 1e-6}}}},
            "switches between on and off: expected at most",
        ),
        ({"workload": {"drift": {"white_h": 1e-12}}}, "white noise: expected at most"),
        (
            {"workload": {"drift": {"jumps": {"per_h": 1e5, "laplace_scale": 0.5, "mean_duration_h": 1e5}}}},
            "jumps under way at once: expected at most",
        ),
        ({"workload": {"lengths": {"kind": "constant", "tokens": 1e13}}}, "tokens: expected at most"),
        ({"workload": {"sessions": {**TALK, "continue_beta": 1.0001}}}, "turns of a session: expected at most"),
        (
            {"workload": {"output_tokens": {"kind": "constant", "tokens": 1e12}, "sessions": TALK}},
            "blocks of prompts: expected at most",
        ),
        ({"deployment": {"link": {"capacity_gbps": 1e13}}}, "capacity_gbps: expected at most"),
    ],
)
def test_figures_that_would_never_end_are_refused(paper: Scenario, overrides: dict, message: str) -> None:
    nominal = to_mapping(paper.nominal)
    with pytest.raises(ConfigError, match=message):
        paper.with_overrides({"nominal": nominal, **overrides}).draw(0)
