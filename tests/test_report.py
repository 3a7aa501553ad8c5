"""The leaderboard's words and tables, and the report page: self-contained, safe, and drawn by a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from prfaas_env.evaluation.leaderboard import print_leaderboard, to_markdown
from prfaas_env.evaluation.results import ROW_KEYS, CellResult, Evaluation, row
from prfaas_env.evaluation.standings import standings
from prfaas_env.evaluation.verdict import verdict
from prfaas_env.pages.figures import number
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.result import TIMELINE_DTYPE

pytest.importorskip("plotly", reason="the report needs plotly (extra 'report')")

from prfaas_env.evaluation.charts import ranking_chart
from prfaas_env.evaluation.report import to_html
from prfaas_env.evaluation.timelines import QUANTITIES, timeline_charts

MEGABYTE = 1e6
SEEDS = range(8)


def cell(policy: str, scenario: str, seed: int, ttft_s: float, steps: int = 360) -> CellResult:
    summary = dict.fromkeys(ROW_KEYS[3:], 1.0) | {"ttft_mean_s": ttft_s, "goodput": 0.5}
    timeline = np.ones(steps if seed == SEEDS[0] else 0, dtype=TIMELINE_DTYPE)
    timeline["time_s"] = 10.0 * np.arange(1, len(timeline) + 1)
    return CellResult(row(policy, scenario, seed, summary), ttft_s * np.linspace(0.2, 3.0, 400), timeline)


def made_up(
    factors: dict[str, dict[str, float]], baseline: str = "dual-timescale", seeds: int = len(SEEDS)
) -> Evaluation:
    """Policies whose mean TTFT is a factor, by scenario, of a baseline that varies from seed to seed by itself."""
    noise = np.random.default_rng(1).lognormal(0.0, 0.05, (20, seeds))
    names = list(next(iter(factors.values())))
    cells = [
        cell(policy, name, seed, factors[policy][name] * (1.0 + seed) * noise[i, seed])
        for i, policy in enumerate(factors)
        for name in names
        for seed in range(seeds)
    ]
    shipped = load_scenario("drift-mix")
    scenarios = [shipped.with_overrides(name=name) for name in names]
    return Evaluation(cells, list(factors), scenarios, range(seeds), "reference", baseline, "1.2.3", planned=len(cells))


BASE = {"dual-timescale": {"a": 1.0, "b": 1.0}, "static": {"a": 2.0, "b": 0.8}}


def words(learned: dict[str, float]) -> list[str]:
    return verdict(standings(made_up({**BASE, "learned": learned})))


def test_verdict_says_where_the_learned_policy_wins_and_to_whom_it_loses() -> None:
    best = "against the best of the other policies"
    assert words({"a": 0.5, "b": 0.5})[0] == f"`learned` wins in every scenario {best} (few seeds: 8)."
    summary, a, b, _ = words({"a": 0.5, "b": 0.95})
    assert summary == f"`learned` wins in 1 of 2 scenarios {best}, loses in 1, is level in 0 (few seeds: 8)."
    assert a.startswith("a: wins (few seeds: 8) against `dual-timescale`, the best of the others by mean TTFT: 0.5")
    assert b.startswith("b: loses (few seeds: 8) to `static`, the best of the others by mean TTFT: 1.2")
    assert "neither wins nor loses clearly" in words({"a": 1.0, "b": 0.8})[0]


def test_verdict_says_where_the_tail_is_worse() -> None:
    evaluation = made_up({**BASE, "learned": {"a": 0.5, "b": 0.5}})
    for result in evaluation.cells:
        if (result.row["policy"], result.row["scenario"]) == ("learned", "a"):
            result.row["ttft_p99_s"] = 137.0  # type: ignore[index]
    _, a, b, _ = verdict(standings(evaluation))
    assert a.endswith("goodput 50 % against 50 %; P99 is worse: 137 s against 1.00 s.")
    assert b.endswith("goodput 50 % against 50 %.")


def test_verdict_counts_every_trained_model_and_seeds_that_are_enough() -> None:
    evaluation = made_up({**BASE, "mine/model.zip": {"a": 0.5, "b": 0.5}, "learned": {"a": 0.6, "b": 0.6}}, seeds=12)
    said = verdict(standings(evaluation))
    assert said[0].startswith("`mine/model.zip` wins in every scenario")
    assert said[1].startswith("a: wins against `learned`")
    assert said[3].startswith("`learned` wins in 0 of 2 scenarios")
    assert said[4].startswith("a: loses to `mine/model.zip`")
    assert not any("few seeds" in line for line in said)


def test_verdict_answers_static_or_adaptive_where_static_took_part() -> None:
    said = words({"a": 0.5, "b": 0.5})[-1]
    assert re.match(r"Static or adaptive: .* takes 1\.9\d \[.*\] on a, 0\.7\d \[.*\] on b times the mean TTFT", said)
    assert not any("Static or adaptive" in line for line in verdict(standings(made_up({"dual-timescale": {"a": 1.0}}))))


def test_hindsight_is_a_bound_and_not_a_contender() -> None:
    evaluation = made_up({**BASE, "learned": {"a": 0.5, "b": 0.5}, "hindsight": {"a": 0.1, "b": 0.1}})
    assert verdict(standings(evaluation))[0].startswith("`learned` wins in every scenario")
    assert "hindsight (bound)" in to_markdown(evaluation, standings(evaluation))


def test_without_a_learned_policy_the_leader_is_named() -> None:
    evaluation = made_up({**BASE, "quick": {"a": 0.5, "b": 0.5}})
    assert verdict(standings(evaluation))[0].startswith("`quick` leads (few seeds: 8): mean TTFT 0.")


def test_a_leading_baseline_is_not_compared_with_itself() -> None:
    assert verdict(standings(made_up(BASE)))[0] == (
        "Nothing beats the baseline `dual-timescale` in mean TTFT over all scenarios (few seeds: 8)."
    )
    alone = verdict(standings(made_up({"dual-timescale": {"a": 1.0}})))
    assert alone == ["`dual-timescale` alone was run: there is no contender to compare it with."]


def test_markdown_tables_have_a_row_a_policy_and_equal_columns() -> None:
    evaluation = made_up({**BASE, "odd|name": {"a": 1.0, "b": 1.0}})
    lines = to_markdown(evaluation, standings(evaluation)).splitlines()
    tables = re.findall(r"(?:^\|.*\n)+", "\n".join(lines) + "\n", flags=re.M)
    assert len(tables) == 3
    for table in tables:
        rows = table.splitlines()
        assert len(rows) == 2 + 3
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1


def test_the_terminal_shows_whole_headers_and_figures_in_80_columns() -> None:
    factors = {
        **BASE,
        "windowed-closed-form": {"a": 45.6, "b": 293.1},
        "results/of/a/long/path/model.zip": {"a": 0.7, "b": 1.2},
    }
    screen = Console(width=80, file=StringIO())
    print_leaderboard(standings(made_up(factors)), screen)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    for header in ("policy", "ratio", "TTFT s", "P99 s", "goodput", "USD/M"):
        assert header in shown
    assert "…/a/long/path/model.zip"[-20:] in shown
    assert not re.search(r"\w…", shown)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (3.14159, "3.14"), (0.012345, "0.0123"), (1234.5, "1234"), (float("nan"), "–")]
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def page_of(evaluation: Evaluation) -> str:
    return to_html(evaluation, standings(evaluation))


def test_page_is_one_small_file_that_loads_nothing() -> None:
    eight = {f"policy-{i}": dict.fromkeys("abcd", 1.0 + 0.1 * i) for i in range(8)}
    page = page_of(made_up(eight, baseline="policy-0"))
    assert len(page.encode()) < 5 * MEGABYTE
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)|@import|url\(""", page)
    for said in ("reference", "1.2.3", "Scenarios", "Seeds", "Suite"):
        assert said in page
    charts = json.loads(re.findall(r'id="charts">(.*?)</script>', page, flags=re.S)[0])
    assert len(charts) == page.count('class="chart"') == 5 + 4 * (1 + len(QUANTITIES))
    for chart in charts:
        assert chart["layout"]["xaxis"]["title"]["text"]
        assert {trace.get("meta") for trace in chart["data"]} >= set(eight)


def test_names_cannot_break_the_page() -> None:
    nasty = "</script><script>alert(1)//$x.zip"
    page = page_of(made_up({"dual-timescale": {"a": 1.0}, nasty: {"a": 0.5}}))
    assert page.count("</script>") == page_of(made_up({"dual-timescale": {"a": 1.0}})).count("</script>")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_collapsed_policy_leaves_the_panel_and_the_caption_says_so() -> None:
    calm, collapsed = cell("calm", "a", 0, 1.0), cell("collapsed", "a", 0, 1.0)
    collapsed.timeline["waiting"] = 5000.0
    others = [cell(f"other-{i}", "a", 0, 1.0) for i in range(2)]
    colour = dict.fromkeys(["calm", "collapsed", "other-0", "other-1"], "#000000")
    in_sight = colour.keys() - {"collapsed"}
    charts = {chart.title: chart for chart in timeline_charts([calm, collapsed, *others], colour, in_sight)}
    waiting = charts["Requests waiting for their first token"]
    assert "Beyond the panel: collapsed up to 5000." in waiting.caption
    assert waiting.figure["layout"]["yaxis"]["range"][1] < 100
    assert "Beyond" not in charts["Remote prefill queue"].caption


def test_a_contender_is_seen_whole() -> None:
    long, short = cell("long", "a", 0, 1.0), cell("short", "a", 0, 1.0)
    long.timeline["waiting"] = 900.0
    charts = timeline_charts([long, short], dict.fromkeys(["long", "short"], "#000000"), ["long", "short"])
    waiting = next(chart for chart in charts if chart.title == "Requests waiting for their first token")
    assert waiting.figure["layout"]["yaxis"]["range"][1] > 900
    assert "Beyond" not in waiting.caption


def test_a_restless_knob_does_not_hide_the_others() -> None:
    calm, restless = cell("calm", "a", 0, 1.0), cell("restless", "a", 0, 1.0)
    restless.timeline["threshold_tokens"] = np.tile([9_000.0, 20_000.0], 180)
    chart = timeline_charts([calm, restless], dict.fromkeys(["calm", "restless"], "#000000"), ["calm"])[0]
    below, above = chart.figure["data"]
    assert (below["meta"], above["meta"]) == ("restless", "calm")
    assert below["opacity"] < 1.0
    assert below["line"]["width"] < above["line"]["width"]


def test_the_ranking_is_drawn_for_the_contenders_and_the_rest_stand_at_its_edge() -> None:
    board = standings(made_up({**BASE, "naive": {"a": 60.0, "b": 50.0}}))
    chart = ranking_chart(board, None, dict.fromkeys(["dual-timescale", "static", "naive"], "#000000"))
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert -1.0 < low < 0.0 < high < np.log10(4.0)
    rows = {trace["name"]: trace for trace in chart.figure["data"]}
    assert rows["naive"]["text"][0].endswith(" →")
    assert rows["naive"]["text"][0].startswith(number(board.of("naive").overall.ratio))
    assert np.log10(rows["naive"]["x"][0]) < high
    assert rows["static"]["x"] == [board.of("static").overall.ratio]
    assert re.fullmatch(r"1\.2\d \[1\.\d\d, 1\.\d\d\]", rows["static"]["text"][0])
    assert {".9", "1", "1.2"} <= set(chart.figure["layout"]["xaxis"]["ticktext"])


@pytest.mark.parametrize("size", ["1400,6000", "500,6000"], ids=["wide", "narrow"])
def test_a_browser_draws_every_chart_without_complaint(size: str, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine: the page cannot be opened")
    evaluation = made_up({**BASE, "learned": {"a": 0.5, "b": 0.95}})
    page = tmp_path / "report.html"
    page.write_text(page_of(evaluation), encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    flags += ["--enable-logging=stderr", "--virtual-time-budget=30000", f"--window-size={size}", "--dump-dom"]
    done = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    places = done.stdout.count('data-chart="')
    assert places == 3 + 2 * (1 + len(QUANTITIES))
    near_the_top = 3 + 1  # the page draws the others when they come near
    assert done.stdout.count('class="plot-container') >= near_the_top
    assert done.stdout.count('aria-pressed="true"') == 3
