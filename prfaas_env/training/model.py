"""A learner's copies of the environment, and how it is kept on disk, to act or to be trained on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from prfaas_env.config import ConfigError
from prfaas_env.environment.observation import layout_hash
from prfaas_env.environment.sb3 import PrfaaSVecEnv, make_sb3_env
from prfaas_env.scenario import Scenario
from prfaas_env.training.learners import LEARNERS
from prfaas_env.training.rewards import PairedRewards, ScaledRewards
from prfaas_env.training.settings import Settings

__all__ = ["load_state", "save_actor", "save_state", "training_environments"]

_MODEL, _CARD, _STATISTICS = "model.zip", "model.json", "reward_statistics.json"

# What acting does not need: the optimiser's memory (emptied below) and the last step of the run.
_NOT_FOR_ACTING = ("_last_obs", "_last_original_obs", "_last_episode_starts", "ep_info_buffer", "ep_success_buffer")


def training_environments(settings: Settings, scenarios: Sequence[Scenario], seed: int) -> ScaledRewards:
    """``n_envs`` copies spread evenly over the scenarios, copy i seeded with ``seed + i``.

    ES compares whole episodes of neighbouring copies: two neighbours run the same scenario, and all begin at once.

    Observations need no statistics, they are in [−1, 1]; rewards are brought to about one size.
    """

    def copies() -> PrfaaSVecEnv:
        spread = [scenario for scenario in scenarios for _ in range(settings.least_copies)]
        return make_sb3_env(settings.n_envs, seed, scenario=spread, action=settings.action, reward=settings.reward)

    acted_on: VecEnv = copies()
    if settings.paired and settings.algo != "es":  # which compares in pairs by itself
        acted_on = PairedRewards(acted_on, copies())
    return ScaledRewards(acted_on, settings.gamma)


def save_actor(model: BaseAlgorithm, folder: Path, card: dict[str, Any]) -> None:
    """``model.zip`` and its card in ``folder``, without what only training needs: a policy for ``evaluate.py``."""
    owners = [(owner, key) for owner, key in _optimisers(model) if getattr(owner, key, None) is not None]
    kept = [getattr(owner, key) for owner, key in owners]
    for (owner, key), optimiser in zip(owners, kept, strict=True):
        parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        setattr(owner, key, type(optimiser)(parameters, lr=0.0))
    try:
        model.save(folder / f".{_MODEL}", exclude=_NOT_FOR_ACTING)
    finally:
        for (owner, key), optimiser in zip(owners, kept, strict=True):
            setattr(owner, key, optimiser)
    (folder / f".{_MODEL}").replace(folder / _MODEL)
    (folder / _CARD).write_text(_json(card), encoding="utf-8")


def _optimisers(model: Any) -> list[tuple[Any, str]]:
    """Where a learner may have optimisers: PPO has one, SAC and TQC have three."""
    policy = model.policy
    holders = [policy, *(getattr(policy, part, None) for part in ("actor", "critic"))]
    return [*((holder, "optimizer") for holder in holders), (model, "ent_coef_optimizer")]


def save_state(model: BaseAlgorithm, environments: ScaledRewards, folder: Path, card: dict[str, Any]) -> None:
    """Make ``folder``, with all that training goes on from: model, optimiser, step count, reward statistics.

    It appears whole or not at all.
    """
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    model.save(unfinished / _MODEL)
    returns = environments.statistics
    statistics = {"mean": float(returns.mean), "var": float(returns.var), "count": float(returns.count)}
    (unfinished / _STATISTICS).write_text(_json(statistics), encoding="utf-8")
    (unfinished / _CARD).write_text(_json(card), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.replace(folder)


def load_state(settings: Settings, folder: Path, environments: ScaledRewards) -> BaseAlgorithm:
    """The model that :func:`save_state` kept, on these environments, whose reward statistics are set to what they were.

    Raises :class:`ConfigError` if a file is missing, broken or for another observation.
    """
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
        statistics = json.loads((folder / _STATISTICS).read_text(encoding="utf-8"))
        for name in ("mean", "var", "count"):
            setattr(environments.statistics, name, statistics[name])
        observation = card["observation"]
        if observation != layout_hash():
            raise ConfigError(f"{folder}: trained on observation layout {observation!r}, this is {layout_hash()!r}")
        return LEARNERS[settings.algo].load(folder / _MODEL, env=environments, device="cpu")
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{folder}: cannot be resumed from ({' '.join(str(error).split())[:120]})") from None


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
