"""What a policy sees: one table of components, and the two steps from the simulator's figures to the vector.

1. *Facts*: one float64 vector of everything that is known at a control step (signals of the interval, recent rates,
   the histogram of recent lengths, the online closed form's advice, the clock, constants of the deployment).
2. *Components*: each is one fact, or one fact over another (0 where there is nothing to divide by), clipped to
   [low, high] and placed on [−1, 1], linearly or by log(1 + x).

Both steps use plain arrays and what numba compiles, so that a compiled environment can run these very functions.
Counts of instances are also given as shares, and rates relative to Λ_max, so that a policy carries over to other sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from prfaas_env.config import content_hash
from prfaas_env.environment.actions import ACTION_SPANS
from prfaas_env.environment.recent import RECENT_FACTS
from prfaas_env.simulator.signals import LENGTH_BIN_EDGES_TOKENS, SIGNALS
from prfaas_env.theory.online import FILLED_WAIT_S

__all__ = [
    "ADVICE_FACTS",
    "CLOCK_FACTS",
    "COARSE_EDGES_TOKENS",
    "COMPONENTS",
    "CONSTANT_FACTS",
    "FACT",
    "GROUPS",
    "HISTOGRAM_FACTS",
    "Component",
    "coarse_shares",
    "decode",
    "encode",
    "layout_hash",
    "observation_space",
    "observation_table",
    "raw_observation",
]

# Half octaves from 1,024 to 131,072 tokens, where prompts differ in what they cost, and one open bin at each end.
COARSE_EDGES_TOKENS: np.ndarray = np.concatenate(
    [LENGTH_BIN_EDGES_TOKENS[:1], 2.0 ** np.arange(10, 17.1, 0.5), LENGTH_BIN_EDGES_TOKENS[-1:]]
)
_COARSE_OF_FINE = np.searchsorted(COARSE_EDGES_TOKENS, LENGTH_BIN_EDGES_TOKENS[:-1] * 1.001, side="right") - 1

COARSE_BINS = len(COARSE_EDGES_TOKENS) - 1

HISTOGRAM_FACTS: tuple[str, ...] = tuple(f"uncached_share_from_{low:.0f}" for low in COARSE_EDGES_TOKENS[:-1])
ADVICE_FACTS: tuple[str, ...] = (
    "advised_threshold_tokens",
    "advised_prefill_nodes",
    "advised_threshold_present_split_tokens",
    "lambda_max_rps",
    "prefill_present_split_rps",
    "decode_present_split_rps",
    "target_over_advised_nodes",
    "filling_threshold_tokens",
)
CLOCK_FACTS: tuple[str, ...] = ("day_sine", "day_cosine")
CONSTANT_FACTS: tuple[str, ...] = (
    "one",
    "local_instances",
    "remote_instances",
    "decode_slots",
    "control_step_s",
    "bytes_per_gigabyte",
)

FACT: dict[str, int] = {
    name: index
    for index, name in enumerate(
        (
            *(signal.name for signal in SIGNALS),
            *RECENT_FACTS,
            *HISTOGRAM_FACTS,
            *ADVICE_FACTS,
            *CLOCK_FACTS,
            *CONSTANT_FACTS,
        )
    )
}
"""Where each fact stands in the fact vector."""


class Component(NamedTuple):
    """One entry of the observation: ``fact / per``, clipped to [low, high], then placed on [−1, 1] by ``scale``."""

    name: str
    unit: str
    low: float
    high: float
    scale: Literal["linear", "log"]
    fact: str
    per: str
    meaning: str


def _same(name: str, unit: str, low: float, high: float, scale: Literal["linear", "log"], meaning: str) -> Component:
    return Component(name, unit, low, high, scale, name, "one", meaning)


RATE_RPS, QUEUE, WAIT_S, TOKENS = 1e3, 1e4, 3600.0, float(LENGTH_BIN_EDGES_TOKENS[-1])
INSTANCES = 1e5
BYTES_PER_GIGABYTE = 1e9
SHIFT = 4.0
PRICE_S = 1800.0

COMPONENTS: tuple[Component, ...] = (
    # flow of requests
    Component(
        "arrivals", "requests/s", 0, RATE_RPS, "log", "arrived_fast_per_s", "one", "arrivals over the last minute"
    ),
    Component(
        "arrivals_interval", "requests/s", 0, RATE_RPS, "log", "arrived", "interval_s", "arrivals over the interval"
    ),
    Component(
        "arrivals_window", "requests/s", 0, RATE_RPS, "log", "arrived_slow_per_s", "one", "arrivals over the window"
    ),
    Component(
        "arrivals_trend", "1", 0, 2, "linear", "arrived_fast_per_s", "arrived_slow_per_s", "last minute / window"
    ),
    Component("load", "1", 0, 2, "linear", "arrived_fast_per_s", "lambda_max_rps", "last minute's arrivals / Λ_max"),
    Component(
        "first_tokens", "requests/s", 0, RATE_RPS, "log", "first_tokens_fast_per_s", "one", "over the last minute"
    ),
    Component("completions", "requests/s", 0, RATE_RPS, "log", "completed_fast_per_s", "one", "over the last minute"),
    Component(
        "output_mean",
        "tokens",
        0,
        65536,
        "log",
        "completed_output_tokens_slow_per_s",
        "completed_slow_per_s",
        "mean output of the window's completions",
    ),
    Component(
        "offload_share", "1", 0, 1, "linear", "routed_remote", "arrived", "share of the interval's arrivals sent remote"
    ),
    Component(
        "ttft_mean",
        "s",
        0,
        WAIT_S,
        "log",
        "ttft_sum_s_fast_per_s",
        "first_tokens_fast_per_s",
        "mean TTFT of the last minute's first tokens",
    ),
    _same("waiting", "requests", 0, QUEUE, "log", "requests without a first token yet"),
    # prefill pools
    _same("remote_queue", "requests", 0, QUEUE, "log", "queue of the remote prefill pool"),
    _same("remote_oldest_wait_s", "s", 0, WAIT_S, "log", "age of its head"),
    _same("remote_expected_wait_s", "s", 0, WAIT_S, "log", "wait that a new request would have there"),
    _same("remote_busy_share", "1", 0, 1, "linear", "busy share of the remote instances over the interval"),
    _same("local_queue", "requests", 0, QUEUE, "log", "queue of the local prefill pool"),
    _same("local_oldest_wait_s", "s", 0, WAIT_S, "log", "age of its head"),
    _same("local_expected_wait_s", "s", 0, WAIT_S, "log", "wait that a new request would have there"),
    _same("local_busy_share", "1", 0, 1, "linear", "busy share of the local prefill instances over the interval"),
    # link
    _same("link_capacity_gbps", "Gbps", 0, 1e5, "log", "capacity left for KV now; 0 while the link is down"),
    Component(
        "link_utilisation", "1", 0, 1, "linear", "link_sent_bytes", "link_capacity_bytes", "sent / possible, interval"
    ),
    Component(
        "link_backlog", "GB", 0, 1e4, "log", "link_backlog_bytes", "bytes_per_gigabyte", "KV produced, not yet sent"
    ),
    _same("link_flows", "flows", 0, QUEUE, "log", "open transfers"),
    _same(
        "link_congested_share", "1", 0, 1, "linear", "share of the interval in which flows wanted more than there is"
    ),
    # decode
    _same("decode_queue", "requests", 0, QUEUE, "log", "requests that wait for a decode slot"),
    _same("decode_oldest_wait_s", "s", 0, WAIT_S, "log", "age of the oldest of them"),
    Component(
        "decode_occupancy", "1", 0, 1, "linear", "decode_active", "decode_slots", "decoding now / slots of all local"
    ),
    _same("decode_busy_share", "1", 0, 1, "linear", "occupied share of the slots offered over the interval"),
    # knobs and roles
    _same("threshold_tokens", "tokens", 0, TOKENS, "log", "threshold t in force"),
    _same("price_s", "s", -PRICE_S, PRICE_S, "linear", "price β in force"),
    _same("prefill_nodes", "instances", 0, INSTANCES, "log", "N_p now"),
    _same("target_prefill_nodes", "instances", 0, INSTANCES, "log", "N_p asked for"),
    Component("prefill_share", "1", 0, 1, "linear", "prefill_nodes", "local_instances", "N_p / local instances"),
    Component(
        "target_share", "1", 0, 1, "linear", "target_prefill_nodes", "local_instances", "target N_p / local instances"
    ),
    Component("decode_share", "1", 0, 1, "linear", "decode_nodes", "local_instances", "N_d / local instances"),
    Component("converting_share", "1", 0, 1, "linear", "converting_nodes", "local_instances", "draining or converting"),
    _same("failed_nodes", "instances", 0, INSTANCES, "log", "instances of both clusters that are down"),
    # the online closed form
    Component(
        "advised_threshold",
        "tokens",
        0,
        TOKENS,
        "log",
        "advised_threshold_tokens",
        "one",
        "t* of Eq. 7 at N_p*, on the window",
    ),
    Component(
        "advised_prefill",
        "instances",
        0,
        INSTANCES,
        "log",
        "advised_prefill_nodes",
        "one",
        "N_p* of Eq. 8, on the window",
    ),
    Component(
        "target_over_advised",
        "instances",
        -SHIFT,
        SHIFT,
        "linear",
        "target_over_advised_nodes",
        "one",
        "N_p asked for less N_p*: what a correction keeps N_p by",
    ),
    Component(
        "advised_share", "1", 0, 1, "linear", "advised_prefill_nodes", "local_instances", "N_p* / local instances"
    ),
    Component(
        "advised_threshold_present_split",
        "tokens",
        0,
        TOKENS,
        "log",
        "advised_threshold_present_split_tokens",
        "one",
        "t* of Eq. 7 at the present N_p",
    ),
    Component("lambda_max", "requests/s", 0, RATE_RPS, "log", "lambda_max_rps", "one", "Λ_max of Eq. 6 at t*, N_p*"),
    _same(
        "prefill_present_split_rps",
        "requests/s",
        0,
        RATE_RPS,
        "log",
        "Θ_prfaas + Θ_pd-p at the present N_p, its best t",
    ),
    _same("decode_present_split_rps", "requests/s", 0, RATE_RPS, "log", "Θ_pd-d (Eq. 5) at the present N_p"),
    Component(
        "filling_threshold",
        "tokens",
        0,
        TOKENS,
        "log",
        "filling_threshold_tokens",
        "one",
        f"t_fill: what arrives below it keeps the local pool busy and its wait at {FILLED_WAIT_S:g} s",
    ),
    # time, size of the deployment
    _same("day_sine", "1", -1, 1, "linear", "sine of the position in the day"),
    _same("day_cosine", "1", -1, 1, "linear", "cosine of the position in the day"),
    _same("control_step_s", "s", 0, 300, "log", "length of a control interval"),
    _same("local_instances", "instances", 0, INSTANCES, "log", "size of the local cluster"),
    _same("remote_instances", "instances", 0, INSTANCES, "log", "size of the remote cluster; 0 if there is none"),
    # histogram of recent uncached lengths
    *(
        _same(name, "1", 0, 1, "linear", f"share of recent uncached lengths in [{low:,.0f}, {high:,.0f}) tokens")
        for name, low, high in zip(HISTOGRAM_FACTS, COARSE_EDGES_TOKENS[:-1], COARSE_EDGES_TOKENS[1:], strict=True)
    ),
)

_FIRST_OF_GROUP = {
    "flow": "arrivals",
    "pools": "remote_queue",
    "link": "link_capacity_gbps",
    "decode": "decode_queue",
    "roles": "threshold_tokens",
    "closed-form": "advised_threshold",
    "time": "day_sine",
    "size": "control_step_s",
    "histogram": HISTOGRAM_FACTS[0],
}


def _groups() -> dict[str, range]:
    names = [component.name for component in COMPONENTS]
    firsts = [names.index(name) for name in _FIRST_OF_GROUP.values()]
    return dict(zip(_FIRST_OF_GROUP, map(range, firsts, [*firsts[1:], len(names)]), strict=True))


GROUPS: Mapping[str, range] = _groups()
"""Which components belong together: what a policy may be trained without."""

_FACT = np.array([FACT[c.fact] for c in COMPONENTS])
_PER = np.array([FACT[c.per] for c in COMPONENTS])
_LOW = np.array([c.low for c in COMPONENTS], dtype=np.float64)
_HIGH = np.array([c.high for c in COMPONENTS], dtype=np.float64)
_LOGARITHMIC = np.array([c.scale == "log" for c in COMPONENTS])


def _scaled(x: float, logarithmic: bool) -> float:
    return math.log1p(x) if logarithmic else x


_START = np.array([_scaled(x, log) for x, log in zip(_LOW, _LOGARITHMIC, strict=True)])
_SPAN = np.array([_scaled(x, log) for x, log in zip(_HIGH, _LOGARITHMIC, strict=True)]) - _START


def coarse_shares(weights: np.ndarray) -> np.ndarray:
    """Shares of the coarse bins, float64 (16,), from weights of the fine length bins; all 0 if there is no weight."""
    shares = np.zeros(COARSE_BINS)
    total = 0.0
    for k in range(weights.shape[0]):
        shares[_COARSE_OF_FINE[k]] += weights[k]
        total += weights[k]
    if total > 0.0:
        for k in range(COARSE_BINS):
            shares[k] /= total
    return shares


# Plain loops: compiled, they cost a tenth of the array expressions, in running and in compiling.


def raw_observation(facts: np.ndarray) -> np.ndarray:
    """Components in physical units, float64 (k,), from the fact vector (order of ``FACT``)."""
    raw = np.zeros(_FACT.shape[0])
    for k in range(_FACT.shape[0]):
        divisor = facts[_PER[k]]
        if divisor > 0.0:
            raw[k] = facts[_FACT[k]] / divisor
    return raw


def encode(raw: np.ndarray) -> np.ndarray:
    """The observation, float32 (k,) in [−1, 1], from components in physical units; infinite ones are clipped too."""
    observation = np.empty(raw.shape[0], dtype=np.float32)
    for k in range(raw.shape[0]):
        inside = min(max(raw[k], _LOW[k]), _HIGH[k])
        position = 2.0 * (_scaled(inside, _LOGARITHMIC[k]) - _START[k]) / _SPAN[k] - 1.0
        observation[k] = min(max(position, -1.0), 1.0)
    return observation


def decode(observation: np.ndarray) -> dict[str, Any]:
    """Components by name in physical units; clipped ones come back at their bound.

    One observation (k,) gives numbers; a batch (n, k), as the vector environment's, an array (n,) for each name.
    Raises ``ValueError`` on another shape.
    """
    vector = np.asarray(observation, dtype=np.float64)
    if vector.ndim not in (1, 2) or vector.shape[-1] != len(COMPONENTS):
        raise ValueError(
            f"observation: expected {len(COMPONENTS)} components, or a batch of so many columns, "
            f"got an array of shape {vector.shape}"
        )
    position = _START + (vector + 1.0) / 2.0 * _SPAN
    physical = np.where(_LOGARITHMIC, np.expm1(np.where(_LOGARITHMIC, position, 0.0)), position)
    named = {component.name: physical[..., k] for k, component in enumerate(COMPONENTS)}
    return named if vector.ndim == 2 else {name: float(x) for name, x in named.items()}


def observation_space() -> gymnasium.spaces.Box:
    """Box(−1, 1, (k,), float32), one entry a component."""
    return gymnasium.spaces.Box(-1.0, 1.0, (len(COMPONENTS),), np.float32)


@cache
def layout_hash() -> str:
    """Changes with what a model is trained for: a component added, moved or scaled otherwise, the span of an action."""
    return content_hash([[list(component[:7]) for component in COMPONENTS], list(ACTION_SPANS)])


def observation_table() -> str:
    """The table of components in Markdown, as the environment's page shows it."""
    rows = [
        f"| {i} | `{c.name}` | {c.unit} | {c.low:g} | {c.high:g} | {c.scale} | {c.meaning} |"
        for i, c in enumerate(COMPONENTS)
    ]
    return "\n".join(
        ["| # | component | unit | low | high | scale | meaning |", "|---|---|---|---|---|---|---|", *rows]
    )
