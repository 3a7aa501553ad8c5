"""A model by the path of its file: loaded once, held within the ranges of its card."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario

    from .base import Policy
    from .portable import Portable
    from .trained import Trained

__all__ = ["SUFFIXES", "model_policy"]

SUFFIXES = (".zip", ".npz", ".onnx")


def model_policy(path: Path, scenario: Scenario) -> Policy:
    """The model of a file, for a scenario. Raises :class:`ConfigError` if it is missing or does not fit."""
    model = _loaded(path, _stamp(path), _stamp(path.with_suffix(".json")))
    policy: Policy = model
    if model.card.ranges:
        from .guard import Guard

        policy = Guard(model, model.card, scenario)
    return policy


@lru_cache(maxsize=8)
def _loaded(path: Path, *_stamps: tuple[int, ...]) -> Trained | Portable:
    """Kept while the files are what they were: an evaluation loads each policy anew for every episode."""
    if path.suffix == ".zip":
        from .trained import Trained

        return Trained(path)
    from .portable import Portable

    return Portable(path)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
