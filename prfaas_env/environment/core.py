"""The control loop: a scenario, an engine and a clock, without Gymnasium.

Every ``control_step_s`` an action becomes a control, the engine runs to the end of the interval, and what it measured
becomes the next observation and the terms of the reward. The environment and the evaluation both run this loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.environment.actions import action_form
from prfaas_env.environment.cache_rule import check_cache_rule, is_abundant
from prfaas_env.environment.observation import BYTES_PER_GIGABYTE, FACT, coarse_shares, encode, raw_observation
from prfaas_env.environment.recent import ARRIVALS, empty_recent, recent_rates, update_recent
from prfaas_env.environment.reward import patience_s, reward_terms, reward_weights, term_factors, weigh
from prfaas_env.scenario import Draw, Scenario
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import Engine, make_engine
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNAL, SIGNALS
from prfaas_env.theory.online import Advice, OnlineClosedForm

__all__ = ["DEFAULT_ENGINE", "DEFAULT_WINDOW_S", "ControlLoop", "Interval"]

DEFAULT_ENGINE = "compiled"
DEFAULT_WINDOW_S = 300.0
LONGEST_WINDOW_S = 1e9


class Interval(NamedTuple):
    """What one control interval gave: the observation at its end, and its reward, terms, signals and control.

    ``terms`` (order of ``TERMS``) is unweighted; ``signals`` is in the order of ``SIGNALS``; ``ended`` is true when
    the horizon is reached.
    """

    observation: np.ndarray
    reward: float
    terms: np.ndarray
    signals: np.ndarray
    control: Control
    ended: bool


@dataclass
class _Episode:
    """What begins anew with every reset."""

    draw: Draw
    engine: Engine
    closed_form: OnlineClosedForm
    recent: np.ndarray
    control: Control
    advice: Advice
    signals: list[np.ndarray]
    last: np.ndarray  # signals of the last interval, or of the start


def _link_and_split(signals: np.ndarray) -> tuple[float, int]:
    return float(signals[SIGNAL["link_capacity_gbps"]]), int(signals[SIGNAL["prefill_nodes"]])


class ControlLoop:
    """Runs episodes of one scenario: ``reset``, then ``step`` until ``ended``, then ``finish``.

    ``action`` and ``reward`` name an action form and a kind of reward; ``window_s`` is the window of the online closed
    form and of the slow rates; ``cache_rule`` is ``scarce``, ``abundant`` or, by the link's load, ``auto``.
    Raises :class:`ConfigError` on an unknown name or a window that is not positive.
    """

    def __init__(
        self,
        scenario: Scenario,
        action: str = "residual",
        reward: str = "ttft",
        engine: str = DEFAULT_ENGINE,
        window_s: float = DEFAULT_WINDOW_S,
        cache_rule: str = "auto",
    ) -> None:
        for key, name in (("action", action), ("reward", reward), ("engine", engine), ("cache_rule", cache_rule)):
            if not isinstance(name, str):
                raise ConfigError(f"{key}: expected a name, got {str(name)[:60]!r}")
        if (
            isinstance(window_s, bool)
            or not isinstance(window_s, (int, float, np.number))
            or not 0 < window_s <= LONGEST_WINDOW_S
        ):
            raise ConfigError(
                f"window_s: expected a number of seconds > 0 and ≤ {LONGEST_WINDOW_S:g}, got {str(window_s)[:60]!r}"
            )
        self.scenario = scenario
        self.engine_name = engine
        self.window_s = float(window_s)
        self.cache_rule = check_cache_rule(cache_rule)
        self.actions = action_form(action, scenario.deployment)
        self.weights, self.patience_s = reward_weights(reward), patience_s(reward)
        nominal_arrivals = scenario.lambda_max_rps * scenario.control_step_s
        self.factors = term_factors(scenario.deployment, nominal_arrivals)
        self.constants = self._constant_facts()
        self._episode: _Episode | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A running episode does not travel: an engine may hold generators. A copy must be reset first."""
        return {**self.__dict__, "_episode": None}

    # --- one episode ----------------------------------------------------------------------------------------------

    def reset(self, seed: int | np.random.Generator) -> np.ndarray:
        """Begin an episode; the first observation rests on the nominal workload alone.

        ``seed`` settles everything random (a generator is only spawned from); no action can change it later.
        """
        return self.begin(self.scenario.draw(seed))

    def begin(self, draw: Draw) -> np.ndarray:
        """Begin the episode of a draw of this scenario."""
        scenario, deployment = self.scenario, self.scenario.deployment
        control = Control(deployment.local.prefill, deployment.threshold_tokens)
        engine = make_engine(
            self.engine_name,
            deployment,
            draw.stream,
            capacity=draw.capacity,
            faults=draw.faults,
            objectives=scenario.objectives,
            control=control,
            patience_s=self.patience_s,
        )
        closed_form = OnlineClosedForm(deployment, scenario.nominal, self.window_s, scenario.control_step_s)
        signals, _ = engine.measure()
        advice = closed_form.advise(*_link_and_split(signals))
        self._episode = _Episode(draw, engine, closed_form, empty_recent(), control, advice, [], signals)
        return self._observe(signals)

    def step(self, action: np.ndarray) -> Interval:
        """Put an action, shape (2,), in force and run one control interval (the last one ends at the horizon).

        Raises ``ValueError`` if the action is not two finite numbers, ``RuntimeError`` before a reset or after the end.
        """
        self._check_running()
        advice = self.episode.advice
        filling_tokens = self._filling_tokens(self.episode.last)
        return self.step_under(self.actions.decode(action, advice.threshold_tokens, advice.n_prefill, filling_tokens))

    def _check_running(self) -> None:
        horizon_s = self.scenario.horizon_s
        if self.episode.engine.now_s >= horizon_s:
            raise RuntimeError(f"the episode ended at {horizon_s:g} s: call reset")

    def step_under(self, control: Control) -> Interval:
        """As :meth:`step`, with the knobs themselves; the rule for the cache is the loop's."""
        self._check_running()
        episode, horizon_s = self.episode, self.scenario.horizon_s
        if self.cache_rule == "abundant" or (self.cache_rule == "auto" and is_abundant(episode.last)):
            control = replace(control, cache_rule="abundant")
        episode.control = control
        episode.engine.apply(control)
        # By step number, not by adding up: the steps do not drift.
        end_s = min((len(episode.signals) + 1) * self.scenario.control_step_s, horizon_s)
        episode.engine.advance(end_s)
        signals, bin_counts = episode.engine.measure()
        episode.signals.append(signals)
        episode.last = signals
        update_recent(episode.recent, signals, self.window_s)
        episode.advice = episode.closed_form.update(
            bin_counts,
            signals[SIGNAL["completed"]],
            signals[SIGNAL["completed_output_tokens"]],
            *_link_and_split(signals),
        )
        terms = reward_terms(signals, self.factors)
        return Interval(
            self._observe(signals), float(weigh(terms, self.weights)), terms, signals, control, ended=end_s >= horizon_s
        )

    def finish(self) -> np.ndarray:
        """Let everything leave, under the last control, and return the request log (``REQUEST_DTYPE``)."""
        self.episode.engine.drain()
        return self.episode.engine.log()

    # --- what there is to know ------------------------------------------------------------------------------------

    @property
    def episode(self) -> _Episode:
        """The running episode. Raises ``RuntimeError`` before the first reset."""
        if self._episode is None:
            raise RuntimeError("no episode: call reset first")
        return self._episode

    @property
    def steps(self) -> int:
        """Control intervals in an episode."""
        return math.ceil(self.scenario.horizon_s / self.scenario.control_step_s)

    @property
    def timeline(self) -> np.ndarray:
        """Signals of every interval so far, float64 (steps, signals), in the order of ``SIGNALS``."""
        return np.array(self.episode.signals).reshape(-1, len(SIGNALS))

    @property
    def control(self) -> Control:
        """The control in force."""
        return self.episode.control

    @property
    def advice(self) -> Advice:
        """What the online closed form advises now."""
        return self.episode.advice

    # --- observation ----------------------------------------------------------------------------------------------

    def _constant_facts(self) -> np.ndarray:
        deployment = self.scenario.deployment
        local, remote = deployment.local, deployment.remote
        slots = local.instances * local.profile.decode.slots
        return np.array(
            [
                1.0,
                local.instances,
                remote.instances if remote else 0.0,
                slots,
                self.scenario.control_step_s,
                BYTES_PER_GIGABYTE,
            ]
        )

    def _filling_tokens(self, signals: np.ndarray) -> float:
        """The threshold that fills the local pool with what arrives at the moment."""
        episode = self.episode
        n_prefill, wait_s = (float(signals[SIGNAL[name]]) for name in ("prefill_nodes", "local_expected_wait_s"))
        return episode.closed_form.filling(n_prefill, float(recent_rates(episode.recent)[ARRIVALS]), wait_s)

    def _observe(self, signals: np.ndarray) -> np.ndarray:
        episode = self.episode
        advice = episode.advice
        angle = 2.0 * math.pi * float(episode.draw.clock.hour(signals[SIGNAL["time_s"]])) / 24.0
        facts = np.concatenate(
            [
                signals,
                recent_rates(episode.recent),
                coarse_shares(episode.closed_form.total[: len(LENGTH_BIN_CENTRES_TOKENS)]),
                [
                    advice.threshold_tokens,
                    advice.n_prefill,
                    advice.threshold_at_present_split_tokens,
                    advice.lambda_max_rps,
                    advice.prefill_at_present_split_rps,
                    advice.decode_at_present_split_rps,
                    signals[SIGNAL["target_prefill_nodes"]] - advice.n_prefill,
                    self._filling_tokens(signals),
                ],
                [math.sin(angle), math.cos(angle)],
                self.constants,
            ]
        )
        assert len(facts) == len(FACT)
        return encode(raw_observation(facts))
