"""The card of a model: what must be known of it before it can act. A file beside the model, or a part of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prfaas_env.config import ConfigError, Record, from_mapping, nearest, to_mapping
from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import COMPONENTS, layout_hash

__all__ = ["ModelCard"]


@dataclass(frozen=True)
class ModelCard(Record):
    """A model for another layout of the observation would read every component as something else.

    - ``algorithm``: the class of Stable-Baselines3 or sb3-contrib; ``action``: the form of its actions.
    - ``observation``: hash of the layout; ``training``: where the model comes from (``train.py``).
    - ``ranges``: for each component the least and the greatest value met in training, in physical units; outside it
      the model is held back (``guard.py``). Empty: it is not.
    """

    algorithm: str
    action: ActionName
    observation: str
    training: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    notes: str = ""

    def check(self) -> None:
        names = [component.name for component in COMPONENTS]
        for name, bounds in self.ranges.items():
            if name not in names:
                raise ConfigError(f"ranges: no component is called {name!r}{nearest(name, names)}")
            if len(bounds) != 2 or bounds[0] > bounds[1]:
                raise ConfigError(f"ranges.{name}: expected [least, greatest], got {list(bounds)}")

    @classmethod
    def parse(cls, text: str, where: str) -> ModelCard:
        """A card from JSON. Raises :class:`ConfigError`, with ``where``, if it is broken or for another observation."""
        try:
            plain = json.loads(text)
        except ValueError:
            raise ConfigError(f"{where}: not valid JSON") from None
        # First of all: what else an older card says may be known no more.
        if isinstance(plain, dict) and isinstance(layout := plain.get("observation"), str) and layout != layout_hash():
            raise ConfigError(
                f"{where}: observation: the model was trained on layout {layout!r}, this is {layout_hash()!r}"
            )
        card: ModelCard = from_mapping(cls, plain, f"{where}: ")
        return card

    @classmethod
    def beside(cls, model: Path) -> ModelCard:
        """The card ``model.json`` of ``model.zip``. Raises :class:`ConfigError` as :meth:`parse`, or without it."""
        path = model.with_suffix(".json")
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path}: the card of {model.name} cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: not valid JSON") from None
        return cls.parse(text, str(path))

    def text(self) -> str:
        """The card as JSON, as :meth:`parse` reads it."""
        return json.dumps(to_mapping(self), indent=1, ensure_ascii=False) + "\n"
