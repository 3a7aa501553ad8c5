"""The three forms of action, each a vector of two numbers in [−1, 1], and what they mean for the knobs.

``residual`` corrects the online closed form (t*, N_p*) and ``price`` the least-completion routing: the zero action *is*
the scheduler, and learning starts from there. ``absolute`` sets log t and N_p outright. The constants of this module
are the only place where their spans are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import gymnasium
import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.control import Control

__all__ = ["ACTION_FORMS", "PRICE_SPAN_S", "ActionForm", "ActionName", "action_form", "action_space", "action_table"]

ActionName = Literal["residual", "absolute", "price"]

THRESHOLD_LOG_SPAN = 1.5
"""A full residual action multiplies or divides t* by e^1.5 = 4.5."""
PREFILL_SPAN = 1.5
"""A full residual action moves N_p by 1.5 instances, rounded away from zero to 2."""
THRESHOLD_LOW_TOKENS, THRESHOLD_HIGH_TOKENS = 256.0, 262144.0
"""Range of the absolute threshold; its two ends mean all remote (t = 0) and all local (t = ∞)."""
PRICE_SPAN_S, PRICE_CURVATURE = 30.0, 3.0
"""A full price action is ± 30 s; the sinh between is finer near zero (9 s a unit there)."""


@dataclass(frozen=True)
class ActionForm:
    """One form: ``decode(action, t*, N_p*) -> Control`` and its inverse ``encode(control, t*, N_p*) -> action``.

    What ``encode`` cannot reach is clipped to the nearest action.
    """

    name: ActionName
    prefill_low: int
    prefill_high: int
    _decode: Callable[[ActionForm, float, float, float, int], Control]
    _encode: Callable[[ActionForm, Control, float, int], tuple[float, float]]

    def decode(self, action: np.ndarray, advised_threshold_tokens: float, advised_prefill: int) -> Control:
        """The control behind an action, shape (2,); values outside [−1, 1] are clipped.

        Raises ``ValueError`` if the action is not two finite numbers.
        """
        pair = np.asarray(action, dtype=np.float64)
        if pair.shape != (2,) or not np.isfinite(pair).all():
            raise ValueError(f"action: expected 2 finite numbers in [-1, 1], got {action!r}")
        first, second = np.clip(pair, -1.0, 1.0).tolist()
        return self._decode(self, first, second, advised_threshold_tokens, advised_prefill)

    def encode(self, control: Control, advised_threshold_tokens: float, advised_prefill: int) -> np.ndarray:
        """The action, float32 (2,), that comes nearest to ``control``."""
        pair = self._encode(self, control, advised_threshold_tokens, advised_prefill)
        return np.clip(np.array(pair, dtype=np.float64), -1.0, 1.0).astype(np.float32)

    def clip_prefill(self, nodes: float) -> int:
        return int(min(max(nodes, self.prefill_low), self.prefill_high))


def _away_from_zero(x: float) -> int:
    """Nearest whole number, halves away from zero: up and down are then alike."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def _corrected_prefill(form: ActionForm, second: float, advised_prefill: int) -> int:
    return form.clip_prefill(advised_prefill + _away_from_zero(PREFILL_SPAN * second))


def _decode_residual(form: ActionForm, first: float, second: float, threshold_tokens: float, prefill: int) -> Control:
    corrected = threshold_tokens * math.exp(THRESHOLD_LOG_SPAN * first)
    return Control(_corrected_prefill(form, second, prefill), corrected)


def _encode_residual(_: ActionForm, control: Control, threshold_tokens: float, prefill: int) -> tuple[float, float]:
    ratio = control.threshold_tokens / threshold_tokens
    first = math.log(ratio) / THRESHOLD_LOG_SPAN if ratio > 0 else -1.0
    return first, (control.n_prefill - prefill) / PREFILL_SPAN


_LOG_LOW, _LOG_HIGH = math.log(THRESHOLD_LOW_TOKENS), math.log(THRESHOLD_HIGH_TOKENS)


def _decode_absolute(form: ActionForm, first: float, second: float, _threshold_tokens: float, _prefill: int) -> Control:
    # Whole tokens: float32 actions then give back exactly the threshold that a scripted policy asked for.
    threshold = float(round(math.exp(_LOG_LOW + (first + 1.0) / 2.0 * (_LOG_HIGH - _LOG_LOW))))
    if abs(first) >= 1.0:
        threshold = 0.0 if first < 0 else math.inf
    nodes = form.prefill_low + (second + 1.0) / 2.0 * (form.prefill_high - form.prefill_low)
    return Control(form.clip_prefill(_away_from_zero(nodes)), threshold)


def _encode_absolute(
    form: ActionForm, control: Control, _threshold_tokens: float, _prefill: int
) -> tuple[float, float]:
    threshold = min(max(control.threshold_tokens, THRESHOLD_LOW_TOKENS), THRESHOLD_HIGH_TOKENS)
    first = 2.0 * (math.log(threshold) - _LOG_LOW) / (_LOG_HIGH - _LOG_LOW) - 1.0
    width = form.prefill_high - form.prefill_low
    second = 2.0 * (form.clip_prefill(control.n_prefill) - form.prefill_low) / width - 1.0 if width else 0.0
    return first, second


def _decode_price(form: ActionForm, first: float, second: float, _threshold_tokens: float, prefill: int) -> Control:
    price = PRICE_SPAN_S * math.sinh(PRICE_CURVATURE * first) / math.sinh(PRICE_CURVATURE)
    return Control(_corrected_prefill(form, second, prefill), law="price", price_s=price)


def _encode_price(_: ActionForm, control: Control, _threshold_tokens: float, prefill: int) -> tuple[float, float]:
    first = math.asinh(control.price_s / PRICE_SPAN_S * math.sinh(PRICE_CURVATURE)) / PRICE_CURVATURE
    return first, (control.n_prefill - prefill) / PREFILL_SPAN


_FORMS = {
    "residual": (_decode_residual, _encode_residual),
    "absolute": (_decode_absolute, _encode_absolute),
    "price": (_decode_price, _encode_price),
}
ACTION_FORMS: tuple[str, ...] = tuple(_FORMS)


def action_form(name: str, deployment: Deployment) -> ActionForm:
    """A form by name for a deployment. Raises :class:`ConfigError` on an unknown name."""
    if name not in _FORMS:
        raise ConfigError(f"unknown action form {name!r}{nearest(name, _FORMS)}")
    low, high = deployment.prefill_bounds
    return ActionForm(name, low, high, *_FORMS[name])  # type: ignore[arg-type]


def action_space() -> gymnasium.spaces.Box:
    """Box(−1, 1, (2,), float32), the same for every form."""
    return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


def action_table() -> str:
    """The forms in Markdown, as the environment's page shows them."""
    prefill = f"N_p = N_p* + round({PREFILL_SPAN:g} a₁)"
    price = f"{PRICE_SPAN_S:g} s · sinh({PRICE_CURVATURE:g} a₀) / sinh({PRICE_CURVATURE:g})"
    span = f"{THRESHOLD_LOW_TOKENS:,.0f} to {THRESHOLD_HIGH_TOKENS:,.0f} tokens"
    rows = (
        ("`action`", "first number a₀", "second number a₁", "zero action"),
        ("---",) * 4,
        ("`residual`", f"t = t* · exp({THRESHOLD_LOG_SPAN:g} a₀)", prefill, "the windowed closed form"),
        ("`absolute`", f"log t over {span}; −1: t = 0, all remote; +1: t = ∞, all local", "N_p over its range", "–"),
        ("`price`", f"price β = {price}", prefill, "least expected completion"),
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
