"""Tuning: the same study whatever the workers and interruptions, its files, and what policies take from them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import agents
from agents.least_completion import LeastCompletion
from docs.tuning_table import COMMAND, PAGE, with_table
from prfaas_env.cli import app
from prfaas_env.cli.errors import BAD_INPUT, run
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.evaluation import evaluate
from prfaas_env.policies import load_policy, policy_class, policy_names, tuning_study
from prfaas_env.scenario import load_scenario
from prfaas_env.seeds import split_of, tuning_seeds, tuning_validation_seeds
from prfaas_env.study import Span, Study, read_study
from prfaas_env.tuning import episodes
from prfaas_env.tuning.episodes import Episode
from prfaas_env.tuning.settings import Settings
from prfaas_env.tuning.trials import Trial, best, objective, to_csv, trials_from_csv
from prfaas_env.tuning.tune import tune

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "agents" / "tuned").glob("*.yaml"))
FILES = ("least-completion.csv", "least-completion.yaml")


@pytest.fixture(autouse=True)
def tunable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeastCompletion, "tunable", {"price_s": Span(-5.0, 20.0)})


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("scenarios")
    for name, load in (("calm", 0.5), ("busy", 0.9)):
        text = f"{{name: {name}, extends: paper-stationary, load: {load}, horizon_s: 60}}"
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(folder / "calm.yaml"), str(folder / "busy.yaml")


def study_of(scenarios: tuple[str, ...], out: Path, trials: int = 4, workers: int = 1, seeds: int = 1) -> Study:
    settings = Settings("least-completion", scenarios, trials=trials, seeds=seeds, validation_seeds=2)
    return tune(settings, out, workers=workers, console=Console(quiet=True))


def read(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def finished(scenarios: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeastCompletion, "tunable", {"price_s": Span(-5.0, 20.0)})
        folder = tmp_path_factory.mktemp("finished")
        study_of(scenarios, folder)
    return folder


# --- the search -------------------------------------------------------------------------------------------------------


def test_workers_change_nothing(scenarios: tuple[str, str], finished: Path, tmp_path: Path) -> None:
    study_of(scenarios, tmp_path, workers=2)
    assert read(tmp_path) == read(finished)


def test_an_interrupted_study_goes_on_as_if_it_had_not_been(
    scenarios: tuple[str, str], finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played, play = 0, episodes._mean_ttft_s

    def interrupted(episode: Episode) -> float:
        nonlocal played
        played += 1
        if played == 4:  # in the second trial
            raise KeyboardInterrupt
        return play(episode)

    monkeypatch.setattr(episodes, "_mean_ttft_s", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study_of(scenarios, tmp_path)
    kept = read_study(tmp_path / FILES[1])
    assert (kept.trials, kept.use, kept.values) == (1, "defaults", {"price_s": 0})
    study_of(scenarios, tmp_path, trials=3)  # a smaller budget, then a longer one
    study_of(scenarios, tmp_path)
    assert read(tmp_path) == read(finished)
    before = played
    study_of(scenarios, tmp_path)
    assert played == before  # nothing is left to do
    assert read(tmp_path) == read(finished)


def test_the_optimum_of_a_known_cost_is_found(
    scenarios: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: set[int] = set()

    def cost_s(episode: Episode) -> float:
        met.add(episode.seed)
        scale = (1.0 if episode.scenario.name == "calm" else 50.0) * (1000.0 if episode.seed % 2 else 1.0)
        return scale * (1.0 + 0.1 * (episode.parameters.get("price_s", 0.0) - 3.0) ** 2)

    monkeypatch.setattr(episodes, "_mean_ttft_s", cost_s)
    study = study_of(scenarios, tmp_path, trials=40, seeds=2)
    assert study.values["price_s"] == pytest.approx(3.0, abs=0.3)
    assert study.use == "tuned"
    assert study.validation is not None
    # 1.9 is the cost of the defaults; scales of scenarios and seeds, a thousandfold overload among them, cancel.
    assert study.objective == pytest.approx(1.0 / 1.9, abs=0.01)
    assert study.validation.ratio == pytest.approx(study.objective, rel=1e-4)
    assert {split_of(seed) for seed in tuning_seeds(2)} == {"train"}
    assert {split_of(seed) for seed in tuning_validation_seeds(2)} == {"validation"}
    assert met == {*tuning_seeds(2), *tuning_validation_seeds(2)}


def test_values_that_are_no_better_on_other_seeds_are_not_used(
    scenarios: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost_s(episode: Episode) -> float:
        gain = split_of(episode.seed) == "train" and episode.parameters.get("price_s", 0.0) != 0.0
        return 0.5 if gain else 1.0

    monkeypatch.setattr(episodes, "_mean_ttft_s", cost_s)
    study = study_of(scenarios, tmp_path)
    assert (study.use, study.in_use, study.objective) == ("defaults", {}, 0.5)
    assert study.validation is not None
    assert study.validation.ratio == 1.0


def test_the_table_of_trials_is_read_as_written(tmp_path: Path) -> None:
    trials = [Trial({"a": 1, "b": 1e-9}, (2.0, 8.0)), Trial({"a": 2, "b": 5.0}), Trial({"a": -3, "b": 0.5}, (1.0, 4.0))]
    assert [objective(trial, trials[0]) for trial in trials] == [1.0, np.inf, 0.5]
    assert best(trials) == 2
    path = tmp_path / "trials.csv"
    path.write_text(to_csv(trials, ["a", "b"], ["x", "y"]), encoding="utf-8")
    again = trials_from_csv(path, {"a": Span(-5, 5), "b": Span(0, 5)}, ["x", "y"])
    assert again == trials
    assert isinstance(again[1].parameters["a"], int)


# --- bad input --------------------------------------------------------------------------------------------------------


def call(*arguments: str | Path) -> int:
    """``python -m prfaas_env tune`` with these arguments, in this process; its exit code."""
    with pytest.raises(SystemExit) as exit_:
        run(app.main, ["tune", *map(str, arguments)])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("naiv",), "unknown scripted policy 'naiv'; did you mean 'naive'"),
        (("naive",), "policy naive: it has no parameters to tune"),
        (("least-completion", "--trials", "1"), "trials: expected a whole number ≥ 2"),
        (("least-completion", "--scenarios", "trian"), "unknown scenario 'trian'"),
        (("least-completion", "--scenarios", ","), "scenarios: expected at least one"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments, "--out", tmp_path / "out") == BAD_INPUT
    assert re.fullmatch(f"error: {re.escape(message)}[^\n]*\n", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_default_outside_its_span_is_refused(
    scenarios: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spans in ({"price_s": Span(1.0, 5.0)}, {"prise_s": Span(0.0, 5.0)}):
        monkeypatch.setattr(LeastCompletion, "tunable", spans)
        with pytest.raises(ConfigError, match=r"pri.e_s: expected a default within the span"):
            study_of(scenarios, tmp_path)
    for bad, message in (({"low": 1.0, "high": 1.0}, "high: expected more"), ({"low": 0.0, "high": 1.0}, "with log")):
        with pytest.raises(ConfigError, match=message):
            Span(**bad, log=True)


def test_scenarios_of_another_split_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("{name: own, extends: paper-stationary-80, horizon_s: 60}", encoding="utf-8")
    options = ("--scenarios", own, "--trials", "2", "--seeds", "1", "--validation-seeds", "2", "--workers", "1")
    assert call("least-completion", *options, "--out", tmp_path) == 0
    said = capsys.readouterr()
    assert "note: own is meant for test: nothing is held out by evaluating on it" in " ".join(said.err.split())
    assert "2 trials × 1 scenarios × 1 seeds = 2 episodes" in said.err
    assert "best: trial" in said.out


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("yaml", r"seeds: 1\n", "seeds: 2\n", r"seeds: not those that the study began with \(2 then, 1 now\)"),
        ("yaml", r"calm: \w+", "calm: 0123456789ab", "scenarios: not those that the study began with; choose"),
        ("yaml", r"prfaas_env: .*", "prfaas_env: 0.0.1", "prfaas_env's version: not those"),
        ("yaml", r"high: 20.0", "high: 20.0\n    hihg: 1", "unknown key; did you mean 'high'"),
        ("yaml", r"policy: .*", "", "missing key"),
        ("csv", r"\n1,[^,]*,", "\n1,99.0,", "line 3: damaged"),  # outside the span
        ("csv", r"\n1,([^,]*),", r"\n1,\1,4", "line 3: damaged"),
        ("csv", r"\n2,", r"\n7,", "line 4: damaged"),
        ("csv", r"\n3,[^\n]*\n", "\n3,1", "line 5: damaged"),
        ("csv", r"^trial", "trail", "line 1: expected the columns trial, price_s, objective, calm ttft_s"),
        ("csv", r"\n0,0.0", "\n0,0.5", "defaults: not those that the study began with"),
    ],
)
def test_a_damaged_or_different_study_is_refused(
    scenarios: tuple[str, str], finished: Path, tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    for file in FILES:
        text = (finished / file).read_text(encoding="utf-8")
        changed = re.sub(old, new, text, count=1) if file.endswith(name) else text
        (tmp_path / file).write_text(changed, encoding="utf-8")
    before = read(tmp_path)
    assert before != read(finished)
    with pytest.raises(ConfigError, match=message) as refusal:
        study_of(scenarios, tmp_path)
    assert "\n" not in str(refusal.value)
    assert read(tmp_path) == before


def test_a_study_is_neither_cut_short_nor_split(scenarios: tuple[str, str], finished: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 4 trials: expected at least as many, got 2"):
        study_of(scenarios, finished, trials=2)
    for kept, message in ((FILES[0], "which says what it is, is not beside it"), (FILES[1], "is missing, .* 4 trials")):
        folder = tmp_path / kept
        folder.mkdir()
        (folder / kept).write_bytes((finished / kept).read_bytes())
        with pytest.raises(ConfigError, match=message):
            study_of(scenarios, folder)
        assert [file.name for file in folder.iterdir()] == [kept]


# --- what policies take from it ---------------------------------------------------------------------------------------


def test_policies_take_tuned_values(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = re.sub(r"price_s: [-\d.]+", "price_s: 2.5", (finished / FILES[1]).read_text(encoding="utf-8"), count=1)
    scenario = load_scenario("paper-stationary")

    def price_s(use: str, folder: str, **given: float | bool) -> float:
        monkeypatch.setattr(agents, "_TUNED", tmp_path / folder)
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / FILES[1]).write_text(re.sub(r"use: \w+", f"use: {use}", text), encoding="utf-8")
        value: float = load_policy("least-completion", scenario, **given).parameters.price_s
        return value

    assert price_s("tuned", "a") == 2.5
    assert price_s("tuned", "a", price_s=1.0) == 1.0
    assert price_s("tuned", "a", tuned=False) == 0.0
    assert price_s("defaults", "b") == 0.0


def test_the_leaderboard_states_the_budget(
    scenarios: tuple[str, str], finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_TUNED", finished)
    options = {"engine": DEFAULT_ENGINE, "console": Console(quiet=True)}
    evaluate(["naive", "least-completion"], scenarios, [0, 1], tmp_path, **options)
    board = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert "scripted policies tuned with 8 episodes each (docs/evaluation.md): least-completion\n" in board


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("policy: least-completion", "policy: static", "policy: expected 'least-completion', got 'static'"),
        ("price_s: ", "prise_s: ", "values.prise_s: unknown key; did you mean 'price_s'"),
        ("use: .*", "use: mine", "use: expected one of 'tuned', 'defaults', got 'mine'"),
        ("use: .*", "use: [", "not valid YAML"),
    ],
)
def test_bad_tuned_values_are_refused_in_one_line(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    path = tmp_path / FILES[1]
    path.write_text(re.sub(old, new, (finished / FILES[1]).read_text(encoding="utf-8"), count=1), encoding="utf-8")
    monkeypatch.setattr(agents, "_TUNED", tmp_path)
    with pytest.raises(ConfigError, match=message) as refusal:
        load_policy("least-completion", load_scenario("paper-stationary"))
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)


# --- the shipped studies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_studies_are_what_their_trials_say(path: Path) -> None:
    study = read_study(path)
    assert path.stem == study.policy
    trials = trials_from_csv(path.with_suffix(".csv"), study.spans, list(study.scenarios))
    number = best(trials)
    assert (len(trials), number, objective(trials[number], trials[0])) == (
        study.trials,
        study.best_trial,
        study.objective,
    )
    assert study.values == trials[number].parameters
    assert study.use == ("tuned" if study.validation is not None and study.validation.high < 1.0 else "defaults")
    assert study.spans == policy_class(study.policy).tunable
    published = policy_class(study.policy).Parameters()
    assert trials[0].parameters == {name: getattr(published, name) for name in study.spans}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (options,) = re.findall(r"^TUNE := (.*)$", makefile, flags=re.MULTILINE)
    assert f"\t$(RUN) -m prfaas_env tune {study.policy} $(TUNE)\n" in makefile
    assert study.command == f"python -m prfaas_env tune {study.policy} {options.replace('agents/tuned', 'DIR')}"


def test_every_policy_with_constants_is_tuned_with_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # least-completion itself has none
    scripted = [name for name in policy_names() if name in agents._SCRIPTED]
    studies = [tuning_study(name) for name in scripted if getattr(policy_class(name), "tunable", None)]
    assert None not in studies
    assert len({(study.budget, *study.scenarios.items()) for study in studies if study is not None}) == 1


def test_the_page_has_the_studies_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), f"run `{COMMAND}`"
    assert all(f"| [`{path.stem}`]" in page for path in SHIPPED)
