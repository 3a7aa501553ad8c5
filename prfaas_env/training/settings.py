"""Everything that makes one training run different from another, as one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args

from prfaas_env.config import ConfigError, Range, Record, nearest
from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import GROUPS
from prfaas_env.environment.reward import REWARDS
from prfaas_env.seeds import FIRST_TRAINING_SEED, FIRST_VALIDATION_SEED, RUN_STRIDE

__all__ = ["ALGORITHMS", "OFF_POLICY", "ON_POLICY", "AlgoName", "Settings"]

AlgoName = Literal["ppo", "recurrent-ppo", "sac", "tqc", "es"]
ALGORITHMS: Mapping[AlgoName, str] = {
    "ppo": "PPO",
    "recurrent-ppo": "RecurrentPPO",
    "sac": "SAC",
    "tqc": "TQC",
    "es": "PPO",  # what evolution finds are the weights of PPO's policy, and any PPO can load them
}
"""The class of Stable-Baselines3 (or its contributions) that each learner's model files are for."""
ON_POLICY: tuple[AlgoName, ...] = ("ppo", "recurrent-ppo")
OFF_POLICY: tuple[AlgoName, ...] = ("sac", "tqc")

_ONLY_OF: Mapping[str, tuple[AlgoName, ...]] = {
    **dict.fromkeys(("rollout_steps", "gamma", "log_std", "paired"), ON_POLICY + OFF_POLICY),
    **dict.fromkeys(("minibatches", "epochs", "gae_lambda", "clip_range"), ON_POLICY),
    **dict.fromkeys(("entropy_coefficient", "value_coefficient", "target_kl"), ON_POLICY),
    **dict.fromkeys(("batch_size", "buffer_size", "gradient_steps", "tau"), OFF_POLICY),
    **dict.fromkeys(("teacher", "teacher_episodes", "teacher_moves"), ("ppo", "es")),
    "critic_rollouts": ("ppo",),
    "lstm_size": ("recurrent-ppo",),
    "perturbation": ("es",),
}
"""Settings that not every learner has."""

Count = Annotated[int, Range(ge=1)]
Width = Annotated[int, Range(ge=1, le=4096)]
Share = Annotated[float, Range(ge=0, le=1)]


@dataclass(frozen=True)
class Settings(Record):
    """The arguments of a run. A step is one control interval of one environment copy.

    The defaults are those of the shipped policies, teacher aside. What matters most is that the action head starts at
    zero, so that step 0 is the scheduler that is corrected, and that rewards are paired (``rewards.py``).
    """

    scenarios: tuple[str, ...] = ()
    algo: AlgoName = "ppo"
    timesteps: Annotated[int, Range(ge=1, lt=RUN_STRIDE // 2)] = 2_000_000
    n_envs: Annotated[int, Range(ge=1, le=4096)] = 96
    seed: Annotated[int, Range(ge=0, lt=2**32)] = 0
    action: ActionName = "residual"
    reward: str = "mean-ttft"
    observation_groups: tuple[str, ...] = ()  # that the policy sees; empty: all
    normalised: bool = True  # components are centred and stretched by what the zero action meets
    # comparison with the zero action, and safety copies
    checkpoint_every: Count = 250_000  # steps; each checkpoint is validated
    keep_checkpoints: Count = 3
    validation_scenarios: tuple[str, ...] = ()  # empty: the run's own
    validation_seeds: Annotated[int, Range(ge=1, le=FIRST_TRAINING_SEED - FIRST_VALIDATION_SEED)] = 16  # a scenario
    # the learner
    hidden: tuple[Width, ...] = (64, 64)
    learning_rate: Annotated[float, Range(gt=0, le=1)] = 4e-4  # falls linearly to 0 at the last step
    gamma: Share = 0.98
    log_std: Annotated[float, Range(ge=-20, le=2)] = -2.0
    rollout_steps: Annotated[int, Range(ge=2, le=100_000)] = 90
    paired: bool = True  # rewards are what is gained over the zero action in the same episode
    teacher: str | None = None  # a policy to learn from before anything else
    teacher_episodes: Annotated[int, Range(ge=3, le=1000)] = 12  # a scenario
    teacher_moves: Annotated[float, Range(ge=0, le=1)] = 0.5  # share of a lesson that are steps on which it moves N_p
    # … on policy
    minibatches: Count = 6
    epochs: Annotated[int, Range(ge=1, le=1000)] = 5
    gae_lambda: Share = 0.95
    clip_range: Annotated[float, Range(gt=0, le=10)] = 0.2
    entropy_coefficient: Annotated[float, Range(ge=0, le=10)] = 0.0
    value_coefficient: Annotated[float, Range(ge=0, le=10)] = 0.5
    target_kl: Annotated[float, Range(gt=0, le=10)] | None = None
    critic_rollouts: Annotated[int, Range(ge=0)] = 0  # the first ones, which train the critic alone
    lstm_size: Width = 64
    # … off policy
    batch_size: Annotated[int, Range(ge=2, le=1_000_000)] = 512
    buffer_size: Annotated[int, Range(ge=1, le=100_000_000)] = 500_000
    gradient_steps: Count = 360
    tau: Annotated[float, Range(gt=0, le=1)] = 0.005
    # … evolution
    perturbation: Annotated[float, Range(gt=0, le=10)] = 0.05

    def check(self) -> None:
        if self.reward not in REWARDS:
            raise ConfigError(f"reward: expected one of {', '.join(REWARDS)}, got {self.reward!r}")
        if not self.scenarios:
            raise ConfigError("scenarios: expected at least one scenario (--scenario)")
        for group in self.observation_groups:
            if group not in GROUPS:
                raise ConfigError(f"observation_groups: no group {group!r}{nearest(group, GROUPS)}")
        if len(self.hidden) > 16:
            raise ConfigError(f"hidden: expected at most 16 layers, got {len(self.hidden)}")
        for field in fields(self):
            learners = _ONLY_OF.get(field.name, get_args(AlgoName))
            if self.algo not in learners and getattr(self, field.name) != field.default:
                raise ConfigError(f"{field.name}: {self.algo} has no such setting ({', '.join(learners)} have)")
        if self.algo in ON_POLICY:
            self._check_minibatches()
        if self.algo in OFF_POLICY and not self.hidden:
            raise ConfigError(f"hidden: {self.algo} expects at least one layer")
        if self.algo == "es" and self.n_envs % 2:
            raise ConfigError(f"n_envs: es compares copies in pairs: expected an even number, got {self.n_envs}")

    def _check_minibatches(self) -> None:
        if self.rollout_size > 10_000_000:
            raise ConfigError(f"rollout_steps: expected at most 10,000,000 steps a rollout, got {self.rollout_size:,}")
        if self.rollout_size % self.minibatches or self.rollout_size == self.minibatches:
            raise ConfigError(f"minibatches: expected to split the {self.rollout_size} steps of a rollout evenly")

    @property
    def rollout_size(self) -> int:
        """Steps between two updates, over all copies."""
        return self.rollout_steps * self.n_envs

    @property
    def least_copies(self) -> int:
        """Copies that one scenario needs."""
        return 2 if self.algo == "es" else 1
