"""The leaderboard's words and tables, and the report page: self-contained, safe, and drawn by a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from rich.console import Console

from prfaas_env.evaluation.leaderboard import print_leaderboard, to_markdown
from prfaas_env.evaluation.results import ROW_KEYS, TTFT_LEVELS, CellResult, Evaluation, row
from prfaas_env.evaluation.runner import Cell, run_cell
from prfaas_env.evaluation.standings import standings
from prfaas_env.evaluation.verdict import verdict
from prfaas_env.pages.figures import number
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.log import empty_log
from prfaas_env.simulator.result import as_timeline
from prfaas_env.simulator.signals import SIGNALS
from prfaas_env.simulator.stages import STAGES
from tests.browser import Browser, carried

pytest.importorskip("plotly", reason="the report needs plotly (extra 'report')")

from prfaas_env.evaluation.families import ratio_table, score_table
from prfaas_env.evaluation.pareto import frontier, pareto_chart
from prfaas_env.evaluation.ranking import ranking_chart
from prfaas_env.evaluation.report import to_html
from prfaas_env.evaluation.slowest import FACTS, slowest_items
from prfaas_env.evaluation.tails import ttft_chart
from prfaas_env.evaluation.timelines import QUANTITIES, minutes, values

MEGABYTE = 1e6
SEEDS = range(8)
SHORT = load_scenario("paper-stationary-80").with_overrides(name="short", horizon_s=120.0)


def cell(policy: str, scenario: str, seed: int, ttft_s: float, steps: int = 360) -> CellResult:
    """A made-up run, of which the first seed is drawn: its queues are noise, and its slowest requests waited."""
    summary = dict.fromkeys(ROW_KEYS[3:], 1.0) | {"ttft_mean_s": ttft_s, "goodput": 0.5, "rejected": 0}
    drawn = seed == SEEDS[0]
    rng = np.random.default_rng(crc32(f"{policy} on {scenario}".encode()))
    noise = rng.uniform(0.0, 50.0, (steps if drawn else 0, len(SIGNALS)))
    timeline, slowest = as_timeline(noise), empty_log(20 if drawn else 0)
    timeline["interval_s"], timeline["time_s"] = 10.0, 10.0 * np.arange(1, len(timeline) + 1)
    timeline["price_s"] = 0.0
    slowest["arrival_s"] = np.arange(len(slowest))
    for name, at_s in (("prefill_start_s", 3), ("prefill_end_s", 5), ("kv_ready_s", 6), ("decode_start_s", 7)):
        slowest[name] = slowest["arrival_s"] + at_s
    slowest["first_token_s"], slowest["ttft_s"] = slowest["arrival_s"] + 8.0, 8.0 + 0.1
    quantiles = ttft_s * np.linspace(0.2, 3.0, len(TTFT_LEVELS))
    return CellResult(row(policy, scenario, seed, summary), quantiles, timeline, slowest)


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
    """As many policies and scenarios as are shipped, with timelines of pure noise, which packs worst."""
    eleven = {f"policy-{i}": {f"scenario-{k}": 1.0 + 0.1 * i for k in range(42)} for i in range(11)}
    page = page_of(made_up(eleven, baseline="policy-0", seeds=2))
    assert len(page.encode()) < 5 * MEGABYTE
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:|#)|@import|url\(""", page)
    for said in ("reference", "1.2.3", "Scenarios", "Seeds", "Suite"):
        assert said in page
    charts, explorer = carried(page, "charts"), carried(page, "explorer")
    assert len(charts) == page.count("data-chart=") == 2 + 3 * 42
    for chart in charts:
        assert chart["layout"]["xaxis"]["title"]["text"]
        assert {trace.get("meta") for trace in chart["data"]} >= set(eleven)
    assert len(explorer["panels"]) == page.count("data-panel=") == len(QUANTITIES)
    assert [set(one["lines"]) for one in explorer["episodes"]] == 42 * [set(eleven)]
    assert page.count("<figure>") == page.count("<figcaption><h3>") == len(charts) + len(QUANTITIES) + 1


def test_names_cannot_break_the_page() -> None:
    nasty = "</script><script>alert(1)//$x.zip"
    page = page_of(made_up({"dual-timescale": {"a": 1.0}, nasty: {"a": 0.5}}))
    assert page.count("</script>") == page_of(made_up({"dual-timescale": {"a": 1.0}})).count("</script>")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_a_collapsed_policy_leaves_the_panels_and_the_captions_say_so() -> None:
    evaluation = made_up({**BASE, "naive": {"a": 60.0, "b": 50.0}})
    board, colour = standings(evaluation), dict.fromkeys(["dual-timescale", "static", "naive"], "#000000")
    cells = [one for one in evaluation.cells if one.row["scenario"] == "a"]
    tails = ttft_chart(cells, [10.0], colour, board.in_sight("a"))
    assert tails.caption.endswith("Leaves the panel: naive.")
    highest = {trace["name"]: trace["y"][-1] for trace in tails.figure["data"]}
    assert highest["static"] < 10.0 ** tails.figure["layout"]["yaxis"]["range"][1] < highest["naive"]
    pareto = pareto_chart(board, "a", colour)
    assert "Beyond the panel (cost, TTFT): naive (1.00, " in pareto.caption
    assert {trace["name"] for trace in pareto.figure["data"]} == {"dual-timescale", "static"}


def test_quantiles_of_the_tails_are_those_of_the_tables() -> None:
    """P99 of the chart is the average over seeds of each seed's P99, and is drawn as far as requests tell."""
    cells = [run_cell(Cell("closed-form", SHORT, seed, "reference", drawn=True)) for seed in (0, 1)]
    chart = ttft_chart(cells, [10.0], {"closed-form": "#000000"}, ["closed-form"])
    (trace,) = chart.figure["data"]
    at = dict(zip(np.round(trace["x"], 3).tolist(), trace["y"], strict=True))
    assert at[10.0] == pytest.approx(np.mean([one.row["ttft_p90_s"] for one in cells]), rel=1e-4)
    fewest = min(one.row["completed"] for one in cells)
    assert max(x for x, y in at.items() if y is not None) == pytest.approx(fewest, rel=0.07)
    for one in cells:
        assert one.slowest["ttft_s"].tolist() == sorted(one.slowest["ttft_s"], reverse=True)
        assert len(one.slowest) == 20
        assert one.slowest["ttft_s"][-1] > one.row["ttft_p90_s"]
        items = slowest_items(one.slowest)
        assert [sum(item[len(FACTS) :]) for item in items] == pytest.approx(one.slowest["ttft_s"], rel=1e-3)


def test_lines_over_time_keep_means_peaks_of_knobs_and_gaps() -> None:
    run = cell("a", "a", 0, 1.0, steps=361)
    steps, by_title = run.timeline, {quantity.title: quantity for quantity in QUANTITIES}
    steps["waiting"] = np.arange(361)
    waiting = values(by_title["Requests waiting for their first token"], steps)
    assert waiting is not None
    assert waiting[:3] == [1.0, 4.0, 7.0]
    assert waiting[-1] == 360
    assert minutes(steps, 180)[0] == pytest.approx(20.0 / 60.0, rel=1e-3)
    steps["prefill_nodes"] = np.arange(361) % 2
    assert set(values(by_title["Local prefill instances N_p"], steps) or []) <= {0, 1}
    steps["first_tokens"], steps["ttft_sum_s"] = 0.0, 0.0
    steps["first_tokens"][:2], steps["ttft_sum_s"][:2] = [1.0, 3.0], [5.0, 3.0]
    assert (values(by_title["Mean TTFT"], steps) or [])[:2] == [2.0, None]
    assert values(by_title["Price β"], steps) is None
    steps["threshold_tokens"] = np.inf
    assert values(by_title["Routing threshold t"], steps) is None


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    assert frontier([(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (2.0, 2.5), (3.0, 3.0), (1.0, 4.0)]) == [
        (1, 3),
        (2, 2),
        (3, 1),
    ]


def test_families_are_compared_over_their_scenarios_together() -> None:
    evaluation = made_up({"dual-timescale": dict.fromkeys("abc", 1.0), "quick": {"a": 0.5, "b": 0.5, "c": 3.0}})
    scenarios = [one.with_overrides(family="x" if one.name in "ab" else "y") for one in evaluation.scenarios]
    found = ratio_table(standings(evaluation), scenarios)
    assert found.header == ["policy", "x (2)", "y (1)"]
    x, y = found.body[found.policies.index("quick")][1:]
    assert re.fullmatch(r"0\.(4|5)\d\d ▼", x)
    assert re.fullmatch(r"(2|3)\.\d\d ▲", y)
    assert found.shades[found.policies.index("quick")] == pytest.approx([-1.0, 1.0], abs=0.2)
    assert found.shades[found.policies.index("dual-timescale")] == [0.0, 0.0]


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


def test_families_are_scored_where_hindsight_took_part() -> None:
    factors = {
        "dual-timescale": {"a": 1.0, "b": 1.0},
        "hindsight": {"a": 0.25, "b": 0.25},
        "half": {"a": 0.5, "b": 1.0},
    }
    evaluation = made_up(factors)
    base = {
        (row["scenario"], row["seed"]): row["ttft_mean_s"]
        for row in evaluation.rows
        if row["policy"] == "dual-timescale"
    }
    for one in evaluation.cells:
        exact = factors[one.row["policy"]][one.row["scenario"]] * base[one.row["scenario"], one.row["seed"]]
        one.row["ttft_mean_s"] = exact  # type: ignore[index]
    scenarios = [one.with_overrides(family=f"of-{one.name}") for one in evaluation.scenarios]
    found = score_table(standings(evaluation), scenarios)
    assert found is not None
    assert found.header == ["policy", "all", "of-a", "of-b"]
    rows = dict(zip(found.policies, found.body, strict=True))
    assert rows["half"] == ["half", "25", "50", "0"]
    assert rows["hindsight"] == ["hindsight (bound)", "100", "100", "100"]
    assert rows["dual-timescale"][1:] == ["0", "0", "0"]
    assert score_table(standings(made_up(BASE)), scenarios) is None


def test_a_page_of_episodes_in_which_nothing_was_served() -> None:
    evaluation = made_up(BASE)
    nothing = dict.fromkeys(ROW_KEYS[3:], float("nan"))
    cells = [
        CellResult(row(one.row["policy"], one.row["scenario"], one.row["seed"], nothing), np.empty(0))
        for one in evaluation.cells
    ]
    page = page_of(replace(evaluation, cells=cells))
    assert "No policy can be ranked" in page
    assert 'data-panel="' not in page
    assert [chart["data"] for chart in carried(page, "charts")] == 8 * [[]]


# ---- in a browser

FOCUSED = """(({ tagName, id, textContent, labels, dataset, ariaLabel }) =>
    [tagName, id || dataset.filter || "", labels?.[0]?.textContent.trim() || ariaLabel || textContent.trim()]
)(document.activeElement)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    evaluation = made_up({**BASE, "learned": {"a": 0.5, "b": 0.95}, "hindsight": {"a": 0.4, "b": 0.4}})
    scenarios = [one.with_overrides(family=f"family-{one.name}") for one in evaluation.scenarios]
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(page_of(replace(evaluation, scenarios=scenarios)), encoding="utf-8")
    return page


@pytest.fixture(scope="module", params=[(1300, False), (390, True)], ids=["wide, light", "phone, dark"])
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    width, dark = request.param
    with Browser(tmp_path_factory.mktemp("profile"), width, dark=dark) as started:
        yield started


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Browser]:
    browser.open(report)
    browser.wait("explorer && document.querySelector('.chart[data-drawn]')")
    yield browser
    browser.evaluate("localStorage.clear()")
    assert browser.complaints == []


def lines_of(browser: Browser, place: str) -> list[list[Any]]:
    """Name, dash and axis of each line that a chart shows."""
    browser.evaluate(f"draw(document.querySelector('{place}')).then(() => true)")
    drawn = f"document.querySelector('{place}')._fullData.filter(trace => trace.visible === true)"
    return list(browser.evaluate(f"{drawn}.map(trace => [trace.name, trace.line?.dash, trace.xaxis])"))


def seen(browser: Browser, query: str) -> list[str]:
    found = f"[...document.querySelectorAll('{query}')].filter(one => one.offsetParent)"
    return list(browser.evaluate(f"{found}.map(one => one.textContent)"))


def test_every_chart_is_drawn_and_fits(opened: Browser) -> None:
    opened.evaluate("Promise.all([...document.querySelectorAll('.chart')].map(draw)).then(() => true)")
    assert (
        opened.evaluate("document.querySelectorAll('.chart .plot-container').length") == 2 + 3 * 2 + len(QUANTITIES) + 1
    )
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.evaluate("innerWidth")
    beside = opened.evaluate("(([one, next]) => one.offsetTop === next.offsetTop)(document.querySelectorAll('figure'))")
    assert beside != opened.evaluate("narrow.matches")
    sizes = opened.evaluate(
        "[...document.querySelectorAll('.chart svg text')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 11


def test_filters_and_legend(opened: Browser) -> None:
    assert seen(opened, "#status") == ["Showing 2 of 2 scenarios and 4 of 4 policies."]
    opened.choose("[data-filter=family]", "family-b")
    assert seen(opened, "main h2")[-1:] == ["b"]
    assert "a" not in seen(opened, "main h2")
    assert seen(opened, "#status") == ["Showing 1 of 2 scenarios and 4 of 4 policies."]
    assert opened.evaluate("[...document.querySelector('#episode').options].map(one => one.text)") == ["b, seed 0"]
    allowed = "[...document.querySelector('[data-filter=scenario]').options].filter(one => !one.disabled)"
    assert opened.evaluate(f"{allowed}.map(one => one.text)") == ["all", "b"]
    opened.choose("[data-filter=family]", "")
    opened.choose("[data-filter=scenario]", "a")
    assert seen(opened, "main h2")[-1:] == ["a"]
    opened.evaluate(
        "[...document.querySelectorAll('.legend button')].find(one => one.textContent === 'static').click()"
    )
    assert not any(text.startswith("static") for text in seen(opened, "main th[scope=row]"))
    assert any(text.startswith("hindsight (bound)") for text in seen(opened, "main th[scope=row]"))
    names = [name for name, *_ in lines_of(opened, '[data-chart="0"]')]
    assert sorted(names) == ["dual-timescale", "hindsight", "learned"]
    assert seen(opened, "#status") == ["Showing 1 of 2 scenarios and 3 of 4 policies."]
    opened.evaluate("document.querySelector('.legend button').click()")
    assert seen(opened, "#status") == ["Showing 1 of 2 scenarios and 4 of 4 policies."]


def test_the_browser_of_episodes_shows_any_two_policies(opened: Browser) -> None:
    arrivals = '[data-panel="0"]'
    assert lines_of(opened, arrivals) == [["learned", "solid", "x"], ["dual-timescale", "6px,2px", "x"]]
    opened.choose("#first", "static")
    opened.choose("#second", "hindsight")
    opened.choose("#layout", "side by side")
    assert lines_of(opened, arrivals) == [["static", "solid", "x"], ["hindsight", "6px,2px", "x2"]]
    opened.choose("#layout", "all that are shown")
    assert len(lines_of(opened, arrivals)) == 4
    shown = "draw(document.querySelector('[data-panel=\"3\"]')).then(() => true)"
    assert opened.evaluate(shown)
    assert "Price β" not in seen(opened, "figure h3")  # no policy here routes by price
    bars = lines_of(opened, "[data-bars]")
    assert [name for name, *_ in bars] == 2 * list(STAGES)
    assert {axis for *_, axis in bars} == {"x", "x2"}
    opened.evaluate("document.querySelector('main details').open = true")
    assert [text[:6] for text in seen(opened, "#items caption")] == ["static", "hindsi"]
    assert len(seen(opened, "#items tbody tr")) == 2 * 20
    opened.choose("#layout", "side by side")
    assert [axis for *_, axis in lines_of(opened, arrivals)] == ["x", "x2"]
    opened.choose("#episode", "b, seed 0")
    assert opened.evaluate("chosen().episode.tags.scenario") == "b"
    opened.choose("[data-filter=scenario]", "a")
    assert opened.evaluate("chosen().episode.name") == "a, seed 0"


def test_the_address_is_a_link_to_what_was_chosen(opened: Browser, report: Path) -> None:
    opened.choose("[data-filter=scenario]", "b")
    opened.choose("#second", "hindsight")
    opened.evaluate(
        "[...document.querySelectorAll('.legend button')].find(one => one.textContent === 'static').click()"
    )
    address = opened.evaluate("location.hash")
    opened.call("Page.navigate", url="about:blank")
    opened.open(report, address)
    opened.wait("explorer && document.querySelector('.chart[data-drawn]')")
    assert seen(opened, "#status") == ["Showing 1 of 2 scenarios and 3 of 4 policies."]
    assert opened.evaluate("[chosen().episode.name, ...chosen().pair]") == ["b, seed 0", "learned", "hindsight"]
    assert opened.evaluate("document.querySelectorAll('.legend [aria-pressed=false]').length") == 1


def test_the_theme_follows_the_system_and_the_button(opened: Browser) -> None:
    def ground() -> str:
        return str(opened.evaluate("getComputedStyle(document.body).backgroundColor"))

    white, black = "rgb(255, 255, 255)", "rgb(18, 22, 28)"
    dark = opened.evaluate("document.querySelector('#theme').getAttribute('aria-pressed')") == "true"
    assert dark == opened.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert ground() == (black if dark else white)
    opened.evaluate("document.querySelector('#theme').click()")
    assert ground() == (white if dark else black)
    opened.evaluate("draw(document.querySelector('.chart')).then(() => true)")
    ink = opened.evaluate("getComputedStyle(document.querySelector('.chart svg .xtitle')).fill")
    assert ink == opened.evaluate("getComputedStyle(document.body).color")


def test_the_keyboard_reaches_everything_in_order(opened: Browser) -> None:
    """Tab goes from the skip link down the page; every stop says what it is."""
    stops = []
    for _ in range(40):
        opened.press("Tab", 9)
        stops.append(opened.evaluate(FOCUSED))
    assert stops[0] == ["A", "", "Skip to the content"]
    names = [(tag, name) for tag, name, _ in stops]
    expected = [("BUTTON", "theme"), ("SELECT", "family"), ("SELECT", "scenario")]
    expected += [("SELECT", name) for name in ("episode", "first", "second", "layout")]
    assert [one for one in names if one in expected][: len(expected)] == expected
    said = [text for *_, text in stops]
    assert said.index("All") < said.index("static") < said.index("Table by policy") < said.index("The same as a table")
    assert all(said)
    opened.evaluate("document.activeElement.blur(); document.querySelector('.legend button:last-child').focus()")
    opened.press("Enter", 13, "\r")
    assert opened.evaluate("document.activeElement.getAttribute('aria-pressed')") == "false"


def test_a_browser_without_decompression_says_so_and_shows_the_tables(report: Path, tmp_path: Path) -> None:
    page = tmp_path / "old.html"
    removed = "<script>delete globalThis.DecompressionStream</script>"
    page.write_text(report.read_text(encoding="utf-8").replace("<head>", f"<head>{removed}", 1), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(page)
        browser.wait("document.querySelector('[role=alert]')")
        assert "cannot be drawn" in seen(browser, "[role=alert]")[0]
        assert seen(browser, "main table")
        assert browser.complaints == []
