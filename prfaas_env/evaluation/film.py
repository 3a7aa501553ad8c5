"""An episode as an animated picture: a policy's run, its controls played again in front of a camera."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.picture import PALETTE, picture
from prfaas_env.evaluation.controls import control_of
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Film", "check_films", "film", "film_of"]

PICTURES = 180
"""At most; a longer episode shows every k-th interval, and its last."""
PICTURE_MS = 100


class Film(NamedTuple):
    """Which episode is filmed: names or paths, and a seed."""

    policy: str
    scenario: str
    seed: int

    @property
    def file_name(self) -> str:
        """Named after the episode; of paths only the last part."""
        policy, scenario = (Path(name).stem or "policy" for name in (self.policy, self.scenario))
        return f"{policy}-{scenario}-{self.seed}.gif"


def film_of(text: str, seed: int = 0) -> Film:
    """``POLICY:SCENARIO[:SEED]``, the seed by default ``seed``. Raises :class:`ConfigError` on anything else."""
    found = re.fullmatch(r"(.+?):([^:]+?)(?::(\d{1,18}))?", text)
    if found is None:
        raise ConfigError(f"--video: expected POLICY:SCENARIO or POLICY:SCENARIO:SEED, got {text!r}")
    policy, scenario, given = found.groups()
    return Film(policy, scenario, int(given) if given else seed)


def check_films(films: Sequence[Film]) -> None:
    """Raises :class:`ConfigError` where one cannot be made: a name that nothing bears, or no Pillow."""
    if films and find_spec("PIL") is None:
        raise ConfigError("--video needs Pillow: pip install 'prfaas_env[render]'")
    for one in films:
        load_policy(one.policy, load_scenario(one.scenario))


def film(one: Film, folder: Path, engine: str) -> Path:
    """Simulate the episode and write it into ``folder`` as a GIF that repeats; returns the file.

    One picture a control interval, ten a second, at most 180 in all. Raises :class:`ConfigError` as
    :func:`check_films`, and where the file cannot be written.
    """
    scenario = load_scenario(one.scenario)
    controls = simulate(scenario, one.policy, one.seed, engine).controls
    pictures = _pictures(scenario, controls, one, engine)
    path = folder / one.file_name
    try:
        next(pictures).save(path, save_all=True, append_images=pictures, duration=PICTURE_MS, loop=0)
    except OSError as error:
        raise ConfigError(f"--video: {path} cannot be written ({error.strerror})") from None
    return path


def _pictures(scenario: Scenario, controls: np.ndarray, one: Film, engine: str) -> Iterator[Image]:
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(PALETTE.ravel().tolist())
    loop = ControlLoop(scenario, engine=engine)
    loop.reset(one.seed)
    every = -(-len(controls) // PICTURES)
    for step, row in enumerate(controls, start=1):
        loop.step_under(control_of(row))
        if step % every == 0 or step == len(controls):
            shown = Image.fromarray(picture(loop, Path(one.policy).stem))
            yield shown.quantize(palette=palette, dither=Image.Dither.NONE)
