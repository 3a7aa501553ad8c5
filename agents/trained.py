"""``path/to/model.zip``: a model trained with Stable-Baselines3, beside a JSON card that says what it was trained for.

``model.json`` beside ``model.zip``::

    {"algorithm": "PPO", "action": "residual", "observation": "<layout hash>", "training": {…}}

The card is checked before the model is loaded: a model for another layout of the observation would read every component
as something else.
"""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.environment.actions import ActionName, action_space
from prfaas_env.environment.observation import observation_space

from .card import ModelCard

__all__ = ["Trained"]

_UNSAVED = {"device", "env", "logger", "policy"}
"""Arguments of a learner that its file does not hold."""


class Trained:
    """A trained model as a policy, of Stable-Baselines3 or of sb3-contrib; to run one, both are imported only here."""

    def __init__(self, model: Path) -> None:
        """Raises :class:`ConfigError` if the file, its card or Stable-Baselines3 is missing or does not fit."""
        if not model.is_file():
            raise ConfigError(f"{model}: no such file")
        self.card = card = ModelCard.beside(model)
        try:
            from stable_baselines3.common.save_util import load_from_zip_file
        except ImportError:
            raise ConfigError(f"{model}: needs Stable-Baselines3: pip install 'prfaas_env[train]'") from None
        algorithm = _algorithm(card.algorithm, model)
        self.action_mode: ActionName = card.action
        try:
            self.model = algorithm.load(model, device="cpu")
        except Exception as error:
            raise ConfigError(
                f"{model}: cannot be loaded as {card.algorithm} ({' '.join(str(error).split())[:120]})"
            ) from None
        for name, own in (("observation", observation_space()), ("action", action_space())):
            theirs = getattr(self.model, f"{name}_space", None)
            if theirs != own:
                raise ConfigError(f"{model}: {name}: the model is for the space {theirs}, this is {own}")
        wanted = {"learning_rate", *signature(algorithm.__init__).parameters} & vars(self.model).keys() - _UNSAVED
        if missing := wanted - load_from_zip_file(model, device="cpu")[0].keys():
            raise ConfigError(f"{model}: is no {card.algorithm} as its card says: it has no {min(missing)}")

    def predict(
        self,
        observation: np.ndarray,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Any]:
        """As the model's own; ``state`` is a recurrent model's memory."""
        return self.model.predict(observation, state, episode_start, deterministic)


def _algorithm(name: str, model: Path) -> Any:
    """A learner by the name of its class. Raises :class:`ConfigError`."""
    import stable_baselines3

    try:
        import sb3_contrib
    except ImportError:
        sb3_contrib = None
    learners = {
        key: value
        for package in (sb3_contrib, stable_baselines3)
        for key, value in (vars(package) if package else {}).items()
        if hasattr(value, "load") and hasattr(value, "learn")
    }
    if name not in learners:
        missing = "" if sb3_contrib else " (sb3-contrib is not installed: pip install 'prfaas_env[train]')"
        raise ConfigError(f"{model}: algorithm: Stable-Baselines3 has no {name!r}{nearest(name, learners)}{missing}")
    return learners[name]
