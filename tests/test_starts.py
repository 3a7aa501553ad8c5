"""A start from a scripted policy: lessons from a teacher."""

from __future__ import annotations

import signal
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Skips this file where the training extras are missing, and so comes before what needs them.
from tests.training_runs import call, small, steps_kept, weights

# isort: split
from stable_baselines3 import PPO

from agents.teacher import Teacher
from prfaas_env.cli.errors import BAD_INPUT, INTERRUPTED
from prfaas_env.environment.actions import ActionName, action_form
from prfaas_env.environment.observation import COMPONENTS, decode, encode
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.evaluation.together import play_together
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.seeds import (
    RUN_STRIDE,
    lesson_seeds,
    training_seed,
    validation_seeds,
)
from prfaas_env.training.features import Scaling
from prfaas_env.training.imitation import _fit, _Lesson
from prfaas_env.training.learners import new_model
from prfaas_env.training.model import training_environments
from prfaas_env.training.settings import Settings

# --- a teacher --------------------------------------------------------------------------------------------------------


def test_a_policy_learns_from_a_teacher_before_anything_else(
    scenarios: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of step 0 does what the teacher does, on episodes of neither."""
    monkeypatch.setattr("prfaas_env.training.imitation.STEPS", 2000)
    out = tmp_path / "run"
    lessons = ("teacher=static", "teacher_episodes=6", "critic_rollouts=99", "action=residual", "hidden=[64]")
    assert call(*small(scenarios, out), *(x for more in lessons for x in ("--set", more))) == 0
    scenario = load_scenario(scenarios.split(",")[0])
    taught = simulate(scenario, str(out / "model.zip"), seed=7).timeline
    untaught = simulate(scenario, "windowed-closed-form", seed=7).timeline
    (t,) = set(simulate(scenario, "static", seed=7).timeline["threshold_tokens"][1:])
    difference = [np.abs(np.log(line["threshold_tokens"][1:] / t)).mean() for line in (taught, untaught)]
    assert difference[0] < 0.5 * difference[1]
    # The actor stood still ever since; the critic did not.
    first, last = (weights(out / "checkpoints" / f"{steps:09d}" / "model.zip") for steps in steps_kept(out)[::2])
    moved = {name for name, before in first.items() if not np.array_equal(before, last[name])}
    assert moved
    assert all("value" in name for name in moved)


def test_a_teachers_episodes_are_training_and_no_others(
    scenarios: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: set[int] = set()
    draw = Scenario.draw

    def spy(self: Scenario, seed: Any) -> Any:
        met.add(seed if isinstance(seed, int) else seed.bit_generator.seed_seq.entropy)
        return draw(self, seed)

    monkeypatch.setattr(Scenario, "draw", spy)
    monkeypatch.setattr("prfaas_env.training.imitation.STEPS", 20)
    lessons = ("teacher=load-aware", "teacher_episodes=3")
    assert call(*small(scenarios, tmp_path / "run"), *(x for more in lessons for x in ("--set", more))) == 0
    own = set(range(training_seed(3, 0), training_seed(3, 0) + 4))
    assert met == own | set(lesson_seeds(3, 4)) | set(validation_seeds(2))
    assert training_seed(3, Settings(scenarios=("x",), timesteps=RUN_STRIDE // 2 - 1).timesteps) < lesson_seeds(3, 1)[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("teacher=least-completion", "teacher: least-completion does not act by what the form 'residual' sets"),
        ("teacher=hindsight", "teacher: hindsight does not act by"),
        ("teacher=load-awear", "unknown policy 'load-awear'; did you mean 'load-aware'"),
    ],
)
def test_a_teacher_must_act_by_the_learners_law(
    scenarios: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    assert call(*small(scenarios, tmp_path / "run"), "--set", given) == BAD_INPUT
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_lessons_end_as_soon_as_they_are_told_to(
    scenarios: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is learnt then, and the run says what to do."""

    monkeypatch.setattr("prfaas_env.training.imitation.play_together", lambda *_: None)
    out = tmp_path / "run"
    lesson = types.SimpleNamespace(observed=[], taught=[], moves=[])
    monkeypatch.setattr(
        "prfaas_env.training.imitation._Lesson", lambda *_: signal.raise_signal(signal.SIGINT) or lesson
    )
    monkeypatch.setattr(
        "prfaas_env.training.imitation._fit", lambda *_: pytest.fail("fitted to what was not played to the end")
    )
    assert call(*small(scenarios, out), "--set", "teacher=load-aware") == INTERRUPTED
    assert "interrupted before its first step: delete" in " ".join(capsys.readouterr().err.split())


def test_a_shift_by_two_is_taught_from_beyond_the_edge() -> None:
    """Clipped to 1 it would be at the very edge of what is rounded to two, and any doubt would make it one."""
    scenario = load_scenario("paper-stationary")
    base = Teacher("static", "residual", scenario)
    seen = {"advised_threshold": 19_400.0, "advised_prefill": 1.0, "lambda_max": 3.0}
    taken, _ = base.predict(encode(np.array([seen.get(c.name, 0.0) for c in COMPONENTS])))
    form = action_form("residual", scenario.deployment)
    for doubt in (0.0, -0.1, -0.3):
        assert form.decode(taken + np.array([0.0, doubt]), 19_400.0, 1).n_prefill == 3


class Moving:
    """A lesson of a fixed observation: the teacher nearly always keeps N_p there, and now and then moves it."""

    def __init__(self, share: float) -> None:
        self.rows = np.zeros((400, len(COMPONENTS)), dtype=np.float32)
        self.moves = np.arange(400) < share * 400
        self.actions = np.stack([np.zeros(400), np.where(self.moves, 1.0, 0.0)], axis=1).astype(np.float32)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0.0), (0.05, 0.525)])
def test_half_of_a_lesson_are_the_moves_of_n_p(
    scenarios: str, monkeypatch: pytest.MonkeyPatch, share: float, expected: float
) -> None:
    monkeypatch.setattr("prfaas_env.training.imitation.STEPS", 1500)
    settings = Settings(scenarios=("x",), n_envs=2, rollout_steps=10, minibatches=2, hidden=(8,))
    copies = training_environments(settings, [load_scenario(scenarios.split(",")[0])], 0)
    model, lesson = new_model(settings, copies, Scaling.unit()), Moving(share)
    copies.close()
    assert isinstance(model, PPO)
    _fit(model, lesson.rows, lesson.actions, lesson.moves, 0.5)
    assert model.predict(lesson.rows[:1], deterministic=True)[0][0, 1] == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("action", ["residual", "price", "absolute"])
def test_a_lesson_knows_on_which_steps_the_teacher_moves_n_p(scenarios: str, action: ActionName) -> None:
    scenario = load_scenario(scenarios.split(",")[0]).with_overrides(horizon_s=400.0)
    lesson = _Lesson(None, "priced-completion" if action == "price" else "naive", action, scenario)
    play_together(scenario, lesson, [scenario.draw(1_000_003)])
    asked = decode(np.concatenate(lesson.observed))["target_prefill_nodes"]
    moves = np.concatenate(lesson.moves)
    np.testing.assert_array_equal(moves[:-1], np.rint(asked[1:]) != np.rint(asked[:-1]))
    assert moves.any() == (action != "price")
