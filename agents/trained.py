"""``path/to/model.zip``: a model trained with Stable-Baselines3, beside a JSON card that says what it was trained for.

``model.json`` beside ``model.zip``::

    {"algorithm": "PPO", "action": "residual", "observation": "<layout hash>", "training": {…}}

The card is checked before the model is loaded: a model for another layout of the observation would read every component
as something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_env.config import ConfigError, Record, from_mapping
from prfaas_env.environment.actions import ActionName, action_space
from prfaas_env.environment.observation import layout_hash, observation_space

__all__ = ["ModelCard", "Trained"]

_UNSAVED = {"device", "env", "logger", "policy"}
"""Arguments of a learner that its file does not hold."""


@dataclass(frozen=True)
class ModelCard(Record):
    """What must be known of a model before it can act; ``training`` says where it comes from (``train.py``)."""

    algorithm: str
    action: ActionName
    observation: str
    training: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""

    @classmethod
    def beside(cls, model: Path) -> ModelCard:
        """The card of a model file. Raises :class:`ConfigError` if it is missing, broken or for another observation."""
        path = model.with_suffix(".json")
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{path}: the card of {model.name} cannot be read ({error.strerror})") from None
        except ValueError:
            raise ConfigError(f"{path}: not valid JSON") from None
        card = from_mapping(cls, plain, f"{path}: ")
        if card.observation != layout_hash():
            raise ConfigError(
                f"{path}: observation: the model was trained on layout {card.observation!r}, this is {layout_hash()!r}"
            )
        return card


class Trained:
    """A trained model as a policy; Stable-Baselines3 is imported only here."""

    def __init__(self, model: Path) -> None:
        """Raises :class:`ConfigError` if the file, its card or Stable-Baselines3 is missing or does not fit."""
        if not model.is_file():
            raise ConfigError(f"{model}: no such file")
        card = ModelCard.beside(model)
        try:
            import stable_baselines3
            from stable_baselines3.common.save_util import load_from_zip_file
        except ImportError:
            raise ConfigError(f"{model}: needs Stable-Baselines3: pip install 'prfaas_env[train]'") from None
        algorithm = getattr(stable_baselines3, card.algorithm, None)
        if algorithm is None:
            raise ConfigError(f"{model}: algorithm: Stable-Baselines3 has no {card.algorithm!r}")
        self.action_mode: ActionName = card.action
        try:
            self._model = algorithm.load(model, device="cpu")
        except Exception as error:
            raise ConfigError(
                f"{model}: cannot be loaded as {card.algorithm} ({' '.join(str(error).split())[:120]})"
            ) from None
        for name, own in (("observation", observation_space()), ("action", action_space())):
            theirs = getattr(self._model, f"{name}_space", None)
            if theirs != own:
                raise ConfigError(f"{model}: {name}: the model is for the space {theirs}, this is {own}")
        wanted = {"learning_rate", *signature(algorithm.__init__).parameters} & vars(self._model).keys() - _UNSAVED
        if missing := wanted - load_from_zip_file(model, device="cpu")[0].keys():
            raise ConfigError(f"{model}: is no {card.algorithm} as its card says: it has no {min(missing)}")

    def predict(
        self,
        observation: np.ndarray,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """As the model's own."""
        return self._model.predict(observation, state, episode_start, deterministic)
