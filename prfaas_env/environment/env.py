"""The Gymnasium environment: a thin coat over :class:`ControlLoop`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar

import gymnasium
import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.environment.actions import action_space, action_table
from prfaas_env.environment.core import DEFAULT_ENGINE, DEFAULT_WINDOW_S, ControlLoop, Interval
from prfaas_env.environment.live import LiveDashboard
from prfaas_env.environment.observation import observation_space, observation_table
from prfaas_env.environment.picture import picture
from prfaas_env.environment.render import panel
from prfaas_env.environment.reward import TERMS, reward_table
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.simulator.signals import SIGNAL

__all__ = ["PrfaaSEnv"]

_RESET_OPTIONS = ("scenario",)


class PrfaaSEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """
    ## Description

    Two clusters serve a large language model. Prompts are prefilled either in the *remote* cluster of compute-dense
    instances, whose KV cache then crosses a link, or by the N_p prefill instances of the *local* cluster; its other
    N_d instances decode. Requests arrive in real time while their rate, their lengths and the link drift. At every
    control step the agent sets the routing threshold t (prompts with more than t uncached tokens go remote) or a
    routing price, and the local split N_p / N_d; converting an instance takes time. This is Prefill-as-a-Service
    (arXiv 2604.15039, section 3.4) as a control problem.

    ## Action Space

    `Box(-1, 1, (2,), float32)`; the keyword `action` says what the two numbers mean:

    {action_table}

    t* and N_p* solve Eqs. 7 and 8 on the recent window (`window_s`); what arrives below t_fill keeps the N_p instances
    busy and their queue short (component `filling_threshold`). At a price β a request goes remote iff (local wait +
    local prefill) − (remote wait + remote prefill + exposed transfer) > β. Where the deployment leaves no choice of
    route or split, that part of the action is without effect.

    ## Observation Space

    `Box(-1, 1, (k,), float32)`. Each component is clipped to [low, high], then placed on [−1, 1] linearly or by
    log(1 + x). `prfaas_env.environment.observation.decode` gives back physical units by name, of one observation
    (k,) or of a batch (n, k).

    {observation_table}

    ## Rewards

    The reward of a step is the sum of weight × term; the keyword `reward` chooses the weights. Every term is divided by
    the nominal arrivals of a control step (Λ_max of the scenario's nominal workload × step length).

    {reward_table}

    By Little's law the waiting term, summed over an episode that drains, would be the sum of all TTFTs (less the
    constant overhead). Under `mean-ttft` it is exactly that. The cap of the others keeps overloaded episodes from
    drowning the rest, at a price: whoever has waited longer costs nothing more, so that it pays to give up on him. The
    throughput term, a second a request, leaves a reason to serve him at all. To learn, take `mean-ttft` in pairs
    ([training](training.md#pairs)).

    ## Starting State

    An empty system with the deployment's own threshold and split. `reset(seed=…)` settles everything random (arrivals,
    lengths, clock, link) before the first step, so that no action can change what arrives. `reset(options={"scenario":
    {…}})` overrides values of the scenario for this one episode.

    ## Episode End

    Truncation at the scenario's `horizon_s`; an episode never terminates. Requests still in the system are not lost:
    `env.unwrapped.finish()` drains them and returns the request log.

    ## Information

    After a step: the terms of the reward (`waiting`, `throughput`, `goodput`, `egress_usd`, `instances_usd`), and
    `threshold_tokens`, `price_s`, `n_prefill`, `ttft_mean_s` (mean over the interval's first tokens; the last value
    known where there are none, 0 before the first) and `egress_gbps`. After a reset: none.

    ## Arguments

    ```python
    import gymnasium
    import prfaas_env

    env = gymnasium.make("prfaas_env/PrfaaS-v0", scenario="paper-stationary", action="residual", reward="ttft")
    ```

    - `scenario`: a shipped name, a path to a YAML file, or a `Scenario`.
    - `action`: `residual` (recommended), `absolute` or `price`. `reward`: `ttft`, `mean-ttft`, `goodput` or `cost`.
    - `engine`: which simulator runs it; `control_step_s` (1 to 300) and `horizon_s` override the scenario's.
    - `window_s`: window of the online closed form and of the slow rates, seconds.
    - `cache_rule`: `scarce` (each cluster's prefix cache counts alone), `abundant` (the longer prefix counts, and is
      copied where it is missing) or `auto`: abundant while less than half of the link is used.
    - `render_mode`: `human` (a dashboard in the terminal at `render_fps`, or a line a step where there is none), `ansi`
      (a panel of text) or `rgb_array` (a picture, 540 × 960; needs Pillow).

    Raises `ConfigError`, one line, on anything it cannot use.

    ## Version History

    * v0: initial version
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["human", "ansi", "rgb_array"],
        "render_fps": 10,
    }

    def __init__(
        self,
        scenario: str | Path | Scenario = "paper-stationary",
        action: str = "residual",
        reward: str = "ttft",
        engine: str = DEFAULT_ENGINE,
        control_step_s: float | None = None,
        horizon_s: float | None = None,
        window_s: float = DEFAULT_WINDOW_S,
        cache_rule: str = "auto",
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ConfigError(
                f"unknown render_mode {render_mode!r}{nearest(render_mode, self.metadata['render_modes'])}"
            )
        self.render_mode = render_mode
        self._dashboard = LiveDashboard(self.metadata["render_fps"])
        base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self.scenario = replace(
            base,
            control_step_s=base.control_step_s if control_step_s is None else control_step_s,
            horizon_s=base.horizon_s if horizon_s is None else horizon_s,
        )
        self._loop_arguments = (action, reward, engine, window_s, cache_rule)
        self.loop = ControlLoop(self.scenario, *self._loop_arguments)
        self.action_space = action_space()
        self.observation_space = observation_space()
        self._ttft_mean_s = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode. ``options={"scenario": {...}}`` overrides values of the scenario for this one.

        Raises :class:`ConfigError` on an unknown option or a value that a scenario file could not have either.
        """
        super().reset(seed=seed)
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise ConfigError(f"reset: options: expected a mapping, got {str(options)[:60]!r}")
        for option in options:
            if option not in _RESET_OPTIONS:
                raise ConfigError(f"reset: unknown option {option!r}{nearest(option, _RESET_OPTIONS)}")
        overrides = options.get("scenario")
        if not isinstance(overrides, (Mapping, NoneType)):
            raise ConfigError(f"reset: scenario: expected a mapping of changed values, got {str(overrides)[:60]!r}")
        scenario = self.scenario.with_overrides(overrides) if overrides else self.scenario
        if scenario is not self.loop.scenario:
            self.loop = ControlLoop(scenario, *self._loop_arguments)
        self._ttft_mean_s = 0.0
        observation = self.loop.reset(self.np_random)
        self._show()
        return observation, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Run one control interval under ``action``, shape (2,); see the class for what comes back.

        Raises ``ValueError`` if the action is not two finite numbers, ``RuntimeError`` after the end of an episode.
        """
        interval = self.loop.step(action)
        self._show()
        return interval.observation, interval.reward, False, interval.ended, self._info(interval)

    def _info(self, interval: Interval) -> dict[str, float]:
        signals, control = interval.signals, interval.control
        first_tokens = signals[SIGNAL["first_tokens"]]
        if first_tokens > 0:
            self._ttft_mean_s = float(signals[SIGNAL["ttft_sum_s"]] / first_tokens)
        return {
            **{term.name: float(value) for term, value in zip(TERMS, interval.terms, strict=True)},
            "threshold_tokens": float(control.threshold_tokens),
            "price_s": float(control.price_s),
            "n_prefill": float(signals[SIGNAL["prefill_nodes"]]),
            "ttft_mean_s": self._ttft_mean_s,
            "egress_gbps": float(8e-9 * signals[SIGNAL["link_sent_bytes"]] / signals[SIGNAL["interval_s"]]),
        }

    def finish(self) -> np.ndarray:
        """Drain the system after the last step and return the request log: one row a request (``REQUEST_DTYPE``)."""
        return self.loop.finish()

    def _show(self) -> None:
        if self.render_mode == "human":
            self._dashboard.show(self.loop)

    def render(self) -> str | np.ndarray | None:
        """The present state as text (``ansi``) or as a picture, uint8 (height, width, 3) (``rgb_array``).

        Under ``human`` nothing: ``reset`` and ``step`` have drawn it. Raises ``RuntimeError`` before the first reset.
        """
        if self.render_mode is None:
            modes = ", ".join(map(repr, self.metadata["render_modes"]))
            gymnasium.logger.warn(f"render: no render_mode was given to make; use one of {modes}")
            return None
        if self.render_mode == "human":
            return None
        return panel(self.loop) if self.render_mode == "ansi" else picture(self.loop)

    def close(self) -> None:
        """Give the terminal back, if ``human`` has taken it."""
        self._dashboard.close()


_TABLES = {"action_table": action_table(), "observation_table": observation_table(), "reward_table": reward_table()}
if PrfaaSEnv.__doc__:  # absent under python -OO
    PrfaaSEnv.__doc__ = inspect.cleandoc(PrfaaSEnv.__doc__)
    for _name, _table in _TABLES.items():
        PrfaaSEnv.__doc__ = PrfaaSEnv.__doc__.replace(f"{{{_name}}}", _table)
