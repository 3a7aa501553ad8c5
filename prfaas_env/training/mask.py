"""A policy that sees a part of the observation: the other components are 0 in training and in acting alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from prfaas_env.environment.observation import GROUPS

__all__ = ["Masked", "masking"]


class Masked(BaseFeaturesExtractor):
    """Sets all components but those of ``groups`` to 0. It is part of the network, so whoever loads a model has it."""

    def __init__(self, observation_space: gymnasium.Space[Any], groups: Sequence[str]) -> None:
        assert observation_space.shape is not None
        super().__init__(observation_space, observation_space.shape[0])
        seen = torch.zeros(observation_space.shape[0])
        for group in groups:
            seen[list(GROUPS[group])] = 1.0
        self.register_buffer("seen", seen)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations * self.seen


def masking(groups: Sequence[str]) -> dict[str, Any]:
    """Arguments of a policy that sees ``groups`` only; none where there are no groups, which means all of them."""
    if not groups:
        return {}
    return {"features_extractor_class": Masked, "features_extractor_kwargs": {"groups": list(groups)}}
