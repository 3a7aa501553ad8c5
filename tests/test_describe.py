"""``describe``: statistics against hand-made streams and measured traces, the command, and the page in a browser."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.scenario_pages import COMMAND, FOLDER, families, family_page, index_page
from prfaas_env.config import ConfigError
from prfaas_env.describe.caching import cache_curve
from prfaas_env.describe.charts import charts
from prfaas_env.describe.description import Description, describe
from prfaas_env.describe.episode import Episode, mean_gbps
from prfaas_env.describe.statistics import STATISTICS
from prfaas_env.describe.words import written
from prfaas_env.resources import names
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline
from prfaas_env.theory.plan import plan
from prfaas_env.workload.stream import RequestStream
from tests.browser import Browser, carried
from tests.commands import Ended, ended

SAMPLE = Path(__file__).parent / "data/mooncake_sample.jsonl"
CONVERSATION = "mooncake-fast25/conversation_trace.jsonl.gz"
SHIPPED = [name for name in names("scenarios") if not load_scenario(name).workload.missing()]


def made_of(stream: RequestStream, horizon_s: float, scenario: str = "paper-stationary-80", **draw: Any) -> Description:
    """An episode of just these requests."""
    found = load_scenario(scenario).with_overrides(horizon_s=horizon_s)
    return Description(Episode(found, replace(found.draw(0), stream=stream, **draw)), 0)


@pytest.fixture(scope="module")
def conversation() -> Description:
    try:
        return describe(CONVERSATION)
    except ConfigError as absent:
        pytest.skip(str(absent))


# ---- statistics


def test_statistics_of_four_requests_are_those_worked_out_by_hand() -> None:
    stream = RequestStream(
        np.array([0.0, 10.0, 20.0, 100.0]),
        np.array([1000, 2001, 9000, 1024]),
        np.array([10, 20, 30, 40]),
        session_id=np.array([0, 1, 0, -1]),
        turn=np.array([0, 0, 1, 0]),
        hash_offsets=np.array([0, 1, 1, 18, 20]),
        block_hashes=np.array([0, *range(17), 0, 1]),  # 1000 tokens fill one block; the last prompt has been seen whole
    )
    found = made_of(stream, 120.0).statistics
    assert found["requests"] == 4
    assert found["rate_mean_rps"] == pytest.approx(4 / 120)
    assert found["rate_busiest_minute_rps"] == pytest.approx(3 / 60)
    assert found["dispersion_1min"] == pytest.approx(1.0 / 2.0)  # counts 3 and 1
    assert found["rate_minute_cv"] == pytest.approx(1.0 / 2.0)
    gaps = np.array([10.0, 10.0, 80.0])
    assert found["gap_cv"] == pytest.approx(gaps.std() / gaps.mean())
    assert found["input_mean_tokens"] == pytest.approx(13025 / 4)
    assert found["input_over_2k_share"] == 0.5
    assert found["input_over_8k_share"] == 0.25
    assert found["cache_hit_share"] == pytest.approx((512 + 1024) / 13025)
    assert found["uncached_mean_tokens"] == pytest.approx((1000 + 2001 + (9000 - 512) + 1) / 4)
    assert found["output_p50_tokens"] == 25.0
    assert found["sessions"] == 2
    assert found["requests_per_session"] == 1.5
    assert found["turn_gap_p50_s"] == 20.0


def test_link_and_faults_count_only_up_to_the_horizon() -> None:
    found = made_of(
        load_scenario("paper-stationary-80").draw(0).stream.before(100.0),
        100.0,
        capacity=CapacityTimeline(np.array([0.0, 50.0, 75.0, 120.0]), np.array([100.0, 20.0, 0.0, 500.0])),
        faults=FaultTimeline(np.array([40.0, 90.0, 95.0, 300.0]), [1, 0, 1, 0], [0, 2, 0, 2], [0, 0, 1, 1]),
    ).statistics
    assert found["link_mean_gbps"] == pytest.approx(50.0 + 5.0)
    assert found["link_min_gbps"] == 0.0
    assert found["link_under_half_time_share"] == pytest.approx(0.5)
    assert found["failures"] == 2
    assert found["instances_down_share"] == pytest.approx((55.0 + 10.0) / (12 * 100.0))


def test_mean_capacity_weighs_each_value_by_how_long_it_holds() -> None:
    capacity = CapacityTimeline(np.array([0.0, 10.0, 30.0]), np.array([1.0, 2.0, 4.0]))
    assert mean_gbps(capacity, 5.0, 20.0) == pytest.approx((5 * 1.0 + 10 * 2.0) / 15)
    assert mean_gbps(capacity, 40.0, 50.0) == 4.0


def test_load_is_the_rate_over_what_the_closed_form_sustains() -> None:
    scenario = load_scenario("paper-stationary-80").with_overrides(horizon_s=7 * 3600.0)
    episode = Episode(scenario, scenario.draw(3))
    assert episode.own_plan is not None
    assert episode.own_plan.lambda_max_rps == pytest.approx(
        plan(scenario.deployment, scenario).lambda_max_rps, rel=0.02
    )
    assert Description(episode, 3).statistics["load_ratio"] == pytest.approx(0.8, rel=0.03)
    loads = np.array([w.load for w in episode.windows])
    assert len(loads) == 48
    assert loads.mean() == pytest.approx(0.8, rel=0.03)
    assert loads.std() < 0.08


def test_a_window_without_its_link_carries_more_load_and_no_infinite_one() -> None:
    scenario = load_scenario("paper-stationary-50")
    cut = CapacityTimeline(np.array([0.0, 1800.0]), np.array([100.0, 0.0]))
    episode = Episode(scenario, replace(scenario.draw(0), capacity=cut))
    before = [w.load for w in episode.windows if w.end_s <= 1800.0]
    after = [w.load for w in episode.windows if w.start_s >= 1800.0]
    local_only = plan(load_scenario("paper-stationary").deployment, scenario, threshold_tokens=131_072.0).lambda_max_rps
    assert max(before) < 0.65
    assert np.mean(after) == pytest.approx(episode.rate_rps / local_only, rel=0.1)
    assert np.isfinite([w.load_at_plan for w in episode.windows]).all()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_can_be_described(name: str) -> None:
    found = describe(name)
    plain = json.loads(json.dumps(found.as_mapping(), allow_nan=False))
    assert plain["statistics"].keys() == {one.key for one in STATISTICS}
    assert plain["statistics"]["requests"] > 100
    windows = found.episode.windows
    assert sum(w.requests for w in windows) == plain["statistics"]["requests"]
    assert all(w.load <= w.load_at_plan * (1 + 1e-9) for w in windows)  # nothing fixed beforehand beats the best
    assert all(0.0 <= (w.tail_share or 0.0) <= 1.0 for w in windows)
    assert len(charts(found.episode)) >= 4


@pytest.mark.parametrize("deployment", ["homogeneous-pd", "naive-heterogeneous-pd"])
def test_a_deployment_without_a_threshold_has_none_in_its_description(deployment: str) -> None:
    scenario = load_scenario("paper-stationary-50").with_overrides(deployment=deployment)
    found = Description(Episode(scenario, scenario.draw(0)), 0)
    assert found.statistics["plan_threshold_tokens"] is None
    assert found.statistics["uncached_over_plan_threshold_share"] is None
    assert "P(L > t*)" not in {chart.title for chart in charts(found.episode)}
    assert found.statistics["load_ratio"] == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("scenario", [{"rate_rps": 0.0}, {"rate_rps": 0.05, "horizon_s": 30.0}, {"horizon_s": 10.0}])
def test_few_or_no_requests_are_described_too(scenario: dict[str, Any]) -> None:
    found = load_scenario("link-shared").with_overrides(scenario)
    described = Description(Episode(found, found.draw(1)), 1)
    json.dumps(described.as_mapping(), allow_nan=False)
    assert charts(described.episode)


# ---- real traces


def test_mooncake_statistics_are_those_published_with_the_trace(conversation: Description) -> None:
    found = conversation.statistics
    assert found["requests"] == 12_031
    assert found["rate_mean_rps"] == pytest.approx(3.4, abs=0.05)
    assert found["dispersion_1min"] == pytest.approx(3.0, rel=0.1)
    assert found["input_p50_tokens"] == pytest.approx(6_909, abs=1)
    assert found["input_over_2k_share"] == pytest.approx(0.77, abs=0.005)
    assert found["uncached_over_8k_share"] == pytest.approx(0.273, abs=0.002)
    assert found["cache_hit_share"] == pytest.approx(0.374, abs=0.005)


@pytest.mark.parametrize(("size_tokens", "share"), [(1.5e6, 0.066), (5.1e6, 0.215), (15e6, 0.332), (51e6, 0.371)])
def test_cache_curve_is_near_the_measured_lru(conversation: Description, size_tokens: float, share: float) -> None:
    curve = conversation.episode.cache_curve
    assert curve is not None
    assert np.interp(size_tokens, *curve) == pytest.approx(share, rel=0.07)


def test_azure_is_recognised_by_its_columns(real_trace: Callable[[str], Path]) -> None:
    found = describe(str(real_trace("azure-llm-2023/AzureLLMInferenceTrace_conv.csv.gz"))).statistics
    assert found["requests"] == 19_366
    assert found["dispersion_1min"] == pytest.approx(16.4, rel=0.05)
    assert found["input_mean_tokens"] == pytest.approx(1_155, abs=1)
    assert found["sessions"] is None


# ---- prefix caches


def lru_hits(stream: RequestStream, blocks: int) -> int:
    """Blocks hit by a least-recently-used cache of so many, a prefix at a time."""
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for i in range(len(stream)):
        ids = stream.hashes(i)[: stream.input_tokens[i] // stream.block_tokens].tolist()
        known = next((k for k, block in enumerate(ids) if block not in kept), len(ids))
        hits += known
        for block in reversed(ids):  # the beginning of a prompt is the last to go
            kept[block] = None
            kept.move_to_end(block)
        while len(kept) > blocks:
            kept.popitem(last=False)
    return hits


@pytest.mark.parametrize("blocks", [5_000, 15_000, 60_000])
def test_cache_curve_agrees_with_a_cache_played_through(blocks: int) -> None:
    scenario = load_scenario("mooncake-like")
    stream = scenario.draw(5).stream
    curve = cache_curve(stream, scenario.horizon_s)
    assert curve is not None
    assert (np.diff(curve.size_tokens) >= 0).all()
    assert (np.diff(curve.hit_share) >= 0).all()
    played = lru_hits(stream, blocks) * stream.block_tokens / stream.input_tokens.sum()
    assert np.interp(blocks * stream.block_tokens, *curve) == pytest.approx(played, rel=0.1)


def test_nothing_repeats_no_curve() -> None:
    assert cache_curve(load_scenario("paper-stationary-50").draw(0).stream, 3600.0) is None


# ---- words


@pytest.mark.parametrize(
    ("key", "value", "text", "unit"),
    [
        ("requests", 7386, "7,386", ""),
        ("input_p50_tokens", 24491.4, "24,491", "tokens"),
        ("rate_mean_rps", 2.0517, "2.05", "requests/s"),
        ("cache_hit_share", 0.3741, "37.4", "%"),
        ("turn_gap_p10_s", None, "–", "s"),
        ("load_ratio", 0.7135, "0.714", ""),
    ],
)
def test_a_value_is_written_in_the_unit_of_its_key(key: str, value: float | None, text: str, unit: str) -> None:
    assert written(key, value) == (text, unit)


# ---- the command


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    return lambda *arguments: ended(capsys, "describe", *arguments)


def test_the_table_has_every_figure_that_there_is(call: Callable[..., Ended]) -> None:
    done = call("node-failures", "--seed", "1")
    assert done.code == 0
    for words in ("8xH200", "requests/s", "index of dispersion", "t* planned", "19,606", "instance failures"):
        assert words in done.out
    assert "turn gap" not in done.out


def test_json_is_of_the_seed_asked_for(call: Callable[..., Ended]) -> None:
    first, again, other = (json.loads(call("drift-mix", "--json", "--seed", s).out) for s in ("1", "1", "2"))
    assert first == again
    assert first["statistics"] != other["statistics"]
    assert first["windows"][0]["start_s"] == 0.0


def test_a_trace_file_is_described_with_what_was_left_out(call: Callable[..., Ended], tmp_path: Path) -> None:
    broken = tmp_path / "mine.jsonl"
    broken.write_text(SAMPLE.read_text(encoding="utf-8") + '{"timestamp": 1, "input_length": 0}\n', encoding="utf-8")
    found = json.loads(call(broken, "--deployment", "homogeneous-pd", "--json").out)
    assert found["scenario"] == "mine"
    assert found["deployment"] == "homogeneous-pd"
    assert found["statistics"]["requests"] == len(SAMPLE.read_text(encoding="utf-8").splitlines())
    assert "1 of" in found["remarks"][0]


def test_a_table_of_ones_own_is_described_by_its_columns(call: Callable[..., Ended], tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(
        "when,prompt,reply\n" + "".join(f"{500 * i},{1000 + i},20\n" for i in range(100)), encoding="utf-8"
    )
    columns = "arrival=when,input=prompt,output=reply,arrival_unit=ms"
    found = json.loads(call(table, "--columns", columns, "--json").out)["statistics"]
    assert found["requests"] == 100
    assert found["input_mean_tokens"] == pytest.approx(1049.5)
    assert found["gap_cv"] == pytest.approx(0.0, abs=1e-9)
    refused = call(table)
    assert refused.code == 2
    assert "--columns arrival=NAME" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("drift-mx",), "did you mean 'drift-mix'?"),
        (("no/such.jsonl",), "not found"),
        (("no/such.yaml",), "no such file"),
        (("drift-mix", "--deployment", "homogeneous-pd"), "deployment: expected with a trace file only"),
        (("drift-mix", "--columns", "arrival=a,input=b,output=c"), "columns: expected with a trace file only"),
        ((SAMPLE, "--columns", "arival=a,input=b,output=c"), "did you mean 'arrival'?"),
        ((SAMPLE, "--deployment", "prfaas"), "did you mean"),
        (("drift-mix", "--out", "no/such/folder/page.html"), "--out: expected a file in a folder that exists"),
        (("drift-mix", "--seed", "-1"), "--seed"),
    ],
)
def test_bad_input_is_one_line(call: Callable[..., Ended], arguments: tuple[str | Path, ...], said: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


# ---- the page


@pytest.fixture(scope="module")
def scenario_with_everything() -> Scenario:
    """Sessions, faults and a shared link, under a name that means harm."""
    more = load_scenario("link-shared")
    return load_scenario("mooncake-like").with_overrides(
        name="</script><script>alert(1)//",
        horizon_s=1200.0,
        link=more.link,
        faults={"scripted": [{"time_s": 300.0, "cluster": "remote", "instance": 0, "repair_after_s": 200.0}]},
    )


def page_of(scenario: Scenario) -> str:
    pytest.importorskip("plotly", reason="pages need plotly (extra 'report')")
    from prfaas_env.describe.page import to_html

    return to_html(Description(Episode(scenario, scenario.draw(0)), 0))


def test_page_is_one_safe_file_that_loads_nothing(scenario_with_everything: Scenario) -> None:
    page = page_of(scenario_with_everything)
    assert len(page.encode()) < 4e6
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:|#)|@import|url\(""", page)
    assert "<script>alert" not in page
    drawn = carried(page, "charts")
    titles = re.findall(r"<h3>(.*?)</h3>", page)
    assert len(drawn) == len(titles) == page.count('class="chart"')
    assert {"Input lengths", "Arrival rate", "P(L &gt; t*)", "Load", "Burstiness", "Cache hit potential"} < set(titles)
    assert {"Output lengths", "Link", "Instances up"} < set(titles)
    legend = {one["name"] for one in json.loads(re.findall(r'id="series">(.*?)</script>', page, flags=re.S)[0])}
    assert {trace["meta"] for chart in drawn for trace in chart["data"] if "meta" in trace} == legend
    for one in STATISTICS:
        assert one.key in page


def test_the_command_writes_the_page(call: Callable[..., Ended], tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="pages need plotly (extra 'report')")
    out = tmp_path / "page.html"
    done = call(SAMPLE, "--out", out)
    assert done.code == 0
    assert str(out) in done.out.replace("\n", "")
    assert "What arrives in mooncake_sample" in out.read_text(encoding="utf-8")


def test_a_browser_draws_every_chart(scenario_with_everything: Scenario, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of(scenario_with_everything), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(page)
        browser.wait("document.querySelector('.chart[data-drawn]')")
        browser.evaluate("Promise.all([...document.querySelectorAll('.chart')].map(draw)).then(() => true)")
        assert browser.evaluate("document.querySelectorAll('.chart .plot-container').length") == 9
        assert browser.complaints == []


# ---- the documentation's pages


def test_pages_of_the_documentation_are_those_of_the_shipped_files() -> None:
    """All of them name every scenario with its content hash; one family is written anew, to the last figure."""
    found, again = families(), f"outdated: run {COMMAND}"
    assert {path.stem for path in FOLDER.glob("*.md")} == {*found, "README"}, again
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == index_page(found), again
    pages = {family: (FOLDER / f"{family}.md").read_text(encoding="utf-8") for family in found}
    for family, scenarios in found.items():
        for scenario in scenarios:
            assert f"version {scenario.version}, hash `{scenario.hash}`" in pages[family], f"{scenario.name} {again}"
    assert pages["faults"] == family_page("faults", found["faults"]), again
