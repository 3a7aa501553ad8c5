"""The three forms of action, each a vector of two numbers in [−1, 1], and what they mean for the knobs.

``residual`` corrects the online closed form (t*, N_p*) and ``price`` the least-completion routing: the zero action *is*
the scheduler, and learning starts from there. ``absolute`` sets log t and N_p outright. The constants of this module
are the only place where their spans are written.

Above zero ``price`` sets a price, well below zero a threshold, relative to t_fill, the one that fills the local pool.
Each law has its hour: while something keeps up, a price finds the sooner way for every request; where nothing does, it
levels the waits of both pools, and only a threshold can keep the local queue short and leave the shortest prompts to
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.control import Control, RoutingLaw

__all__ = [
    "ACTION_FORMS",
    "ACTION_SPANS",
    "PREFILL_SPAN",
    "PRICE_MOST_S",
    "ActionForm",
    "ActionName",
    "Bearings",
    "Knobs",
    "action_form",
    "action_space",
    "action_table",
    "away_from_zero",
]

ActionName = Literal["residual", "absolute", "price"]

THRESHOLD_LOG_SPAN, THRESHOLD_CURVATURE = 3.0, 3.0
"""Thresholds reach from t*/20 to 20 t* (e^±3), by a sinh that is finer near t*: half of the way is a factor of 1.9."""
PREFILL_SPAN = 1.5
"""A full residual action moves N_p by 1.5 instances, rounded away from zero to 2."""
THRESHOLD_LOW_TOKENS, THRESHOLD_HIGH_TOKENS = 256.0, 262144.0
"""Range of the absolute threshold; its two ends mean all remote (t = 0) and all local (t = ∞)."""
PRICE_MOST_S, PRICE_CURVATURE = 120.0, 6.0
"""A full price action is two minutes; the sinh below is finer near zero (4 s a unit there)."""
FREE_DOWN_TO = -0.2
"""From here to zero ``price`` asks for nothing, so that noise about the zero action does not change the law."""
_FLOAT32 = 1e-7
"""An action of -0.2 is a little less in the space's own numbers."""


ACTION_SPANS: tuple[float, ...] = (
    THRESHOLD_LOG_SPAN,
    THRESHOLD_CURVATURE,
    PREFILL_SPAN,
    THRESHOLD_LOW_TOKENS,
    THRESHOLD_HIGH_TOKENS,
    PRICE_MOST_S,
    PRICE_CURVATURE,
    FREE_DOWN_TO,
)
"""All of them: a model is trained for these."""


class Knobs(NamedTuple):
    """What a decoded action sets: the fields of a :class:`Control`, as plain numbers (so that it can be compiled)."""

    n_prefill: int
    by_price: bool
    threshold_tokens: float
    price_s: float


def away_from_zero(x: Any) -> Any:
    """The nearest whole numbers, halves away from zero: up and down are then alike."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def corrected_prefill(second: float, advised: int, low: int, high: int) -> int:
    """N_p* moved by the second number, within bounds."""
    return min(max(advised + int(away_from_zero(PREFILL_SPAN * second)), low), high)


def corrected_threshold(x: float, tokens: float) -> float:
    """A threshold moved by a number in [−1, 1]."""
    log_ratio = THRESHOLD_LOG_SPAN * math.sinh(THRESHOLD_CURVATURE * x) / math.sinh(THRESHOLD_CURVATURE)
    return tokens * math.exp(log_ratio)


_LOG_LOW, _LOG_HIGH = math.log(THRESHOLD_LOW_TOKENS), math.log(THRESHOLD_HIGH_TOKENS)
_INSIDE = float(np.nextafter(np.float32(1.0), np.float32(0.0)))
"""The ends of the range itself lie just within ± 1, which mean all remote and all local."""


class Bearings(NamedTuple):
    """What an action is relative to: the advice of the online closed form, the threshold that fills the local pool, and
    the bounds of N_p."""

    threshold_tokens: float
    n_prefill: int
    filling_tokens: float
    low: int
    high: int


# The three forms, (a₀, a₁, bearings) → knobs, in what numba compiles of Python, and their inverses.


def decode_residual(first: float, second: float, at: Bearings) -> Knobs:
    """Corrections to the online closed form."""
    corrected = corrected_threshold(first, at.threshold_tokens)
    return Knobs(corrected_prefill(second, at.n_prefill, at.low, at.high), False, corrected, 0.0)


def decode_absolute(first: float, second: float, at: Bearings) -> Knobs:
    """log t and N_p outright."""
    # Whole tokens: float32 actions then give back exactly the threshold that a scripted policy asked for.
    threshold = float(math.floor(math.exp(_LOG_LOW + (first + 1.0) / 2.0 * (_LOG_HIGH - _LOG_LOW)) + 0.5))
    if first <= -1.0:
        threshold = 0.0
    elif first >= 1.0:
        threshold = math.inf
    nodes = at.low + (second + 1.0) / 2.0 * (at.high - at.low)
    return Knobs(min(max(int(away_from_zero(nodes)), at.low), at.high), False, threshold, 0.0)


def decode_price(first: float, second: float, at: Bearings) -> Knobs:
    """The price β of remote prefill or, well below zero, a threshold; and a correction to N_p*."""
    n_prefill = corrected_prefill(second, at.n_prefill, at.low, at.high)
    if first >= FREE_DOWN_TO - _FLOAT32:
        price_s = PRICE_MOST_S * math.sinh(PRICE_CURVATURE * max(first, 0.0)) / math.sinh(PRICE_CURVATURE)
        return Knobs(n_prefill, True, 0.0, price_s)
    x = 2.0 * (FREE_DOWN_TO - first) / (1.0 + FREE_DOWN_TO) - 1.0
    return Knobs(n_prefill, False, corrected_threshold(x, at.filling_tokens), 0.0)


def _correction(control: Control, tokens: float) -> float:
    """The inverse of :func:`corrected_threshold`, infinite where t is."""
    ratio = control.threshold_tokens / max(tokens, 1.0)  # 0 where an observation holds no advice
    share = (math.log(ratio) if ratio > 0 else -math.inf) / THRESHOLD_LOG_SPAN
    return math.asinh(share * math.sinh(THRESHOLD_CURVATURE)) / THRESHOLD_CURVATURE


def _encode_residual(control: Control, at: Bearings) -> tuple[float, float]:
    return _correction(control, at.threshold_tokens), (control.n_prefill - at.n_prefill) / PREFILL_SPAN


def _encode_absolute(control: Control, at: Bearings) -> tuple[float, float]:
    if control.threshold_tokens <= 0.0:
        first = -1.0
    elif control.threshold_tokens > THRESHOLD_HIGH_TOKENS:
        first = 1.0
    else:
        share = (math.log(max(control.threshold_tokens, THRESHOLD_LOW_TOKENS)) - _LOG_LOW) / (_LOG_HIGH - _LOG_LOW)
        first = min(max(2.0 * share - 1.0, -_INSIDE), _INSIDE)
    nodes = min(max(control.n_prefill, at.low), at.high)
    return first, 2.0 * (nodes - at.low) / (at.high - at.low) - 1.0 if at.high > at.low else 0.0


def _encode_price(control: Control, at: Bearings) -> tuple[float, float]:
    second = (control.n_prefill - at.n_prefill) / PREFILL_SPAN
    if control.law == "price":
        curved = max(control.price_s, 0.0) / PRICE_MOST_S * math.sinh(PRICE_CURVATURE)
        return math.asinh(curved) / PRICE_CURVATURE, second
    return FREE_DOWN_TO - max(_correction(control, at.filling_tokens) + 1.0, 1e-6) / 2.0 * (1.0 + FREE_DOWN_TO), second


_FORMS = {
    "residual": (decode_residual, _encode_residual),
    "absolute": (decode_absolute, _encode_absolute),
    "price": (decode_price, _encode_price),
}
ACTION_FORMS: tuple[str, ...] = tuple(_FORMS)


@dataclass(frozen=True)
class ActionForm:
    """One form: ``decode(action, t*, N_p*, filling threshold) -> Control`` and ``encode``, its inverse.

    The threshold that fills the local pool matters to ``price`` alone. What ``encode`` cannot reach is clipped to the
    nearest action.
    """

    name: ActionName
    prefill_low: int
    prefill_high: int

    def decode(
        self,
        action: np.ndarray,
        advised_threshold_tokens: float,
        advised_prefill: int,
        filling_tokens: float = THRESHOLD_HIGH_TOKENS,
    ) -> Control:
        """The control behind an action, shape (2,); values outside [−1, 1] are clipped.

        Raises ``ValueError`` if the action is not two finite numbers.
        """
        pair = np.asarray(action, dtype=np.float64)
        if pair.shape != (2,) or not np.isfinite(pair).all():
            raise ValueError(f"action: expected 2 finite numbers in [-1, 1], got {action!r}")
        first, second = np.clip(pair, -1.0, 1.0).tolist()
        at = Bearings(advised_threshold_tokens, advised_prefill, filling_tokens, self.prefill_low, self.prefill_high)
        knobs = _FORMS[self.name][0](first, second, at)
        law: RoutingLaw = "price" if knobs.by_price else "threshold"
        return Control(knobs.n_prefill, knobs.threshold_tokens, law, knobs.price_s)

    def encode(
        self,
        control: Control,
        advised_threshold_tokens: float,
        advised_prefill: int,
        filling_tokens: float = THRESHOLD_HIGH_TOKENS,
    ) -> np.ndarray:
        """The action, float32 (2,), that comes nearest to ``control``."""
        at = Bearings(advised_threshold_tokens, advised_prefill, filling_tokens, self.prefill_low, self.prefill_high)
        return np.clip(np.array(_FORMS[self.name][1](control, at)), -1.0, 1.0).astype(np.float32)


def action_form(name: str, deployment: Deployment) -> ActionForm:
    """A form by name for a deployment. Raises :class:`ConfigError` on an unknown name."""
    if name not in _FORMS:
        raise ConfigError(f"unknown action form {name!r}{nearest(name, _FORMS)}")
    low, high = deployment.prefill_bounds
    return ActionForm(name, low, high)  # type: ignore[arg-type]


def action_space() -> gymnasium.spaces.Box:
    """Box(−1, 1, (2,), float32), the same for every form."""
    return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)


def action_table() -> str:
    """The forms in Markdown, as the environment's page shows them."""
    prefill = f"N_p = N_p* + round({PREFILL_SPAN:g} a₁)"
    price = f"{PRICE_MOST_S:g} s · sinh({PRICE_CURVATURE:g} a₀) / sinh({PRICE_CURVATURE:g})"
    curve = f"sinh({THRESHOLD_CURVATURE:g} {{x}}) / sinh({THRESHOLD_CURVATURE:g})"
    corrected = f"t = {{t}} · exp({THRESHOLD_LOG_SPAN:g} · {curve})"
    below = f"{corrected.format(t='t_fill', x='x')}, x from −1 at {FREE_DOWN_TO:g} to 1 at −1".replace("-", "−")
    span = f"{THRESHOLD_LOW_TOKENS:,.0f} to {THRESHOLD_HIGH_TOKENS:,.0f} tokens"
    rows = (
        ("`action`", "first number a₀", "second number a₁", "zero action"),
        ("---",) * 4,
        ("`residual`", corrected.format(t="t*", x="a₀"), prefill, "the windowed closed form"),
        ("`absolute`", f"log t over {span}; −1: t = 0, all remote; +1: t = ∞, all local", "N_p over its range", "–"),
        (
            "`price`",
            f"a₀ ≥ 0: β = {price}; a₀ < {FREE_DOWN_TO:g}: {below}; between them β = 0".replace("-", "−"),
            prefill,
            "least expected completion",
        ),
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
