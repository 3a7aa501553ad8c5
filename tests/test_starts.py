"""A start from a scripted policy: lessons from a teacher, or corrections to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra 'train'")
pytest.importorskip("tensorboard", reason="needs the extra 'train'")


from agents.corrected import Base
from prfaas_env.cli.errors import BAD_INPUT
from prfaas_env.environment.actions import ActionName, action_form
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import COMPONENTS, encode
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.seeds import (
    RUN_STRIDE,
    lesson_seeds,
    training_seed,
    validation_seeds,
)
from prfaas_env.training.model import training_environments
from prfaas_env.training.settings import Settings
from tests.training_runs import SMALLER, call, small, steps_kept, validations, weights

# --- a teacher --------------------------------------------------------------------------------------------------------


def test_a_policy_learns_from_a_teacher_before_anything_else(scenarios: str, tmp_path: Path) -> None:
    """The model of step 0 does what the teacher does, on episodes of neither."""
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


# --- on top of a scripted policy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "base"), [("price", "priced-completion"), ("residual", "dual-timescale")])
def test_corrections_of_nothing_are_the_policy_itself(
    scenarios: str, tmp_path: Path, action: ActionName, base: str
) -> None:
    """In the copies that a learner trains on, and in what it saves."""
    scenario = load_scenario(scenarios.split(",")[0])
    settings = Settings(scenarios=("x",), algo="es", action=action, corrects=base, reward="ttft", n_envs=2)
    copies = training_environments(settings, [scenario], 0)
    copies.unwrapped.seed_each([7, 8])
    copies.reset()
    rewards = []
    for _ in range(6):
        copies.step(np.zeros((2, 2), dtype=np.float32))
        rewards.append(copies.original_rewards.copy())
    copies.close()
    for row, seed in enumerate((7, 8)):
        policy = load_policy(base, scenario)
        loop = ControlLoop(scenario, policy.action_mode)
        observation, state = loop.reset(np.random.default_rng(seed)), None
        for step in range(6):
            taken, state = policy.predict(observation, state=state)
            interval = loop.step(taken)
            assert rewards[step][row] == pytest.approx(interval.reward, rel=1e-3, abs=1e-3)
            observation = interval.observation

    out = tmp_path / "run"
    more = (
        f"corrects={base}",
        f"action={action}",
        "timesteps=40",
        "algo=es",
        "n_envs=4",
        "hidden=[]",
        "learning_rate=1e-9",
    )
    kept = [x for x in SMALLER if x.split("=")[0] in ("checkpoint_every", "validation_seeds")]
    given = [part for change in (*kept, *more) for part in ("--set", change)]
    assert call("--scenario", scenarios, "--out", out, *given) == 0
    assert validations(out)[0]["ttft_ratio"] == 1.0
    own, theirs = (simulate(scenario, name, seed=3).summary["ttft_mean_s"] for name in (str(out / "model.zip"), base))
    assert own == pytest.approx(theirs, rel=1e-2)


def test_a_shift_by_two_survives_a_small_correction() -> None:
    """Clipped to 1 it would be at the very edge of what is rounded to two, and any doubt would make it one."""
    scenario = load_scenario("paper-stationary")
    base = Base("static", "residual", scenario)
    seen = {"advised_threshold": 19_400.0, "advised_prefill": 1.0, "lambda_max": 3.0}
    taken, _ = base.predict(encode(np.array([seen.get(c.name, 0.0) for c in COMPONENTS])))
    form = action_form("residual", scenario.deployment)
    for doubt in (0.0, -0.1, -0.3):
        assert form.decode(taken + np.array([0.0, doubt]), 19_400.0, 1).n_prefill == 3


def test_a_policy_to_correct_must_act_by_the_learners_law(
    scenarios: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*small(scenarios, tmp_path / "run"), "--set", "corrects=least-completion") == BAD_INPUT
    assert "corrects: least-completion does not act by what the form 'residual' sets" in capsys.readouterr().err
    given = ("--set", "corrects=load-aware", "--set", "teacher=load-aware")
    assert call(*small(scenarios, tmp_path / "run"), *given) == BAD_INPUT
    assert "teacher: expected none beside corrects" in capsys.readouterr().err
