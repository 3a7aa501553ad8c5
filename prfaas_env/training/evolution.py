"""Evolution strategies: the policy's weights are moved by how well perturbed copies of it do, without any gradient.

Each generation perturbs the weights in pairs, θ + σε and θ − σε, and plays both on the same episode; pairs play
different ones. The difference of their mean rewards, over the size of both, says whether ε is a good direction; only
the ranks of the differences count, so that no overloaded episode drowns the others (Salimans et al., arXiv:1703.03864,
section 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from prfaas_env.environment.sb3 import PrfaaSVecEnv
from prfaas_env.seeds import training_seed
from prfaas_env.training.rewards import ScaledRewards

__all__ = ["Evolution", "signed_ranks"]


def signed_ranks(differences: np.ndarray) -> np.ndarray:
    """Weights in [−1, 1] of the directions: the sign of a pair's difference times the rank of its size. Shape (n,)."""
    sizes = np.abs(differences)
    ranks = np.searchsorted(np.sort(sizes), sizes, side="right") / len(sizes)
    return np.sign(differences) * ranks


class Evolution(PPO):
    """PPO's policy and its book-keeping, learnt by evolution: a rollout is a generation, one episode a copy.

    Copies 2k and 2k + 1 are a pair and must run the same scenario. ``run_seed`` and the steps taken settle the
    episodes. A file of it can be loaded as PPO.
    """

    perturbation = 0.05
    run_seed = 0
    _begun: Any = None

    def _weights(self) -> list[torch.nn.Parameter]:
        """What acts: the layers of the policy's network and its head, weight and bias in turn."""
        network, head = self.policy.mlp_extractor.policy_net, self.policy.action_net
        return [*network.parameters(), *head.parameters()]

    def _noise(self, shapes: list[torch.Size], pairs: int) -> list[np.ndarray]:
        rng = np.random.default_rng([self.run_seed, self.num_timesteps])
        return [rng.standard_normal((pairs, *shape), dtype=np.float32) for shape in shapes]

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,  # noqa: ARG002
        n_rollout_steps: int,  # noqa: ARG002
    ) -> bool:
        """One generation; False if the callback ends the run before its end."""
        callback.on_rollout_start()
        self.policy.set_training_mode(False)
        assert isinstance(env, ScaledRewards)
        copies = env.unwrapped
        assert isinstance(copies, PrfaaSVecEnv)
        pairs = env.num_envs // 2
        weights = [parameter.detach().numpy() for parameter in self._weights()]
        self._directions = self._noise([parameter.shape for parameter in self._weights()], pairs)
        signs = np.tile(np.array([1.0, -1.0], dtype=np.float32), pairs)
        perturbed = [
            weight + self.perturbation * np.einsum("n,n...->n...", signs, np.repeat(direction, 2, axis=0))
            for weight, direction in zip(weights, self._directions, strict=True)
        ]
        observations = self._episodes_begun(env, copies)
        totals, lengths = np.zeros(env.num_envs), np.zeros(env.num_envs)
        playing = np.ones(env.num_envs, dtype=bool)
        while playing.any():
            actions = self._act(observations, perturbed)
            observations, _, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            callback.update_locals({"actions": actions, "new_obs": observations, "infos": infos})
            if not callback.on_step():
                return False
            totals += np.where(playing, env.original_rewards, 0.0)
            lengths += playing
            self._update_info_buffer(infos, dones & playing)
            playing &= ~dones
        self._begun = observations if dones.all() else None
        self._fitness = totals / lengths
        callback.on_rollout_end()
        return True

    def _episodes_begun(self, env: ScaledRewards, copies: PrfaaSVecEnv) -> Any:
        """Observations at the start of an episode of every copy; those of a pair draw theirs alike."""
        if self._begun is not None:
            return self._begun  # all ended at once, and the copies have gone on to the next by themselves
        first = training_seed(self.run_seed, self.num_timesteps)
        copies.seed_each([first + k // 2 for k in range(env.num_envs)])
        return env.reset()

    def _act(self, observations: Any, perturbed: list[np.ndarray]) -> np.ndarray:
        """Deterministic actions, each copy's of its own weights; float32 (copies, 2)."""
        with torch.no_grad():
            seen = self.policy.extract_features(
                obs_as_tensor(observations, self.device), self.policy.features_extractor
            )
        x = seen.numpy()[:, None, :]
        layers = list(zip(perturbed[::2], perturbed[1::2], strict=True))
        for weight, bias in layers[:-1]:
            x = np.tanh(np.matmul(x, weight.transpose(0, 2, 1)) + bias[:, None, :])
        weight, bias = layers[-1]
        return np.clip((np.matmul(x, weight.transpose(0, 2, 1)) + bias[:, None, :])[:, 0], -1.0, 1.0)

    def train(self) -> None:
        """Move the weights along the directions that did better, by the optimiser's step."""
        optimiser = self.policy.optimizer
        self._update_learning_rate(optimiser)
        plus, minus = self._fitness[::2], self._fitness[1::2]
        differences = (plus - minus) / (np.abs(plus) + np.abs(minus) + 1e-9)
        ranks = signed_ranks(differences).astype(np.float32)
        optimiser.zero_grad(set_to_none=True)
        for parameter, direction in zip(self._weights(), self._directions, strict=True):
            parameter.grad = torch.from_numpy(-np.einsum("n,n...->...", ranks, direction) / len(ranks))
        optimiser.step()
        self.logger.record("train/fitness", float(self._fitness.mean()))
        self.logger.record("train/fitness_difference", float(np.abs(differences).mean()))

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_begun", "_directions", "_fitness"]
