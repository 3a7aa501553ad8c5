"""The page of findings: what its results say, what the closed form says today, and what its words claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from docs.findings import drift, equal_cost, models, pipelining, same_dc, tail
from docs.findings.laboratory import HOMOGENEOUS, NAIVE, PRFAAS, SAME_DC, Laboratory
from docs.findings.page import COMMAND, MODULES, findings_page, pictures, striking
from docs.findings.results import FOLDER, Found, estimates, found_of, read_results, rounded
from prfaas_env.scenario import load_scenario

OTHER_SEEDS = range(100, 105)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return read_results()


def numbers(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf, with the keys that lead to it."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from numbers(value, f"{path}/{key}")
    elif isinstance(found, list):
        for k, value in enumerate(found):
            yield from numbers(value, f"{path}/{k}")
    else:
        yield path, found


def test_page_and_pictures_are_what_the_results_say(results: dict[str, Any]) -> None:
    hint = f"run `{COMMAND} --from-results`"
    assert (FOLDER / "findings.md").read_text(encoding="utf-8") == findings_page(results), hint
    for name, picture in pictures(results).items():
        assert (FOLDER / "images" / name).read_text(encoding="utf-8") == picture, hint


def test_the_readme_has_the_two_most_striking(results: dict[str, Any]) -> None:
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert striking(results) in " ".join(readme.split())


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)
def test_the_closed_form_gives_its_part_today(results: dict[str, Any], module: Any) -> None:
    stored, today = dict(numbers(results["closed_form"][module.NAME])), dict(numbers(rounded(module.closed_form())))
    assert stored.keys() == today.keys()
    expected = {path: pytest.approx(v, rel=1e-4) if isinstance(v, float) else v for path, v in stored.items()}
    assert today == expected, f"run `{COMMAND}`"


def test_the_shipped_scenarios_are_those_that_ran(results: dict[str, Any]) -> None:
    for name in drift.SCENARIOS:
        assert results["scenarios"][name] == load_scenario(name).hash, f"run `{COMMAND}`"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)
def test_every_estimate_lies_in_its_interval(results: dict[str, Any], module: Any) -> None:
    for path, found in estimates(results["simulated"][module.NAME]):
        assert found["low"] <= found["value"] <= found["high"], path


def found(results: dict[str, Any], module: Any) -> Found:
    return found_of(results, module.NAME)


def test_words_on_models(results: dict[str, Any]) -> None:
    of = found(results, models)
    for name, one in of.closed_form["models"].items():
        limited = one["paper_link_gain"] < 0.99 * one["free_gain"]
        assert limited == one["dense"], name
        assert of.simulated[name]["gain"]["low"] > 1.0, name
        # The check that simulation is of the closed form: 3 % where it is the link that limits, 2 % elsewhere.
        assert of.simulated[name]["gain"]["value"] == pytest.approx(
            one["paper_link_gain"], rel=0.03 if one["dense"] else 0.02
        )


def test_words_on_pipelining(results: dict[str, Any]) -> None:
    of = found(results, pipelining)
    for gbps, one in of.closed_form["links"].items():
        shared, divided = of.simulated[gbps]["kept"]["rps"], of.simulated[gbps]["divided"]["rps"]
        assert divided["value"] == pytest.approx(one["kept"]["lambda_max_rps"], rel=0.02)
        assert shared["low"] > divided["high"]
        assert of.simulated[gbps]["resolved"]["rps"]["value"] < shared["value"]  # "gain nothing on a shared line"
        assert one["resolved"]["lambda_max_rps"] > 2.0  # never "about 1.6"


def test_words_on_equal_cost(results: dict[str, Any]) -> None:
    closed = found(results, equal_cost).closed_form
    gains = [one["gain"] for one in closed["by_egress"].values()]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == pytest.approx(1.15, abs=0.02)
    assert all(
        one["best_per_usd"]["gain"] < 1.0 for egress, one in closed["by_egress"].items() if float(egress) > 0.006
    )


def test_words_on_the_tail(results: dict[str, Any]) -> None:
    of = found(results, tail)
    equal, own, buckets = of.simulated["equal"], of.simulated["own"], of.simulated["ultra_long"]
    assert of.closed_form["unloaded"][NAIVE]["ttft_mean_s"] < of.closed_form["unloaded"][PRFAAS]["ttft_mean_s"]
    for at in equal.values():
        assert at[NAIVE]["p99_ratio"]["high"] > 1.0
        assert at[HOMOGENEOUS]["p99_ratio"]["low"] > 2.0
    assert equal["0.5"][NAIVE]["mean_ratio"]["high"] < 1.0 < equal["0.95"][NAIVE]["mean_ratio"]["low"]
    for at in own.values():  # "no slower" at equal shares of their own limits
        assert at[NAIVE]["mean"]["value"] <= at[PRFAAS]["mean"]["value"]
        assert at[NAIVE]["p99"]["value"] <= at[PRFAAS]["p99"]["value"]
    assert of.closed_form["large"]["kept"] > 0.98
    for load in buckets.values():  # "No division helps both"
        for name, one in load.items():
            better = [one[who]["high"] < load["shared"][who]["low"] for who in ("ordinary", "ultra")]
            assert name == "shared" or not all(better), name


def test_words_on_drift(results: dict[str, Any]) -> None:
    of = found(results, drift).simulated
    over, knobs = of["over_static"]["all"], of["knobs"]["all"]
    assert over[drift.T_ALONE]["high"] < over[drift.T_FIXED]["low"]
    assert over["sliding-window"]["high"] < over[drift.T_ALONE]["low"]
    assert knobs["N_p, t still"]["low"] < 1.0 < knobs["N_p, t still"]["high"]  # "worth nothing as long as t is wrong"
    assert knobs["N_p, t moving"]["high"] < 1.0
    assert over["dual-timescale"]["high"] < over["long-timescale"]["low"]
    assert over["closed-form"]["value"] == pytest.approx(1.0, abs=0.05)
    assert min(over, key=lambda policy: over[policy]["value"]) in ("priced-completion", "least-completion")


def test_words_on_the_same_data_centre(results: dict[str, Any]) -> None:
    of = found(results, same_dc)
    ours = of.closed_form["rates"]["hybrid-1t"]
    assert ours["100 Gbps"] == pytest.approx(ours[SAME_DC], rel=1e-3)
    assert of.simulated["13 Gbps"]["ttft_mean_ratio"]["high"] < 1.02
    assert of.simulated["10 Gbps"]["ttft_mean_ratio"]["low"] > 1.1


@pytest.mark.slow
@pytest.mark.parametrize("module", [one for one in MODULES if one is not equal_cost], ids=lambda module: module.NAME)
def test_figures_come_back_with_other_seeds(results: dict[str, Any], module: Any) -> None:
    """With a quarter of the seeds, none of them the same: both intervals of all but one figure in twenty must meet."""
    stored = dict(estimates(results["simulated"][module.NAME]))
    again = dict(estimates(rounded(module.simulate(Laboratory(OTHER_SEEDS)))))
    # What is chosen in hindsight may be chosen otherwise, and then has other figures.
    assert again.keys() == stored.keys()
    apart = [
        path for path, one in again.items() if one["low"] > stored[path]["high"] or one["high"] < stored[path]["low"]
    ]
    assert len(apart) <= len(stored) / 20, apart
