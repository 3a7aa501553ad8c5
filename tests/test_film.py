"""An episode as an animated picture: what the file shows is the episode, and what cannot be filmed is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import evaluate as command_line
from prfaas_env.cli.errors import run
from prfaas_env.config import ConfigError
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.picture import PALETTE, SIZE, picture
from prfaas_env.evaluation import film as filming
from prfaas_env.evaluation.film import Film, film, film_of
from prfaas_env.policies import load_policy
from prfaas_env.scenario import load_scenario

SHORT = "{name: short, extends: paper-stationary-80, horizon_s: 290, control_step_s: 30}"


@pytest.fixture
def short(tmp_path: Path) -> Path:
    (path := tmp_path / "short.yaml").write_text(SHORT)
    return path


def nearest_of_palette(image: np.ndarray) -> np.ndarray:
    """Largest difference of a colour channel from the nearest colour of the palette, of each pixel."""
    colours = np.unique(image.reshape(-1, 3), axis=0).astype(int)
    return np.abs(colours[:, None, :] - PALETTE.astype(int)).max(axis=2).min(axis=1)


def test_the_command_writes_the_episode_picture_by_picture(short: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    out, video = tmp_path / "out", ("--video", f"windowed-closed-form:{short}:7")
    options = ("--policies", "static", "--scenarios", str(short), "--seeds", "1", "--workers", "1", "--out", str(out))
    with pytest.raises(SystemExit) as exit_:
        run(command_line.main, [*options, *video])
    assert exit_.value.code == 0
    loop = ControlLoop(load_scenario(short))
    policy = load_policy("windowed-closed-form", loop.scenario)
    observation, state = loop.reset(7), None
    with image.open(out / "windowed-closed-form-short-7.gif") as shown:
        assert (shown.n_frames, shown.size, shown.info["loop"]) == (10, SIZE, 0)
        for number in range(shown.n_frames):
            action, state = policy.predict(observation, state=state, deterministic=True)
            observation = loop.step(action).observation
            shown.seek(number)
            expected = picture(loop, "windowed-closed-form").astype(int)
            difference = np.abs(np.asarray(shown.convert("RGB")).astype(int) - expected)
            assert (difference.max(), shown.info["duration"]) == (pytest.approx(0, abs=24), filming.PICTURE_MS)
    assert nearest_of_palette(expected).max() <= 24


def test_a_long_episode_shows_every_kth_interval_and_the_last(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    monkeypatch.setattr(filming, "PICTURES", 4)
    with image.open(film(Film("static", str(short), 0), tmp_path, "compiled")) as shown:
        assert shown.n_frames == 4  # of ten: 3, 6, 9 and the last


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("static:drift-mix", Film("static", "drift-mix", 5)),
        ("runs/a:b/model.zip:mine.yaml:12", Film("runs/a:b/model.zip", "mine.yaml", 12)),
    ],
)
def test_policy_scenario_and_seed_are_told_apart(text: str, expected: Film) -> None:
    assert film_of(text, seed=5) == expected


@pytest.mark.parametrize("text", ["", "static", ":drift-mix", "static:", "static:drift-mix:-1x:"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected POLICY:SCENARIO or POLICY:SCENARIO:SEED"):
        film_of(text)


@pytest.mark.parametrize(
    ("video", "message"),
    [("statik:drift-mix", "did you mean 'static'"), ("static:drift-mixx", "did you mean 'drift-mix'")],
)
def test_bad_names_are_found_before_any_work(
    video: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--policies", "static", "--scenarios", "drift-mix", "--seeds", "1"]
    with pytest.raises(SystemExit) as exit_:
        run(command_line.main, [*options, "--out", str(tmp_path / "out"), "--video", video])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
