"""What of the observation reaches a policy's network, and at what size.

A component that takes one per cent of its range (N_p of a small cluster, on a scale made for 10^5 instances) would be
all but invisible beside one that takes it all. So each is centred and stretched by what the zero action meets on the
run's own scenarios, and clipped: far outside of what was met the network sees the edge, not nonsense.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from prfaas_env.environment.actions import ActionName
from prfaas_env.environment.observation import COMPONENTS, GROUPS
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Scenario

__all__ = ["Features", "Scaling", "feature_arguments", "measured_scaling"]

DEVIATIONS = 3.0
"""What lies so many standard deviations from the mean is at the edge, ± 1."""
LEAST_DEVIATION = 1e-3
"""A component that varies less has said nothing, and is left out (what it would say outside was never learnt)."""
NOISE = 0.3


class Scaling(NamedTuple):
    """A feature is ``clip(factor · component + offset, −1, 1)``; float32 (k,) each. Factor 0: not to be seen."""

    factor: np.ndarray
    offset: np.ndarray

    def only(self, groups: Sequence[str]) -> Scaling:
        """The same without all components but those of ``groups``; empty: all stay."""
        if not groups:
            return self
        seen = np.zeros_like(self.factor)
        for group in groups:
            seen[list(GROUPS[group])] = 1.0
        return Scaling(self.factor * seen, self.offset * seen)

    @classmethod
    def unit(cls) -> Scaling:
        """Every component as it is."""
        return cls(np.ones(len(COMPONENTS), dtype=np.float32), np.zeros(len(COMPONENTS), dtype=np.float32))


def measured_scaling(action: ActionName, scenarios: Sequence[Scenario], seed: int, copies: int = 2) -> Scaling:
    """From one episode of each copy of each scenario, seeded from ``seed`` on: around the zero action, with noise."""
    environments = PrfaaSVectorEnv(copies * len(scenarios), scenarios, action, threads=1)
    noise = np.random.default_rng(seed)
    observations, _ = environments.reset(seed=seed)
    met, ended = [observations], np.zeros(environments.num_envs, dtype=bool)
    while not ended.all():
        actions = noise.normal(0.0, NOISE, (environments.num_envs, 2))
        observations, _, _, truncated, _ = environments.step(np.clip(actions, -1.0, 1.0))
        met.append(observations)
        ended |= truncated
    environments.close()
    seen = np.concatenate(met).astype(np.float64)
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    factor = np.where(deviation < LEAST_DEVIATION, 0.0, 1.0 / (DEVIATIONS * np.maximum(deviation, LEAST_DEVIATION)))
    return Scaling(factor.astype(np.float32), (-mean * factor).astype(np.float32))


class Features(BaseFeaturesExtractor):
    """A :class:`Scaling` as a part of the network, so that whoever loads a model has it."""

    def __init__(
        self, observation_space: gymnasium.Space[Any], factor: Sequence[float], offset: Sequence[float]
    ) -> None:
        assert observation_space.shape is not None
        super().__init__(observation_space, observation_space.shape[0])
        self.register_buffer("factor", torch.tensor(factor, dtype=torch.float32))
        self.register_buffer("offset", torch.tensor(offset, dtype=torch.float32))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return (observations * self.factor + self.offset).clamp(-1.0, 1.0)


def feature_arguments(scaling: Scaling) -> dict[str, Any]:
    """Arguments of a policy of Stable-Baselines3 whose network sees by ``scaling``."""
    return {
        "features_extractor_class": Features,
        "features_extractor_kwargs": {"factor": scaling.factor.tolist(), "offset": scaling.offset.tolist()},
    }
