"""The control loop, compiled: one step of one copy of the environment, from the action to the next observation.

It is :class:`~prfaas_env.environment.core.ControlLoop`'s step, made of the same functions (``actions``, ``recent``,
``theory.online``, ``observation``, ``reward``), compiled instead of copied, around the kernel of the engine.

A :class:`Desk` holds what a copy has beside its engine: knobs and clock, window and histogram of the online closed
form, constants of its scenario.
"""

from __future__ import annotations

import math
import types
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from prfaas_env.environment import actions, cache_rule, observation, recent, reward
from prfaas_env.simulator.compiled import loop
from prfaas_env.simulator.compiled.handle import Field, HandleKind, call, pointer_at
from prfaas_env.simulator.compiled.jit import bind, entry
from prfaas_env.simulator.compiled.state import FLOAT, INT
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, LENGTH_BIN_EDGES_TOKENS, SIGNAL
from prfaas_env.theory import closed_form, online
from prfaas_env.theory.plan import GIGA

__all__ = ["DESK", "DESK_SCALARS", "FORM", "GROW", "OPERATE", "Desk", "observe_now", "step_rows"]

FORM = {name: code for code, name in enumerate(actions.ACTION_FORMS)}

DESK_SCALARS = np.dtype(
    [
        ("form", "i8"),  # code of the action form
        ("cache_rule", "i8"),
        ("prefill_low", "i8"),
        ("prefill_high", "i8"),
        ("control_step_s", "f8"),
        ("horizon_s", "f8"),
        ("window_s", "f8"),
        ("n_local", "f8"),
        ("n_remote", "f8"),
        ("pipelined", "i8"),
        ("decode_tokens_per_s", "f8"),
        ("day_s", "f8"),
        ("start_hour", "f8"),
        # state
        ("steps", "i8"),
        ("running", "i8"),  # in the middle of an interval: the engine has asked for a longer ring
        ("window_at", "i8"),
        ("advised_threshold_tokens", "f8"),
        ("advised_prefill", "i8"),
        ("filling_tokens", "f8"),
        ("threshold_tokens", "f8"),
        ("price_s", "f8"),
        ("ttft_mean_s", "f8"),
        ("reward", "f8"),
        ("ended", "i8"),
    ],
    align=True,
)


class Desk(NamedTuple):
    """Arrays of one copy; shapes in brackets."""

    scalars: np.ndarray  # (1,) DESK_SCALARS
    signals: np.ndarray  # (signals,), the engine's
    counts: np.ndarray  # (bins,) int64, the engine's
    recent: np.ndarray  # (2, signals + 1)
    window: np.ndarray  # (steps, bins + 2)
    total: np.ndarray  # (bins + 2,)
    tables: np.ndarray  # (4, bins)
    splits: np.ndarray  # (m,)
    constants: np.ndarray  # (constant facts,)
    factors: np.ndarray  # (terms,)
    weights: np.ndarray  # (terms,)
    terms: np.ndarray  # (terms,)


DESK = HandleKind(
    "DeskHandle",
    (
        Field("scalars", DESK_SCALARS, 1),
        Field("signals", FLOAT, 1),
        Field("counts", INT, 1),
        Field("recent", FLOAT, 2),
        Field("window", FLOAT, 2),
        Field("total", FLOAT, 1),
        Field("tables", FLOAT, 2),
        Field("splits", FLOAT, 1),
        Field("constants", FLOAT, 1),
        Field("factors", FLOAT, 1),
        Field("weights", FLOAT, 1),
        Field("terms", FLOAT, 1),
    ),
)

# --- the same functions, compiled ----------------------------------------------------------------------------------


def _jit(function: Any, **compiled: Any) -> Any:
    return numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        bind(function, **compiled) if compiled else function
    )


def _compiled_closed_form() -> types.ModuleType:
    """The closed form's module with its functions compiled, each calling the others' compiled forms."""
    module = types.ModuleType("closed_form_compiled")
    for name in ("KEPT", "LOCAL", "REMOTE", "SENT", "_TINY"):
        setattr(module, name, getattr(closed_form, name))
    for name in ("stage_loads", "loads_at", "_balanced", "_per", "decode_rps", "threshold_at"):
        setattr(module, name, _jit(getattr(closed_form, name)))
    module.balanced_cuts = _jit(closed_form.balanced_cuts, _balanced=module._balanced)  # type: ignore[attr-defined]
    module.remote_load_s = _jit(closed_form.remote_load_s, _per=module._per)  # type: ignore[attr-defined]
    module.local_load_s = _jit(closed_form.local_load_s, _per=module._per)  # type: ignore[attr-defined]
    module.prefill_rps = _jit(  # type: ignore[attr-defined]
        closed_form.prefill_rps, remote_load_s=module.remote_load_s, local_load_s=module.local_load_s
    )
    return module


away_from_zero = _jit(actions.away_from_zero)
corrected_prefill = _jit(actions.corrected_prefill, away_from_zero=away_from_zero)
corrected_threshold = _jit(actions.corrected_threshold)
corrections = {"corrected_prefill": corrected_prefill, "corrected_threshold": corrected_threshold}
decode_residual = _jit(actions.decode_residual, **corrections)
decode_absolute = _jit(actions.decode_absolute, away_from_zero=away_from_zero)
decode_price = _jit(actions.decode_price, **corrections)
is_abundant = _jit(cache_rule.is_abundant)
push = _jit(online.push)
closed_form_compiled = _compiled_closed_form()
solve = _jit(online.solve, eq=closed_form_compiled)
filling_threshold = _jit(online.filling_threshold, eq=closed_form_compiled)
update_recent = _jit(recent.update_recent)
recent_rates = _jit(recent.recent_rates)
coarse_shares = _jit(observation.coarse_shares)
raw_observation = _jit(observation.raw_observation)
encode = _jit(observation.encode, _scaled=_jit(observation._scaled))
reward_terms = _jit(reward.reward_terms)
weigh = _jit(reward.weigh)

# --- one step ------------------------------------------------------------------------------------------------------

AUTO, ABUNDANT = cache_rule.CACHE_RULES.index("auto"), cache_rule.CACHE_RULES.index("abundant")
RESIDUAL, ABSOLUTE, PRICE = FORM["residual"], FORM["absolute"], FORM["price"]
THRESHOLD, PREFILL_RPS, DECODE_RPS = online.THRESHOLD, online.PREFILL_RPS, online.DECODE_RPS
BINS = len(LENGTH_BIN_CENTRES_TOKENS)
LOW_TOKENS, HIGH_TOKENS = float(LENGTH_BIN_EDGES_TOKENS[0]), float(LENGTH_BIN_EDGES_TOKENS[-1])
Bearings = actions.Bearings
INTERVAL_S, TIME_S = SIGNAL["interval_s"], SIGNAL["time_s"]
COMPLETED, OUTPUT_TOKENS = SIGNAL["completed"], SIGNAL["completed_output_tokens"]
LINK_GBPS, PREFILL_NODES = SIGNAL["link_capacity_gbps"], SIGNAL["prefill_nodes"]
TARGET_NODES, LOCAL_WAIT_S = SIGNAL["target_prefill_nodes"], SIGNAL["local_expected_wait_s"]
FIRST_TOKENS, TTFT_SUM_S = SIGNAL["first_tokens"], SIGNAL["ttft_sum_s"]

ARRIVALS = recent.ARRIVALS

FACTS = len(observation.FACT)
GROW = 1  # what step_rows leaves in `status` where the engine's ring must grow

as_desk = DESK.at
OPERATE = loop.operate.address
APPLY, ADVANCE, MEASURE, RING_FULL = loop.APPLY, loop.ADVANCE, loop.MEASURE, loop.RING_FULL


@numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _observe(desk: Desk, out: np.ndarray) -> None:
    """Solve the closed form on the window as it stands, and write the observation, float32 (components,)."""
    d = desk.scalars[0]
    signals = desk.signals
    solved = solve(
        desk.total,
        desk.tables,
        desk.splits,
        d.n_local,
        d.n_remote,
        signals[LINK_GBPS] * GIGA,
        d.pipelined == 1,
        d.decode_tokens_per_s,
    )
    sustained = np.minimum(solved[PREFILL_RPS], solved[DECODE_RPS])
    best = int(np.argmax(sustained))
    present = min(max(int(signals[PREFILL_NODES] - desk.splits[0]), 0), len(desk.splits) - 1)
    d.advised_threshold_tokens = min(max(solved[THRESHOLD, best], LOW_TOKENS), HIGH_TOKENS)
    d.advised_prefill = int(desk.splits[best])
    rates = recent_rates(desk.recent)
    filling_tokens = filling_threshold(
        desk.total, desk.tables, signals[PREFILL_NODES], rates[ARRIVALS], signals[LOCAL_WAIT_S]
    )
    d.filling_tokens = min(max(filling_tokens, LOW_TOKENS), HIGH_TOKENS)

    facts = np.empty(FACTS)
    at = len(signals)
    facts[:at] = signals
    facts[at : at + len(rates)] = rates
    at += len(rates)
    shares = coarse_shares(desk.total[:BINS])
    facts[at : at + len(shares)] = shares
    at += len(shares)
    facts[at] = d.advised_threshold_tokens
    facts[at + 1] = d.advised_prefill
    facts[at + 2] = min(max(solved[THRESHOLD, present], LOW_TOKENS), HIGH_TOKENS)
    facts[at + 3] = sustained[best]
    facts[at + 4] = solved[PREFILL_RPS, present]
    facts[at + 5] = solved[DECODE_RPS, present]
    facts[at + 6] = signals[TARGET_NODES] - d.advised_prefill
    facts[at + 7] = d.filling_tokens
    at += 8
    angle = 2.0 * math.pi * (signals[TIME_S] * (24.0 / d.day_s) + d.start_hour) / 24.0
    facts[at] = math.sin(angle)
    facts[at + 1] = math.cos(angle)
    facts[at + 2 :] = desk.constants
    out[:] = encode(raw_observation(facts))


@numba.njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _step(operate: int, sims: np.ndarray, desks: np.ndarray, row: int, action: np.ndarray, out: np.ndarray) -> int:
    sim, desk = pointer_at(sims, row), as_desk(desks, row)
    d = desk.scalars[0]
    if not d.running:
        first = min(max(float(action[0]), -1.0), 1.0)
        second = min(max(float(action[1]), -1.0), 1.0)
        at = Bearings(d.advised_threshold_tokens, d.advised_prefill, d.filling_tokens, d.prefill_low, d.prefill_high)
        if d.form == RESIDUAL:
            knobs = decode_residual(first, second, at)
        elif d.form == ABSOLUTE:
            knobs = decode_absolute(first, second, at)
        else:
            knobs = decode_price(first, second, at)
        d.threshold_tokens = knobs.threshold_tokens
        d.price_s = knobs.price_s
        abundant = d.cache_rule == ABUNDANT or (d.cache_rule == AUTO and is_abundant(desk.signals))
        call(operate, sim, APPLY, knobs.n_prefill, knobs.by_price, abundant, knobs.threshold_tokens, knobs.price_s)
        d.running = 1
    end_s = min((d.steps + 1) * d.control_step_s, d.horizon_s)
    if call(operate, sim, ADVANCE, 0, 0, 0, end_s, 0.0) == RING_FULL:
        return GROW
    d.running = 0
    d.steps += 1
    d.ended = end_s >= d.horizon_s

    call(operate, sim, MEASURE, 0, 0, 0, 0.0, 0.0)
    signals = desk.signals
    update_recent(desk.recent, signals, d.window_s)
    counts = np.empty(BINS + 2)
    counts[:BINS] = desk.counts
    counts[BINS] = signals[COMPLETED]
    counts[BINS + 1] = signals[OUTPUT_TOKENS]
    d.window_at = push(desk.window, desk.total, d.window_at, counts)
    desk.terms[:] = reward_terms(signals, desk.factors)
    d.reward = weigh(desk.terms, desk.weights)
    if signals[FIRST_TOKENS] > 0:
        d.ttft_mean_s = signals[TTFT_SUM_S] / signals[FIRST_TOKENS]
    _observe(desk, out)
    return 0


_FOLDERS = tuple(Path(str(module.__file__)).resolve().parent for module in (actions, online))
_entry = partial(entry, sources=_FOLDERS)


@_entry
def step_rows(
    operate: int,
    sims: np.ndarray,
    desks: np.ndarray,
    rows: np.ndarray,
    chosen: np.ndarray,
    observations: np.ndarray,
    status: np.ndarray,
) -> None:
    """One control interval of the copies ``rows``; ``status[row]`` is ``GROW`` where it must be called again."""
    for k in range(len(rows)):
        row = rows[k]
        status[row] = _step(operate, sims, desks, row, chosen[row], observations[row])


@_entry
def observe_now(operate: int, sims: np.ndarray, desks: np.ndarray, row: int, observations: np.ndarray) -> None:
    """The first observation of an episode, on the nominal workload alone."""
    desk = as_desk(desks, row)
    call(operate, pointer_at(sims, row), MEASURE, 0, 0, 0, 0.0, 0.0)
    _observe(desk, observations[row])
