"""The leaderboard: the score by hand, entries that are played again, every kind of forgery, and a stranger's policy."""

from __future__ import annotations

import base64
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evaluate as command_line
from prfaas_env.cli.app import main as package
from prfaas_env.cli.errors import run
from prfaas_env.config import ConfigError
from prfaas_env.evaluation import evaluation, suites
from prfaas_env.evaluation.controls import CONTROL_DTYPE
from prfaas_env.leaderboard import suite as suite_module
from prfaas_env.leaderboard.board import board, read_entries
from prfaas_env.leaderboard.coding import pack, unpack
from prfaas_env.leaderboard.entry import MOST_BYTES, read_entry
from prfaas_env.leaderboard.page import to_markdown
from prfaas_env.leaderboard.score import cost_s, costs_s, family_scores, gains, score, score_interval
from prfaas_env.leaderboard.suite import SUITES, LeaderboardSuite
from prfaas_env.leaderboard.verify import check_replay, replays

ROOT = Path(__file__).resolve().parent.parent
ENTRIES = ROOT / "leaderboard" / "entries"
HONEST = "windowed-closed-form"  # its entry is what forgers begin with
POLICIES = ("naive", HONEST, "least-completion")
TINY = {
    "brief": "{name: brief, extends: drift-mix, horizon_s: 300, control_step_s: 30, family: one}",
    "busy": "{name: busy, extends: mix-step-up, horizon_s: 300, control_step_s: 30, family: two}",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A suite of two scenarios of five minutes and two seeds; in the folder, entries of three policies."""
    folder = tmp_path_factory.mktemp("leaderboard")
    for name, text in TINY.items():
        (folder / f"{name}.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "_can_report", lambda: False)  # which would take the longest
        patch.setitem(suites.GROUPS, "tiny", tuple(str(folder / f"{name}.yaml") for name in TINY))
        own = LeaderboardSuite("tiny", version=1, seeds=2, floor="naive", bound="least-completion")
        patch.setitem(suite_module.SUITES, "tiny", own)
        for policy in POLICIES:
            assert submitted(folder, policy, policy) == 0
        yield folder


def call(command: Any, *arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as exit_:
        run(command, [str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def submitted(folder: Path, policies: str, name: str, *more: str, scenarios: str = "tiny") -> int:
    options = ("--policies", policies, "--scenarios", scenarios, "--seeds", "2", "--workers", "1")
    entry = folder / "entries" / f"{name}.json"
    return call(command_line.main, *options, "--out", folder / f"of {name}", "--submit", entry, *more)


def verified(path: Path) -> int:
    return call(package, "verify", path, "--workers", "1")


# --- the score ------------------------------------------------------------------------------------------------------


def test_a_refused_request_costs_the_horizon() -> None:
    figures = {"arrived": 10.0, "completed": 8.0, "rejected": 2.0, "ttft_mean_s": 5.0}
    assert cost_s(figures, 3600.0) == pytest.approx((8 * 5 + 2 * 3600) / 10)
    assert cost_s({**figures, "completed": 0.0, "rejected": 10.0, "ttft_mean_s": None}, 60.0) == 60.0
    for wrong in ({"completed": 7.0}, {"arrived": 0.0, "completed": 0.0, "rejected": 0.0}):
        with pytest.raises(ConfigError, match="requests completed or rejected"):
            cost_s({**figures, **wrong}, 3600.0)


def test_the_score_by_hand() -> None:
    """Four families, the first of two scenarios: 100 × (.2 + .4) / (.4 + .8), 0, 100 and −900; the middle half of
    the four is the mean of 0 and 50."""
    families = ("a", "a", "b", "c", "d")
    gain, possible = np.array([0.2, 0.4, 0.0, 0.5, -9.0]), np.array([0.4, 0.8, 0.3, 0.5, 1.0])
    assert family_scores(gain, possible, families).tolist() == pytest.approx([50.0, 0.0, 100.0, -900.0])
    assert score(gain, possible, families) == pytest.approx(25.0)
    assert score(possible, possible, families) == pytest.approx(100.0)


def test_an_overloaded_episode_counts_as_any_other_and_a_collapse_ten_times_at_most() -> None:
    floor = np.array([2.0, 400.0, 2.0, 2.0])
    assert gains(np.array([1.0, 200.0, 5000.0, 0.01]), floor) == pytest.approx(np.log([2, 2, 0.1, 10]))


def test_intervals_of_the_scale_are_points_and_models_are_units() -> None:
    rng = np.random.default_rng(0)
    families, possible = ("a", "b", "b"), rng.lognormal(-1.0, 0.5, (3, 12))
    assert score_interval(np.zeros((1, 3, 12)), possible, families) == pytest.approx((0.0, 0.0))
    assert score_interval(possible[None], possible, families) == pytest.approx((100.0, 100.0))
    shares = np.linspace(0.2, 0.6, 9)
    low, high = score_interval(shares[:, None, None] * possible, possible, families)
    assert (low + high) / 2 == pytest.approx(40.0)
    assert 2 * 10.0 < high - low < 2 * 25.0  # a t interval of nine shares: 40 ± 2.31 · 13.7 / 3


SIZE = np.array([0.25, 0.5, 0.3, 0.2, 1.0, 0.4])
FAMILIES = ("paper", "drift", "drift", "rate", "agents", "link")
SHARES = {"apart": (0.1, 0.3, 0.3, 0.5, 0.7, 0.9), "alike": (0.5,) * 6, "collapsing": (-3.0, -1.0, -0.5, 0.2, 0.5, 0.6)}


def coverage_of_scores(shares: tuple[float, ...], seeds: int, trials: int, resamples: int) -> float:
    """Like ours: six scenarios, possible gains that vary by half from seed to seed, an entry's with heavy tails."""
    rng, covered, size = np.random.default_rng(5), 0, SIZE[:, None]
    truth = float(score(SIZE * np.array(shares), SIZE, FAMILIES))
    for _ in range(trials):
        possible = size * rng.lognormal(-0.125, 0.5, (6, seeds))
        noise = 0.4 * size * rng.standard_t(4, (6, seeds)) / np.sqrt(2)
        low, high = score_interval((np.array(shares)[:, None] * possible + noise)[None], possible, FAMILIES, resamples)
        covered += low <= truth <= high
    return covered / trials


@pytest.mark.parametrize("kind", ["apart", "alike"])
def test_intervals_of_the_score_cover_the_truth(kind: str) -> None:
    """120 evaluations of ten seeds; the share has a standard error of 2 %."""
    assert 0.91 <= coverage_of_scores(SHARES[kind], 10, 120, resamples=300) <= 0.995


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHARES)
def test_coverage_is_what_the_page_says(kind: str) -> None:
    page = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    written = re.search(rf"\| {kind} .*\| (\d\d\.\d) % \|", page)
    assert written
    assert coverage_of_scores(SHARES[kind], 10, 1000, resamples=500) == pytest.approx(
        float(written[1]) / 100, abs=0.005
    )


# --- entries --------------------------------------------------------------------------------------------------------


control_rows = st.tuples(
    st.integers(0, 50),
    st.booleans(),
    st.booleans(),
    st.floats(0.0, allow_nan=False, allow_infinity=True),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(control_rows, min_size=1, max_size=40))
def test_controls_survive_as_text_bit_for_bit(rows: list[tuple[Any, ...]]) -> None:
    controls = np.array(rows, dtype=CONTROL_DTYPE)
    assert unpack(pack(controls), len(rows)).tobytes() == controls.tobytes()


def test_every_kind_of_policy_can_be_played_again(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that changes law, threshold, price and N_p at every step: zero prices and thresholds are told apart too."""
    (restless := tiny / "restless.py").write_text(
        "from prfaas_env.simulator.control import Control\n"
        "class Restless:\n"
        "    def control(self, loop):\n"
        "        k = len(loop.episode.signals)\n"
        "        law = ('threshold', 'price')[k % 2]\n"
        "        return Control(1 + k % 3, (0.0, 0.0, 9e3, 1.0, float('inf'))[k % 5], law, (k % 3) - 1.0)\n"
        "def policy(scenario):\n"
        "    return Restless()\n"
    )
    assert submitted(tiny, str(restless), "restless") == 0
    path = tiny / "entries" / "restless.json"
    entry = read_entry(path)
    assert entry.plans
    controls = unpack(entry.episodes[0].controls, 10)
    assert controls["by_price"].tolist() == [False, True] * 5
    assert verified(path) == 0
    assert "4 of 4 episodes give their figures to the last bit" in capsys.readouterr().out
    path.unlink()


def test_models_of_one_recipe_are_one_entry(tiny: Path) -> None:
    for name in ("a", "b"):
        (tiny / name).mkdir()
        shutil.copy(ROOT / "agents" / "pretrained" / "residual" / "model.npz", tiny / name)
    models = [str(tiny / name / "model.npz") for name in ("a", "b")]
    assert submitted(tiny, ",".join(models), "recipe", "--entry-name", "two models") == 0
    path = tiny / "entries" / "recipe.json"
    entry = read_entry(path)
    assert entry.runs == tuple(models)
    assert len(entry.episodes) == 8
    assert verified(path) == 0
    assert "| 2 models, few: a hint |" in to_markdown([board(read_entries(tiny / "entries"), "tiny")])
    path.unlink()


def test_the_board_of_the_tiny_suite(tiny: Path) -> None:
    found = board(read_entries(tiny / "entries"), "tiny")
    scores = {placed.entry.name: placed.score for placed in found.placed}
    assert scores["naive"] == 0.0
    assert scores["least-completion"] == pytest.approx(100.0)
    floor, bound = (next(p for p in found.placed if p.entry.name == name) for name in ("naive", "least-completion"))
    assert (floor.wins, floor.gap) == (0.5, pytest.approx(100.0))
    assert [placed.entry.name for placed in found.placed] == ["least-completion", HONEST, "naive"]
    ours, theirs = (costs_s(placed.entry, found.suite) for placed in found.placed[:2])
    assert bound.wins_next == np.mean(ours < theirs) > 0.5
    assert np.isnan(floor.wins_next)
    assert (bound.low, bound.high) == pytest.approx((100.0, 100.0))
    assert bound.families == pytest.approx({"one": 100.0, "two": 100.0})
    (tiny / "entries" / "naive.json").rename(tiny / "naive.json")
    with pytest.raises(ConfigError, match=r"suite tiny: expected naive\.json among the entries"):
        board(read_entries(tiny / "entries"), "tiny")
    (tiny / "naive.json").rename(tiny / "entries" / "naive.json")


def test_a_strangers_policy_comes_onto_the_board(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the page, with its own commands."""
    page = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")
    (mine := tiny / "mine.py").write_text(re.findall(r"```python\n(.*?)```", page, flags=re.S)[0])
    said = ("--entry-name", "shorter | wait", "--entry-author", "A. Stranger", "--entry-link", "https://example.org/x")
    assert submitted(tiny, str(mine), "mine", *said) == 0
    assert verified(tiny / "entries" / "mine.json") == 0
    assert call(package, "leaderboard", "build", "--folder", tiny) == 0
    written = (tiny / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\| [1-4] \| shorter \\\| wait \| [-\d.]+ \|", written)
    assert r"[shorter \| wait](https://example.org/x)" in written
    assert "A. Stranger" in written
    assert "shorter | wait" in capsys.readouterr().out
    (tiny / "entries" / "mine.json").unlink()


@pytest.mark.parametrize(
    ("policies", "more", "expected"),
    [
        ("static,naive", (), "submit: expected one policy, or several models of one recipe"),
        ("static", ("--seed-start", "5"), "submit: expected --seeds 2 from 0 on"),
        ("static", ("--engine", "reference"), "submit: expected the engine compiled"),
        ("static", ("--scenarios", "drift-mix"), "submit: expected --scenarios quick --seeds 10 or --scenarios tiny"),
        ("static", ("--entry-link", "javascript:alert(1)"), "link: expected an address that begins with https://"),
        ("static", ("--entry-name", "a\nb"), "name: expected printable text on one line"),
    ],
)
def test_what_can_be_no_entry_is_said(
    policies: str, more: tuple[str, ...], expected: str, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submitted(tiny, policies, "none", *more) == 2
    assert expected in capsys.readouterr().err
    assert not (tiny / "entries" / "none.json").exists()


# --- forgery --------------------------------------------------------------------------------------------------------


Content = dict[str, Any]


def edited(key: str, value: Any, episode: int = 2) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content["episodes"][episode]["figures"][key] = value

    return change


def scaled(key: str, factor: float) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content["episodes"][3]["figures"][key] *= factor

    return change


def with_controls(field: str, edit: Callable[[np.ndarray], Any]) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        controls = unpack(content["episodes"][1]["controls"], 10)
        controls[field] = edit(controls[field])
        content["episodes"][1]["controls"] = pack(controls)

    return change


def with_text(text: str) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content["episodes"][0]["controls"] = text

    return change


def head(key: str, value: Any) -> Callable[[Content], None]:
    return lambda content: content.update({key: value})


def swap(content: Content) -> None:
    first, second = (content["episodes"][k] for k in (0, 1))
    first["controls"], second["controls"] = second["controls"], first["controls"]


def reorder(content: Content) -> None:
    content["episodes"].reverse()


def drop_scenario(content: Content) -> None:
    content["episodes"] = [one for one in content["episodes"] if one["scenario"] != "busy"]


def add_seed(content: Content) -> None:
    content["episodes"].append({**content["episodes"][-1], "seed": 2})


def add_scenario(content: Content) -> None:
    content["episodes"] += [{**content["episodes"][0], "scenario": "drift-mix"}]


BOMB = base64.b64encode(zlib.compress(bytes(50_000_000), 9)).decode()
TRAILING = base64.b64encode(zlib.compress(bytes(10 * CONTROL_DTYPE.itemsize)) + b"more").decode()


@pytest.mark.parametrize(
    ("forge", "expected"),
    [
        # figures
        (scaled("ttft_mean_s", 0.99), r"busy, seed 1: ttft_mean_s: says [\d.]+, its controls give [\d.]+$"),
        (scaled("ttft_p99_s", 1 + 1e-6), "busy, seed 1: ttft_p99_s: says"),
        (edited("completed", 1.0), "busy, seed 0: completed: says 1.0, its controls give"),
        (edited("rejected", None), "busy, seed 0: rejected: says None, its controls give 0.0"),
        (edited("ttft_p50_s", 0.0), r"episodes\[2\]\.figures\.ttft_p50_s: expected a number > 0, got 0"),
        (edited("goodput", -0.1), r"episodes\[2\]\.figures\.goodput: expected a number ≥ 0, got -0\.1"),
        (edited("conversions", 77.0), "busy, seed 0: conversions: says 77.0"),
        # controls
        (with_controls("threshold_tokens", lambda t: t * 0 + 1.0), "brief, seed 1: .*: says .*, its controls give"),
        (with_controls("n_prefill", lambda n: n + 1), "brief, seed 1: .* says .*, its controls give"),
        (with_controls("by_price", np.logical_not), "brief, seed 1: .* says .*, its controls give"),
        (with_controls("abundant", np.logical_not), "brief, seed 1: controls: step 0: abundant says"),
        (with_controls("n_prefill", lambda n: n * 0 - 1), "brief, seed 1: control: n_prefill: expected a whole number"),
        (with_controls("price_s", lambda p: p * np.nan), "brief, seed 1: control: price_s: expected a number"),
        (swap, "brief, seed 0: .* says .*, its controls give"),
        (with_text("not base 64!"), "brief, seed 0: controls: damaged"),
        (with_text("AAAA"), "brief, seed 0: controls: damaged"),
        (with_text(BOMB), "brief, seed 0: controls: expected those of 10 control steps"),
        (with_text(TRAILING), "brief, seed 0: controls: expected those of 10 control steps"),
        (with_text(pack(np.zeros(9, CONTROL_DTYPE))), "brief, seed 0: controls: expected those of 10 control steps"),
        # the suite and its episodes
        (head("suite", "quik"), "suite: unknown suite 'quik'; did you mean 'quick'?"),
        (head("suite", "quick"), "suite_hash: expected .*: measured on another suite"),
        (head("suite_hash", "0" * 12), "suite_hash: expected .*, got 000000000000"),
        (head("suite_version", 2), "suite_version: expected 1, got 2"),
        (lambda c: c["episodes"].pop(1), rf"episodes: brief, seed 1 \(run {HONEST}\) is missing"),
        (drop_scenario, "episodes: busy, seed 0 .* is missing"),
        (lambda c: c["episodes"].append(c["episodes"][1]), "episodes: brief, seed 1 .* is there twice"),
        (add_seed, "episodes: busy, seed 2 .* is no part of suite tiny"),
        (add_scenario, "episodes: drift-mix, seed 0 .* is no part of suite tiny"),
        (reorder, "episodes: busy, seed 1 .* stands where brief, seed 0 .* belongs"),
        (head("runs", ["naive"]), rf"episodes: brief, seed 0 \(run {HONEST}\) is no part"),
        (head("runs", []), "runs: expected one policy"),
        # types and schema
        (head("schema", 2), "schema: expected 1, got 2"),
        (head("schema", "1"), "schema: expected a whole number"),
        (
            edited("ttft_mean_s", "2.5"),
            r"episodes\[2\]\.figures\.ttft_mean_s: expected a number, got '2\.5'",
        ),
        (edited("arrived", True), r"figures\.arrived: expected a number, got True"),
        (edited("ttft_maen_s", 1.0), "ttft_maen_s: unknown key; did you mean 'ttft_mean_s'?"),
        (lambda c: c["episodes"][0]["figures"].pop("goodput"), "figures: missing keys: goodput"),
        (lambda c: c["episodes"][0].update(seed=0.5), r"episodes\[0\]\.seed: expected a whole number"),
        (lambda c: c["episodes"][0].update(controls=[1, 2]), r"episodes\[0\]\.controls: expected text"),
        (head("episodes", {}), "episodes: expected a list"),
        (head("extra", 1), "extra: unknown key"),
        (lambda c: c.pop("author"), "author: missing key"),
        (head("decision_ms", -1.0), "decision_ms: expected a number ≥ 0, got -1.0"),
        (head("date", "yesterday"), "date: expected a day as 2026-01-31"),
        (head("approach", "x" * 401), "approach: expected printable text on one line, at most 400 characters"),
    ],
)
def test_what_was_tampered_with_is_refused_in_one_line(
    forge: Callable[[Content], Any], expected: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((tiny / "entries" / f"{HONEST}.json").read_text(encoding="utf-8"))
    forge(content)
    (forged := tmp_path / "forged.json").write_text(json.dumps(content))
    assert verified(forged) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: [^\n]+\n", said)
    assert re.search(re.escape(str(forged)) + r": .*" + expected.replace("?", r"\?"), said.rstrip()), said


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"goodput": ', '"goodput": NaN, "x": ', "expected finite numbers, got NaN"),
        ('"goodput": ', '"goodput": -Infinity, "x": ', "expected finite numbers, got -Infinity"),
        ('"goodput": ', '"goodput": 1e999, "x": ', "figures.goodput: expected a number, got inf"),
        ('"goodput": ', '"goodput": 1.0, "goodput": ', "'goodput': key given twice"),
        ('"schema": 1', f'"schema": {"1" * 5000}', "not valid JSON"),
        ('"schema": 1', f'"schema": {"[" * 100_000}', "not valid JSON"),
        ("{", "", "not valid JSON"),
        ("{", "[{", "not valid JSON"),
        ('"link": ""', '"link": "\udcff"', "not valid JSON"),
        ('"link": ""', f'"link": "{" " * MOST_BYTES}"', "expected at most 8,000,000 bytes"),
    ],
    ids=("NaN", "infinity", "overflow", "twice", "digits", "depth", "cut", "open", "bytes", "huge"),
)
def test_a_file_that_is_no_entry_is_refused_in_one_line(
    old: str, new: str, expected: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (tiny / "entries" / f"{HONEST}.json").read_text(encoding="utf-8").replace(old, new, 1)
    (forged := tmp_path / "forged.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    assert verified(forged) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: [^\n]+\n", said)
    assert f"{forged}: " in said
    assert expected in said


def test_an_entry_as_written_is_accepted_and_quickly_too(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny / "entries" / f"{HONEST}.json"
    assert verified(path) == 0
    assert call(package, "verify", path, "--quick", "--workers", "1") == 0
    assert "2 of 4 episodes give their figures to the last bit" in capsys.readouterr().out
    assert verified(tiny / "none.json") == 2
    assert "none.json: cannot be read (No such file or directory)" in capsys.readouterr().err


def test_names_are_taken_once(tiny: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        shutil.copy(tiny / "entries" / f"{HONEST}.json", tmp_path / f"{name}.json")
    with pytest.raises(ConfigError, match=r"other\.json: name: 'windowed-closed-form' is taken by one\.json"):
        read_entries(tmp_path)


# --- the shipped leaderboard ----------------------------------------------------------------------------------------

SHIPPED = sorted(path.stem for path in ENTRIES.glob("*.json"))


def test_the_shipped_page_is_that_of_the_shipped_entries() -> None:
    entries = read_entries(ENTRIES)
    assert set(entries) >= {"dual-timescale", "hindsight", "learned"}
    page = to_markdown([board(entries, name) for name in SUITES if name != "tiny"])
    assert (ROOT / "leaderboard" / "README.md").read_text(encoding="utf-8") == page


@pytest.mark.parametrize("name", SHIPPED)
def test_an_episode_of_each_shipped_entry_gives_its_figures(name: str) -> None:
    """Another one of each; `make test-slow` plays them all."""
    entry = read_entry(ENTRIES / f"{name}.json")
    episodes = replays(entry, SUITES[entry.suite])
    check_replay(episodes[zlib.crc32(name.encode()) % len(episodes)])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_entries_give_their_figures(name: str) -> None:
    entry = read_entry(ENTRIES / f"{name}.json")
    assert len([check_replay(one) for one in replays(entry, SUITES[entry.suite])]) == 60 * len(entry.runs)
