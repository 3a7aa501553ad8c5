"""Outside what it has met in training, a learned policy gives way to the scheduler that it corrects.

A network says something about every observation, about those unlike any that it was trained on too. The card of a model
names the range of each component in training; how far an observation lies outside, summed over the components, decides
how much of the model's action is used::

    trust = 1 within NEAR of the ranges, 0 from FAR on, linear between
    action = scheduler + trust · (model − scheduler)

and where the two route by different laws, by that of the one who is trusted more.

A control step or a deployment of a size that training has not met is another world: there the model has no say, and
neither where a component is no number.

Components may each lie within what was met and together be like nothing that was. So results are watched too: where
the closed form could sustain the traffic (load below ``SUSTAINED``), requests wait for longer than ``PATIENCE_S`` all
the same, and as many of them after ``WATCH_S`` (after an overload the queue only has to be worked off), the scheduler
acts alone for ``HOLD_S``, and on for as long as it takes. But where as many wait after it too, as where traffic comes
in bursts, it does no better: the model then has ``TURN_S`` to itself.

A conversion takes instances out of service, and a network in doubt between two N_p asks for one and for the other in
turn. So N_p only moves when it has asked for more, or for less, for ``DWELL_S`` on end. And never beyond N_p* to where,
by Eq. 5, arrivals would take more than ``SUSTAINED`` of what decode can do.

Corrections are bounded in any case: actions are clipped to [−1, 1], which is a factor of e^±3 on t* or t_fill, a price
of up to two minutes, and two instances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prfaas_env.environment.actions import PREFILL_SPAN, ActionForm, ActionName, action_form, away_from_zero
from prfaas_env.environment.observation import COMPONENTS, GROUPS, decode, encode
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.control import Control

from .base import Observed, Policy, elapsed
from .card import ModelCard

__all__ = ["DWELL_S", "FAR", "HOLD_S", "MARGIN", "NEAR", "PATIENCE_S", "SUSTAINED", "TURN_S", "WATCH_S", "Guard"]

MARGIN = 0.05
"""How far beyond its range a component still is inside; all on the observation's own scale, 2 from end to end."""
NEAR, FAR = 1.0, 2.0
"""Distance, summed over components, up to which the model acts alone, and from which it no longer acts at all."""

SUSTAINED, PATIENCE_S, WATCH_S, HOLD_S, TURN_S = 0.9, 20.0, 120.0, 300.0, 900.0
"""Without a load that can be sustained, long waits are nobody's fault."""

SIZE = GROUPS["size"]
"""Components that do not change in an episode."""

DWELL_S = 30.0
"""About a conversion of the paper's cluster: who changes his mind sooner has gained nothing by it."""


def _decode_room(seen: Observed) -> np.ndarray:
    """By how many instances N_p may exceed N_p* before decode is too busy, from Eq. 5 at the present N_p."""
    local, arrivals = seen["local_instances"], np.maximum(seen["arrivals"], seen["arrivals_window"])
    each_rps = seen["decode_present_split_rps"] / np.maximum(local - seen["prefill_nodes"], 1.0)
    needed = np.ceil(arrivals / np.maximum(SUSTAINED * each_rps, 1e-9) - 0.01)
    return np.rint(local - needed - seen["advised_prefill"])


class Guard:
    """A policy within the ranges of its card. It keeps nothing itself: the count travels in ``state``."""

    def __init__(self, policy: Policy, card: ModelCard, scenario: Scenario) -> None:
        """``policy`` is the model that ``card`` describes; the scenario's deployment bounds N_p."""
        self.action_mode: ActionName = card.action
        self._policy = policy
        self._form: ActionForm = action_form(card.action, scenario.deployment)
        bounds = [card.ranges.get(c.name, (c.low, c.high)) for c in COMPONENTS]
        self._low, self._high = (encode(np.array(side, dtype=np.float64)) for side in zip(*bounds, strict=True))

    def distance(self, observation: np.ndarray) -> np.ndarray:
        """How far observations, (n, k), lie outside the ranges: float (n,), 0 inside; infinite for another step or
        size, or what is no number."""
        beyond = np.maximum(np.maximum(self._low - observation, observation - self._high) - MARGIN, 0.0)
        elsewhere = (beyond[:, SIZE] > 0.0).any(axis=1) | np.isnan(beyond).any(axis=1)
        distance: np.ndarray = np.where(elsewhere, np.inf, beyond.sum(axis=1))
        return distance

    @staticmethod
    def failing(seen: Observed) -> np.ndarray:
        """Where requests wait too long for the load, bool (n,), from decoded observations; the wait by Little's law."""
        arrivals = np.maximum(seen["arrivals_window"], 1e-9)
        sustained = np.maximum(seen["load"], arrivals / np.maximum(seen["lambda_max"], 1e-9)) < SUSTAINED
        late: np.ndarray = sustained & (seen["waiting"] > PATIENCE_S * arrivals)
        return late

    def predict(
        self,
        observation: np.ndarray,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """As any policy's. ``state``: five arrays (n,), then the model's own state. They hold the steps held back so
        far, the seconds for which the scheduler (positive) or the model (negative) still acts alone, the seconds for
        which requests have waited too long, how many did when that, or the scheduler's turn, began, and the seconds
        for which more (positive) or fewer prefill instances have been asked for."""
        batch = np.atleast_2d(observation)
        kept = (np.zeros(len(batch), dtype=np.int64), *np.zeros((4, len(batch)))) if state is None else state[:5]
        if episode_start is not None:
            kept = tuple(np.where(episode_start, 0, each) for each in kept)
        held_back, turn_s, late_s, waited, asked_s = kept
        action, inner = self._policy.predict(observation, (state or ())[5:] or None, episode_start, deterministic)
        seen = decode(batch)
        turn_s, late_s, waited = self._turn(seen, turn_s, late_s, waited)
        if self.action_mode != "absolute":
            action, asked_s = self._steady(seen, np.atleast_2d(action), asked_s)
            action = action if np.ndim(observation) == 2 else action[0]
        trust = np.clip((FAR - self.distance(batch)) / (FAR - NEAR), 0.0, 1.0)
        trust = np.where(turn_s > 0.0, 0.0, trust)
        outside = trust < 1.0
        if outside.any():
            blended = np.atleast_2d(action).copy()
            scheduler = np.stack([self._scheduler(row) for row in batch[outside]])
            weight = trust[outside, None].astype(np.float32)
            own = np.clip(blended[outside], -1.0, 1.0)
            mixed = scheduler + weight * (own - scheduler)
            if self.action_mode == "price":  # well below zero it is a threshold, and nothing lies between the laws
                mixed[:, 0] = np.where(own[:, 0] < 0.0, np.where(weight[:, 0] < 0.5, 0.0, own[:, 0]), mixed[:, 0])
            blended[outside] = mixed
            action = blended if np.ndim(observation) == 2 else blended[0]
        return action, (held_back + outside, turn_s, late_s, waited, asked_s, *(inner or ()))

    def _turn(
        self, seen: Observed, turn_s: np.ndarray, late_s: np.ndarray, waited: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whose turn it is after a step, in the terms of the state."""
        step_s, waiting, late = seen["control_step_s"], seen["waiting"], self.failing(seen)
        left_s = np.sign(turn_s) * np.maximum(np.abs(turn_s) - step_s, 0.0)
        over = (turn_s > 0.0) & (left_s == 0.0)
        in_vain = over & (waiting >= waited)
        watched = (left_s == 0.0) & late & ~over
        first = watched & (late_s == 0.0)
        long_enough = watched & (late_s >= WATCH_S)
        begins = (long_enough & (waiting >= waited)) | (over & late & ~in_vain)
        turn_s = np.select([in_vain, begins], [-TURN_S, HOLD_S], left_s)
        late_s = np.where(watched & ~long_enough, late_s + step_s, 0.0)
        return turn_s, late_s, np.where(begins | first, waiting, waited)

    @staticmethod
    def _steady(seen: Observed, action: np.ndarray, asked_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The actions with N_p within what decode can bear, and kept until a move has been asked for long enough; and
        for how long it has."""
        keeping = np.rint(seen["target_over_advised"])
        shift = PREFILL_SPAN * np.clip(action[:, 1], -1.0, 1.0)
        shift = np.minimum(away_from_zero(shift), np.maximum(_decode_room(seen), 0.0))
        moves = np.sign(shift - keeping)
        asked_s = np.where(moves == np.sign(asked_s), asked_s, 0.0) + moves * seen["control_step_s"]
        long_enough = elapsed(np.abs(asked_s), DWELL_S, seen)
        kept = np.where(long_enough, shift, keeping)
        steady = action.copy()
        steady[:, 1] = np.clip(kept / PREFILL_SPAN, -1.0, 1.0)
        return steady, asked_s

    def _scheduler(self, observation: np.ndarray) -> np.ndarray:
        """The scheduler's own action, float32 (2,): zero, or (t*, N_p*) of the window where zero is no scheduler."""
        if self.action_mode != "absolute":
            return np.zeros(2, dtype=np.float32)
        observed = decode(observation)
        advised = Control(round(observed["advised_prefill"]), observed["advised_threshold"])
        return self._form.encode(advised, advised.threshold_tokens, advised.n_prefill)

    def held_back_steps(self, state: Any) -> int:
        """In how many steps of one episode the model did not act alone, from the state after the last one."""
        return int(state[0][0]) if state is not None else 0
