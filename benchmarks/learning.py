"""Environment steps a second of PPO, end to end, with the settings that ``train.py`` uses."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.timing import interleaved, seconds

__all__ = ["measure_ppo"]


def measure_ppo(quick: bool) -> dict[str, Any]:
    """Rollouts and updates after a first rollout, without twins, validation and checkpoints; 64 copies, one torch
    thread."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch

    from prfaas_env.scenario import suite
    from prfaas_env.seeds import training_seed
    from prfaas_env.training.features import Scaling
    from prfaas_env.training.learners import new_model
    from prfaas_env.training.model import training_environments
    from prfaas_env.training.settings import Settings

    torch.set_num_threads(1)
    copies, rollouts = (4, 1) if quick else (64, 4)
    settings = Settings(scenarios=("paper-stationary",), n_envs=copies, paired=False)
    environments = training_environments(settings, suite(settings.scenarios), training_seed(0, 0))
    model = new_model(settings, environments, Scaling.unit())
    steps = rollouts * settings.rollout_size
    model.learn(settings.rollout_size)
    rate = interleaved(
        {"ppo": lambda: steps / seconds(lambda: model.learn(steps, reset_num_timesteps=False))}, 1 if quick else 3
    )["ppo"]
    environments.close()
    return {"copies": copies, "hidden": list(settings.hidden), "epochs": settings.epochs, "steps_per_s": rate}
