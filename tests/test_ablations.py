"""Ablations: two variants on a tiny budget, resumed where they stopped, and a page that says what was found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
pytest.importorskip("sb3_contrib", reason="needs the extra 'train'")

from rich.console import Console

import benchmarks.ablations.study as study_module
from benchmarks.ablations.__main__ import measured
from benchmarks.ablations.page import PAGE, PICTURE, RESULTS, ablations_page, picture
from benchmarks.ablations.study import Study
from benchmarks.ablations.variants import COMMON, REFERENCE, VARIANTS, Variant, named
from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.environment.observation import GROUPS
from prfaas_env.evaluation.suites import members
from prfaas_env.training.settings import Settings

TINY = {"n_envs": 4, "rollout_steps": 10, "minibatches": 4, "learning_rate": 0.05}
STEPS = 80


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "short.yaml"
    path.write_text("{name: short, extends: drift-mix, horizon_s: 120, control_step_s: 20, split: train}")
    return str(path)


def study(tmp_path: Path, scenario: str) -> Study:
    common = {**COMMON, **TINY, "scenarios": [scenario]}
    return Study(tmp_path / "out", STEPS, 2, [scenario], common, Console(quiet=True))


def test_two_variants_are_trained_once_and_told_apart(
    tmp_path: Path, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = named("reference,action-price")
    results = json.loads(json.dumps(measured(study(tmp_path, scenario), variants, 2)))
    rows = results["variants"]
    assert list(rows) == ["reference", "action-price"]
    assert all(set(of["seeds"]) == {"0", "1"} for of in rows.values())
    found = [of["figures"]["ttft_mean_s"] for of in rows.values()]
    assert found[0] != found[1]
    assert all(one["low"] <= one["value"] <= one["high"] for one in found)
    page = ablations_page(results)
    assert all(f"| `{name}` | 2 | {of['figures']['ttft_mean_s']['value']:.2f} [" in page for name, of in rows.items())
    assert "action-price" in picture(results)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished run was trained again")

    with monkeypatch.context() as patched:
        patched.setattr(study_module, "train", refuse)
        assert json.loads(json.dumps(measured(study(tmp_path, scenario), variants, 2))) == results
        # What was trained and not yet played is only played.
        folder = tmp_path / "out" / f"{STEPS}" / "reference" / "seed-0"
        (folder / "figures-2.json").unlink()
        assert json.loads(json.dumps(measured(study(tmp_path, scenario), variants, 2))) == results
    shutil.rmtree(folder / "checkpoints" / f"{STEPS:09d}")  # as if it had been interrupted before its end
    (folder / "figures-2.json").unlink()
    again = measured(study(tmp_path, scenario), [REFERENCE], 1)
    assert (folder / "checkpoints" / f"{STEPS:09d}").is_dir()
    assert again["variants"]["reference"]["seeds"].keys() == {0}


def test_a_variant_s_own_budget_is_kept_to(tmp_path: Path, scenario: str) -> None:
    longer = Variant("longer", "budget", {"timesteps": 2 * STEPS, "checkpoint_every": 2 * STEPS})
    assert len(list(study(tmp_path, scenario).finished([longer], [0]))) == 1
    folder = tmp_path / "out" / f"{STEPS}" / "longer" / "seed-0" / "checkpoints"
    assert [one.name for one in sorted(folder.iterdir())][-1] == f"{2 * STEPS:09d}"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_is_a_valid_run_that_differs_in_what_it_says(variant: Any) -> None:
    settings = from_mapping(Settings, {**COMMON, **variant.settings})
    least = settings.least_copies * len(members("train")) if settings.scenarios == ("train",) else 1
    assert settings.n_envs >= least
    reference = from_mapping(Settings, dict(COMMON))
    assert (settings == reference) == (variant is REFERENCE)


def test_variants_are_named_one_by_one_or_by_their_choice() -> None:
    assert [one.name for one in named("learner,reference")] == ["reference", "learner-es", "learner-sac", "learner-tqc"]
    assert len(named("observation")) == 1 + len(GROUPS)
    assert named(None) == VARIANTS
    with pytest.raises(ConfigError, match="--only: no variant is called 'learner-sax'; did you mean 'learner-sac'"):
        named("learner-sax")


def test_the_page_is_what_the_committed_results_say() -> None:
    if not RESULTS.is_file():
        pytest.skip("no results yet: `python -m benchmarks.ablations` writes them")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == ablations_page(results)
    assert PICTURE.read_text(encoding="utf-8") == picture(results)
