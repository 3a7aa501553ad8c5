"""What is varied, one thing at a time, and the settings that the others share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prfaas_env.config import ConfigError, nearest
from prfaas_env.environment.observation import GROUPS

__all__ = ["COMMON", "REFERENCE", "VARIANTS", "Variant", "named"]

COMMON: Mapping[str, Any] = {"scenarios": ["train"]}
"""Four copies of each of the twenty-four training scenarios; all else are the defaults of training."""


@dataclass(frozen=True)
class Variant:
    """``question``: which choice it is about; ``settings``: in what it differs from ``COMMON``."""

    name: str
    question: str
    settings: Mapping[str, Any] = field(default_factory=dict)


REFERENCE = Variant("reference", "as recommended")


def _without(group: str) -> Variant:
    seen = [other for other in GROUPS if other != group]
    return Variant(f"without-{group}", "observation", {"observation_groups": seen})


def _budget(timesteps: int) -> Variant:
    return Variant(f"budget-{timesteps // 1000}k", "budget", {"timesteps": timesteps, "checkpoint_every": timesteps})


VARIANTS: tuple[Variant, ...] = (
    REFERENCE,
    Variant("start-teacher", "start", {"teacher": "load-aware", "critic_rollouts": 5}),
    Variant("action-price", "action form", {"action": "price"}),
    Variant("action-absolute", "action form", {"action": "absolute"}),
    Variant("reward-unpaired", "reward", {"paired": False}),
    Variant("reward-capped", "reward", {"reward": "ttft"}),
    Variant("reward-capped-unpaired", "reward", {"reward": "ttft", "paired": False}),
    Variant("reward-goodput", "reward", {"reward": "goodput"}),
    Variant("reward-cost", "reward", {"reward": "cost"}),
    Variant("exploration-wide", "exploration", {"log_std": -1.3}),
    Variant("not-normalised", "observation", {"normalised": False}),
    *map(_without, GROUPS),
    Variant("history-lstm", "history", {"algo": "recurrent-ppo"}),
    *map(_budget, (24_000, 384_000)),
    Variant("drift-mix-only", "randomisation", {"scenarios": ["drift-mix"]}),
    # Few weights and long strides, as docs/training.md advises; SAC and TQC as they are.
    Variant("learner-es", "learner", {"algo": "es", "hidden": [16], "learning_rate": 0.02}),
    Variant("learner-sac", "learner", {"algo": "sac"}),
    Variant("learner-tqc", "learner", {"algo": "tqc"}),
)


def named(names: str | None) -> tuple[Variant, ...]:
    """The variants of these names or questions, with commas between them; all without one.

    Raises :class:`ConfigError` on a name that none bears.
    """
    if names is None:
        return VARIANTS
    asked = [name.strip() for name in names.split(",")]
    known = {name for one in VARIANTS for name in (one.name, one.question)}
    for name in asked:
        if name not in known:
            raise ConfigError(f"--only: no variant is called {name!r}{nearest(name, known)}")
    return tuple(one for one in VARIANTS if one.name in asked or one.question in asked)
