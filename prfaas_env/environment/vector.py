"""The vector environment: many copies of ``PrfaaS-v0`` stepped inside compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from prfaas_env.config import ConfigError, nearest
from prfaas_env.environment.actions import action_space
from prfaas_env.environment.batch import Batch
from prfaas_env.environment.core import DEFAULT_WINDOW_S, ControlLoop
from prfaas_env.environment.observation import observation_space
from prfaas_env.environment.reward import TERMS
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.signals import SIGNAL

__all__ = ["PrfaaSVectorEnv"]

ScenarioLike = str | Path | Scenario


class PrfaaSVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """``num_envs`` copies of :class:`~prfaas_env.environment.env.PrfaaSEnv` on the compiled engine.

    Copy i is seeded with ``seed + i`` and gives, step for step, what the scalar environment gives with that seed.

    - ``scenario``: one scenario, or a list of which copy i takes number i mod length.
    - ``action``, ``reward``, ``control_step_s``, ``horizon_s``, ``window_s``, ``cache_rule``: as for the scalar one.
    - ``autoreset_mode``: ``NextStep`` (default; Gymnasium's name or enum), ``SameStep`` or ``Disabled`` (then reset
      with ``options={"reset_mask": …}``).
    - ``threads``: copies stepped at a time; the results do not depend on it.

    Raises :class:`ConfigError` on an argument it cannot use.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # type: ignore[misc]

    def __init__(
        self,
        num_envs: int = 1,
        scenario: ScenarioLike | Sequence[ScenarioLike] = "paper-stationary",
        action: str = "residual",
        reward: str = "ttft",
        engine: str = "compiled",
        control_step_s: float | None = None,
        horizon_s: float | None = None,
        window_s: float = DEFAULT_WINDOW_S,
        cache_rule: str = "auto",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: expected at least 1, got {num_envs}")
        if engine != "compiled":
            raise ConfigError(f"engine: the vector environment runs the compiled engine only, got {engine!r}")
        if render_mode is not None:
            raise ConfigError(f"render_mode: the vector environment draws nothing, got {render_mode!r}")
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            modes = [mode.value for mode in AutoresetMode]
            raise ConfigError(
                f"autoreset_mode: unknown mode {autoreset_mode!r}{nearest(str(autoreset_mode), modes)}"
            ) from None
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}  # type: ignore[misc]
        given = [scenario] if isinstance(scenario, (str, Path, Scenario)) else list(scenario)
        if not given:
            raise ConfigError("scenario: expected at least one scenario")
        scenarios = [
            _with_steps(item if isinstance(item, Scenario) else load_scenario(item), control_step_s, horizon_s)
            for item in given
        ]
        loops = [ControlLoop(item, action, reward, "compiled", window_s, cache_rule) for item in scenarios]
        self.num_envs = num_envs
        self.batch = Batch([loops[i % len(loops)] for i in range(num_envs)], threads)
        self.single_action_space = action_space()
        self.single_observation_space = observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._seeded = False
        self._ended = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every copy, or in those of ``options["reset_mask"]`` (bool, shape (num_envs,)).

        ``seed`` s seeds copy i with s + i (or give one a copy); ``None`` goes on with the copies' generators.
        """
        for option in options or {}:
            if option != "reset_mask":
                raise ConfigError(f"reset: unknown option {option!r}; valid: reset_mask")
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs)), dtype=bool)
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ConfigError(f"reset: reset_mask: expected {self.num_envs} booleans, one true at least")
        seeds = _seeds(seed, self.num_envs)
        for row in np.flatnonzero(mask).tolist():
            if seeds[row] is not None or not self._seeded:
                self.batch.seed(row, seeding.np_random(seeds[row])[0])
        if not self._seeded and not mask.all():
            raise ConfigError("reset: the first reset must be of every copy")
        self._seeded = True
        for row in np.flatnonzero(mask).tolist():
            self.batch.reset(row)
        self._ended[mask] = False
        return self.batch.observations.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One control interval of every copy under ``actions``, shape (num_envs, 2).

        In ``NextStep`` mode a copy whose episode has ended begins the next one instead (reward 0, its action unused).
        Raises ``ValueError`` on actions that are not finite, ``RuntimeError`` before the first reset.
        """
        if not self._seeded:
            raise RuntimeError("no episode: call reset first")
        if self._ended.any() and self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            raise RuntimeError("an episode has ended: reset it with options={'reset_mask': …}")
        fresh = self._ended.copy()
        rows = np.flatnonzero(~fresh)
        self.batch.step(np.asarray(actions), rows)
        for row in np.flatnonzero(fresh).tolist():
            self.batch.reset(row)
        scalars = self.batch.shared.scalars
        rewards = np.where(fresh, 0.0, scalars["reward"])
        truncated = scalars["ended"].astype(bool)
        infos = self._infos(~fresh)
        observations = self.batch.observations.copy()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and truncated.any():
            final_info = self._infos(truncated)
            final = np.full(self.num_envs, None, dtype=object)
            for row in np.flatnonzero(truncated).tolist():
                final[row] = observations[row].copy()
                self.batch.reset(row)
                observations[row] = self.batch.observations[row]
            infos |= {"final_obs": final, "_final_obs": truncated.copy(), "final_info": final_info}
            infos["_final_info"] = truncated.copy()
            self._ended[:] = False
        else:
            self._ended = truncated.copy()
        return observations, rewards, np.zeros(self.num_envs, dtype=bool), truncated, infos

    def _infos(self, stepped: np.ndarray) -> dict[str, Any]:
        """The scalar environment's infos as arrays, each with a mask of the copies that it is known of."""
        scalars, signals, _, terms = self.batch.shared
        interval_s = np.maximum(signals[:, SIGNAL["interval_s"]], 1e-9)
        values = {
            **{term.name: terms[:, i] for i, term in enumerate(TERMS)},
            "threshold_tokens": scalars["threshold_tokens"],
            "price_s": scalars["price_s"],
            "n_prefill": signals[:, SIGNAL["prefill_nodes"]],
            "ttft_mean_s": scalars["ttft_mean_s"],
            "egress_gbps": 8e-9 * signals[:, SIGNAL["link_sent_bytes"]] / interval_s,
        }
        infos: dict[str, Any] = {}
        for name, value in values.items():
            infos[name] = np.where(stepped, value, 0.0)
            infos[f"_{name}"] = stepped.copy()
        return infos

    def close_extras(self, **_: Any) -> None:
        """Stop the threads of the batch."""
        self.batch.close()


def _with_steps(scenario: Scenario, control_step_s: float | None, horizon_s: float | None) -> Scenario:
    return replace(
        scenario,
        control_step_s=scenario.control_step_s if control_step_s is None else control_step_s,
        horizon_s=scenario.horizon_s if horizon_s is None else horizon_s,
    )


def _seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    if seed is None:
        return [None] * n
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(n)]
    seeds = list(seed)
    if len(seeds) != n:
        raise ConfigError(f"reset: seed: expected {n} seeds, one a copy, got {len(seeds)}")
    return seeds
