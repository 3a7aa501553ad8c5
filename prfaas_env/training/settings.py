"""Everything that makes one training run different from another, as one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.reward import REWARDS
from prfaas_env.seeds import FIRST_TRAINING_SEED, FIRST_VALIDATION_SEED, RUN_STRIDE

__all__ = ["Settings"]

Count = Annotated[int, Range(ge=1)]
Width = Annotated[int, Range(ge=1, le=4096)]
Share = Annotated[float, Range(ge=0, le=1)]


@dataclass(frozen=True)
class Settings(Record):
    """The arguments of a run. A step is one control interval of one environment copy.

    The defaults of the learner (from ``rollout_steps`` on) were found on an earlier, simpler model of the deployment:
    what matters most is that the action head starts at zero, so that step 0 is the scheduler that is corrected.
    """

    scenarios: tuple[str, ...] = ()
    algo: Literal["ppo"] = "ppo"
    timesteps: Annotated[int, Range(ge=1, lt=RUN_STRIDE)] = 2_000_000
    n_envs: Annotated[int, Range(ge=1, le=4096)] = 64
    seed: Annotated[int, Range(ge=0, lt=2**32)] = 0
    action: ActionName = "residual"
    reward: str = "ttft"
    # comparison with the zero action, and safety copies
    checkpoint_every: Count = 250_000  # steps; each checkpoint is validated
    keep_checkpoints: Count = 3
    validation_seeds: Annotated[int, Range(ge=1, le=FIRST_TRAINING_SEED - FIRST_VALIDATION_SEED)] = 16  # a scenario
    # the learner
    rollout_steps: Annotated[int, Range(ge=2, le=100_000)] = 90
    minibatches: Count = 6
    epochs: Annotated[int, Range(ge=1, le=1000)] = 5
    learning_rate: Annotated[float, Range(gt=0, le=1)] = 4e-4  # falls linearly to 0 at the last step
    gamma: Share = 0.98
    gae_lambda: Share = 0.95
    clip_range: Annotated[float, Range(gt=0, le=10)] = 0.2
    log_std: Annotated[float, Range(ge=-20, le=2)] = -1.3
    hidden: tuple[Width, ...] = (64, 64)

    def check(self) -> None:
        if self.reward not in REWARDS:
            raise ConfigError(f"reward: expected one of {', '.join(REWARDS)}, got {self.reward!r}")
        if not self.scenarios:
            raise ConfigError("scenarios: expected at least one scenario (--scenario)")
        if self.n_envs < len(self.scenarios):
            raise ConfigError(
                f"n_envs: expected at least one copy a scenario ({len(self.scenarios)}), got {self.n_envs}"
            )
        if len(self.hidden) > 16:
            raise ConfigError(f"hidden: expected at most 16 layers, got {len(self.hidden)}")
        if self.rollout_size > 10_000_000:
            raise ConfigError(f"rollout_steps: expected at most 10,000,000 steps a rollout, got {self.rollout_size:,}")
        if self.rollout_size % self.minibatches or self.rollout_size == self.minibatches:
            raise ConfigError(f"minibatches: expected to split the {self.rollout_size} steps of a rollout evenly")

    @property
    def rollout_size(self) -> int:
        """Steps between two updates, over all copies."""
        return self.rollout_steps * self.n_envs
