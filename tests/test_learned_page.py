"""The page on the learned policies: from a small run to its words, and the one that is shipped from its results."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents.card import ModelCard
from agents.guard import Guard
from docs.learned import comparison, episodes, responses
from docs.learned.__main__ import measured
from docs.learned.page import COMMAND, learned_page, pictures
from docs.learned.results import FOLDER, RESULTS, as_json, plain, read_results
from docs.learned.shipped import SCRIPTED, Shipped, rivals, shipped
from docs.panels import Panel, panels, ticks
from prfaas_env.environment.actions import PREFILL_SPAN
from prfaas_env.environment.observation import COMPONENTS, HISTOGRAM_FACTS, layout_hash
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.standings import BASELINE
from prfaas_env.policies import policy_class
from prfaas_env.scenario import load_scenario
from prfaas_env.theory.online import OnlineClosedForm

MODEL = Shipped("learned", "residual", "windowed-closed-form", 1, "PPO")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two short scenarios, one of them with a narrow link, on two seeds."""
    folder = tmp_path_factory.mktemp("learned")
    for name in ("drift-mix", "link-shared"):
        (folder / f"{name}.yaml").write_text(f"{{name: {name}-short, extends: {name}, horizon_s: 600}}")
    paths = [str(folder / f"{name}.yaml") for name in ("drift-mix", "link-shared")]
    found = measured(paths, 2, 0, folder / "out", 1)
    results: dict[str, Any] = json.loads(as_json({"command": COMMAND, **found}))
    return results


def test_the_shipped_page_is_what_its_results_say() -> None:
    if not RESULTS.is_file():
        pytest.skip(f"no results yet: `{COMMAND}` writes them")
    shown, hint = read_results(), f"run `{COMMAND} --from-results`"
    assert (FOLDER / "learned.md").read_text(encoding="utf-8") == learned_page(shown), hint
    for name, picture in pictures(shown).items():
        assert (FOLDER / "images" / name).read_text(encoding="utf-8") == picture, hint


def test_the_shipped_page_is_of_the_shipped_models() -> None:
    if not RESULTS.is_file():
        pytest.skip(f"no results yet: `{COMMAND}` writes them")
    shown = {name: found["model"]["hash"] for name, found in read_results()["policies"].items()}
    assert shown == {model.name: model.hash for model in shipped()}, f"run `{COMMAND}`"


def test_every_shipped_model_has_its_sections(results: dict[str, Any]) -> None:
    page = learned_page(results)
    for model in shipped():
        assert f"## `{model.name}`" in page
        assert f"its network corrects `{model.base}`" in page
    for name, picture in pictures(results).items():
        assert f"(images/{name})" in page
        assert picture.startswith("<svg")
        assert "nan" not in picture
    assert "nan" not in page
    assert "None" not in page


def test_ratios_are_those_of_the_episodes(results: dict[str, Any]) -> None:
    """Of one scenario, worked out from the costs that the results keep; and of all, their geometric mean."""
    for name, found in results["policies"].items():
        compared, ratios = found["comparison"], []
        for scenario, costs in results["ttft_mean_s"].items():
            own, other = np.array(costs[name]), np.array(costs[BASELINE])
            ratios.append(own.mean() / other.mean())
            stored = compared["scenarios"][scenario][BASELINE]
            assert stored["value"] == pytest.approx(ratios[-1], rel=1e-4)
            assert stored["wins"] == pytest.approx((own < other).mean())
        assert compared["all"][BASELINE]["value"] == pytest.approx(np.exp(np.log(ratios).mean()), rel=1e-4)


def test_targets_are_hit_or_missed_by_their_figures(results: dict[str, Any]) -> None:
    for found in results["policies"].values():
        for target in found["comparison"]["aimed_at"]:
            below = target["value"] < target["bound"]
            assert target["hit"] == (below if target["sign"] in "<≤" else not below)
    found = copy.deepcopy(results["policies"]["learned"]["comparison"])
    for target in found["aimed_at"]:
        target["hit"] = False
    page = "\n".join(comparison.sections("learned", found))
    assert f"0 of {len(found['aimed_at'])} targets hit" in page
    assert page.count("**missed**") == len(found["aimed_at"])


def test_rivals_are_the_base_and_the_best() -> None:
    order = ("learned", "least-completion", "load-aware", "priced-completion", BASELINE)
    board: Any = SimpleNamespace(ranked=[SimpleNamespace(policy=policy) for policy in order])
    assert list(rivals(board, MODEL)) == [
        BASELINE, "windowed-closed-form", "load-aware", "least-completion", "priced-completion",
    ]  # fmt: skip
    by_price = Shipped("learned-price", "price", "priced-completion", 1, "PPO")
    assert list(rivals(board, by_price)) == [BASELINE, "priced-completion", "least-completion"]
    assert {policy_class(name).action_mode for name in SCRIPTED} == {"residual", "absolute", "price"}


def test_extremes_are_one_a_scenario_and_in_order() -> None:
    costs = {("a", 0): 0.5, ("a", 1): 0.4, ("b", 0): 2.0, ("b", 1): 0.9, ("c", 0): 1.5, ("d", 0): 0.8}
    rows = [
        {
            "policy": policy,
            "scenario": scenario,
            "seed": seed,
            "ttft_mean_s": 3.0 * (cost if policy == "learned" else 1),
        }
        for (scenario, seed), cost in costs.items()
        for policy in ("learned", BASELINE)
    ]
    found = episodes.extremes(rows, MODEL)
    assert [one[:2] for one in found["gain"]] == [("a", 1), ("d", 0), ("b", 1)]
    assert [one[:2] for one in found["loss"]] == [("b", 0), ("c", 0), ("d", 0)]


def test_a_course_adds_up_to_its_run() -> None:
    run = simulate(load_scenario("drift-mix").with_overrides(horizon_s=600.0), "learned", 0)
    course = episodes._course(run)
    assert len(course["minutes"]) == 10
    assert sum(course["arrivals_rps"]) * 60.0 == pytest.approx(run.summary["arrived"])
    assert np.mean(course["n_prefill"]) == pytest.approx(run.timeline["prefill_nodes"].mean())


def test_the_sentence_says_what_differs() -> None:
    own = {
        "ttft_mean_s": 2.0, "remote_share": 0.6, "n_prefill": 3.0, "threshold_tokens": 9000.0, "by_price": 0.0,
        "conversions": 2.0, "first_change_s": 100.0, "most_waiting": 40.0,
    }  # fmt: skip
    episode = {"figures": {"learned": own, BASELINE: {**own, "remote_share": 0.3, "first_change_s": 400.0}}}
    told = episodes.differs(MODEL, episode)
    assert "asks for its first conversion 300 s earlier, at 100 s, sends 60 % of the requests remote (30 %);" in told
    assert "prefill instances" not in told
    episode["figures"][BASELINE]["first_change_s"] = None
    assert "at 100 s (for none)" in episodes.differs(MODEL, episode)


def test_a_sweep_moves_one_thing_and_what_follows_from_it() -> None:
    scenario = load_scenario("paper-stationary-80").with_overrides(horizon_s=900.0)
    closed_form = OnlineClosedForm(scenario.deployment, scenario.nominal, 1.0, 1.0)
    moment = responses.record(scenario, "windowed-closed-form", seeds=(0,))[0]
    changed = {key: sweep.change(closed_form, moment, sweep.values[-1]) for key, sweep in responses.SWEEPS.items()}
    assert all(set(of) == {component.name for component in COMPONENTS} for of in changed.values())
    assert changed["load"]["arrivals"] / changed["load"]["lambda_max"] == pytest.approx(1.3, rel=1e-3)
    for key in ("mix", "capacity"):
        of = changed[key]
        assert of["arrivals"] / of["lambda_max"] == pytest.approx(moment.observed["load"], rel=1e-3)
    assert sum(changed["mix"][name] for name in HISTOGRAM_FACTS) == pytest.approx(1.0)
    assert changed["mix"]["advised_threshold"] > moment.observed["advised_threshold"]
    assert changed["capacity"]["advised_threshold"] == pytest.approx(moment.observed["advised_threshold"], rel=1e-3)
    narrow = responses.SWEEPS["capacity"].change(closed_form, moment, 5.0)
    assert narrow["advised_threshold"] > moment.observed["advised_threshold"]
    assert changed["backlog"]["link_backlog"] == responses.SWEEPS["backlog"].values[-1]


def test_the_guard_is_counted_where_it_acts(results: dict[str, Any]) -> None:
    for found in results["policies"].values():
        for of in (found["guard"] or {}).values():
            assert 0 <= of["held_back"] <= of["steps"] == 60 * of["episodes"]
            assert (of["held_back"] > 0) == (of["touched"] > 0)


def test_panels_leave_gaps_and_round_ticks() -> None:
    svg = panels([[Panel("one", {"a": ([0.0, 1.0, 2.0, 3.0], [1.0, None, 2.0, 3.0])})]])
    assert svg.count("M") >= 2
    (line,) = [part for part in svg.splitlines() if 'stroke-width="1.6"' in part]
    assert (line.count("M"), line.count("L")) == (2, 1)
    assert ticks(0.0, 10.0, log=False) == [0.0, 5.0, 10.0]
    assert ticks(1.0, 1000.0, log=True) == [1.0, 10.0, 100.0, 1000.0]
    assert all(14_000 <= tick <= 20_000 for tick in ticks(14_000.0, 20_000.0, log=True))
    assert json.loads(as_json({"a": ["b c", "d"], "e": [1, [2]]})) == {"a": ["b c", "d"], "e": [1, [2]]}
    assert plain({"x": [float("nan"), 1.0 / 3.0]}) == {"x": [None, 0.33333]}


def test_an_answer_is_what_is_in_force_once_the_guard_has_let_n_p_move() -> None:
    scenario = load_scenario("paper-stationary-50").with_overrides(horizon_s=600.0)

    class OneMore:
        action_mode = "residual"

        def predict(self, observation: np.ndarray, state: Any = None, *_: Any) -> tuple[np.ndarray, Any]:
            return np.array([0.0, 1.0 / PREFILL_SPAN], dtype=np.float32), state

    moment = responses.record(scenario, "windowed-closed-form", seeds=(0,))[0]
    guard = Guard(OneMore(), ModelCard("PPO", "residual", layout_hash()), scenario)  # type: ignore[arg-type]
    control, held_back = responses._answer(guard, scenario, moment.observed)
    assert control.n_prefill == round(moment.observed["advised_prefill"]) + 1
    assert held_back == 0.0
