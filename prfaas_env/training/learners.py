"""The learners by their settings, each begun at the scheduler: the deterministic action is exactly zero at first."""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib import TQC, RecurrentPPO
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import LinearSchedule

from prfaas_env.training.evolution import Evolution
from prfaas_env.training.features import Scaling, feature_arguments
from prfaas_env.training.rewards import ScaledRewards
from prfaas_env.training.settings import OFF_POLICY, AlgoName, Settings

__all__ = ["LEARNERS", "new_model"]

LEARNERS: dict[AlgoName, type[BaseAlgorithm]] = {
    "ppo": PPO,
    "recurrent-ppo": RecurrentPPO,
    "sac": SAC,
    "tqc": TQC,
    "es": Evolution,
}

_ENTROPY = "auto_0.01"
"""SAC and TQC tune the weight of entropy themselves; from 1, their own start, noise would drown the scheduler first."""


def new_model(settings: Settings, environments: ScaledRewards, scaling: Scaling) -> BaseAlgorithm:
    """A learner whose deterministic action is exactly zero whatever it observes: the scheduler itself, uncorrected.

    No seed is handed to it, since it would pass it on to the environments, which have seeds of their own
    (:mod:`prfaas_env.seeds`); seed torch before.
    """
    seen = feature_arguments(scaling.only(settings.observation_groups))
    policy_kwargs: dict[str, Any] = {"net_arch": list(settings.hidden), **seen}
    if settings.algo in OFF_POLICY:
        own = _off_policy(settings)
    else:
        policy_kwargs["log_std_init"] = settings.log_std
        own = _evolution(settings) if settings.algo == "es" else _on_policy(settings)
    if settings.algo == "recurrent-ppo":
        policy_kwargs["lstm_hidden_size"] = settings.lstm_size
    model: BaseAlgorithm = LEARNERS[settings.algo](
        "MlpLstmPolicy" if settings.algo == "recurrent-ppo" else "MlpPolicy",
        environments,
        learning_rate=LinearSchedule(settings.learning_rate, 0.0, 1.0),
        gamma=settings.gamma,
        policy_kwargs=policy_kwargs,
        device="cpu",
        **own,
    )
    if isinstance(model, Evolution):
        model.perturbation, model.run_seed = settings.perturbation, settings.seed
    _start_at_zero(model, settings.log_std)
    return model


def _on_policy(settings: Settings) -> dict[str, Any]:
    return {
        "n_steps": settings.rollout_steps,
        "batch_size": settings.rollout_size // settings.minibatches,
        "n_epochs": settings.epochs,
        "gae_lambda": settings.gae_lambda,
        "clip_range": settings.clip_range,
        "ent_coef": settings.entropy_coefficient,
        "vf_coef": settings.value_coefficient,
        "target_kl": settings.target_kl,
    }


def _off_policy(settings: Settings) -> dict[str, Any]:
    return {
        "train_freq": settings.rollout_steps,
        "gradient_steps": settings.gradient_steps,
        "batch_size": settings.batch_size,
        "buffer_size": max(settings.buffer_size, settings.n_envs),
        "tau": settings.tau,
        "learning_starts": 0,  # explores around the scheduler, never at random
        "ent_coef": _ENTROPY,
    }


def _evolution(settings: Settings) -> dict[str, Any]:
    return {"n_steps": 2, "batch_size": 2 * settings.n_envs}  # its rollouts are episodes and need no buffer


def _start_at_zero(model: Any, log_std: float) -> None:
    actor = getattr(model.policy, "actor", None)
    with torch.no_grad():
        for layer in (model.policy.action_net,) if actor is None else (actor.mu, actor.log_std):
            layer.weight.zero_()
            layer.bias.zero_()
        if actor is not None:
            actor.log_std.bias.fill_(log_std)
