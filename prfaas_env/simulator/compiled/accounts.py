"""What the operator's dashboard counts (model.md section 8): integrals are brought up to date where a count changes."""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.state import Sim
from prfaas_env.simulator.signals import BINS_PER_OCTAVE, FIRST_OCTAVE, LENGTH_BIN_EDGES_TOKENS

__all__: list[str] = []

EDGES_TOKENS = LENGTH_BIN_EDGES_TOKENS
BINS = len(LENGTH_BIN_EDGES_TOKENS) - 1


@kernel
def length_bin(length_tokens: float) -> int:
    """The bin of a length, as ``signals.length_bin``: a guess by logarithm, corrected against the edges."""
    if length_tokens < EDGES_TOKENS[1]:
        return 0
    guess = int((np.log2(length_tokens) - FIRST_OCTAVE) * BINS_PER_OCTAVE)
    guess = min(max(guess, 0), BINS - 1)
    while guess + 1 < BINS and length_tokens >= EDGES_TOKENS[guess + 1]:
        guess += 1
    while guess > 0 and length_tokens < EDGES_TOKENS[guess]:
        guess -= 1
    return guess


@kernel
def is_waiting(sim: Sim, number: int) -> bool:
    """Whether a request that has arrived is still without its first token."""
    request = sim.ring[number & (len(sim.ring) - 1)]
    return request.number == number and request.present == 1 and np.isnan(request.first_token_s)


@kernel
def integrate_waiting(sim: Sim) -> None:
    """Bring the integrals of waiting requests to now; those whose patience has run out stop being young."""
    g = sim.scalars[0]
    now, since = g.now, g.waiting_since_s
    g.waiting_integral_s += g.waiting * (now - since)
    patience = sim.constants[0].patience_s
    while g.young_next < g.arrived_next:
        out_s = sim.arrival_s[g.young_next] + patience
        if out_s > now:
            break
        if out_s > since:
            g.young_integral_s += g.young * (out_s - since)
            since = out_s
        if is_waiting(sim, g.young_next):
            g.young -= 1
        g.young_next += 1
    g.young_integral_s += g.young * (now - since)
    g.waiting_since_s = now


@kernel
def count_arrival(sim: Sim, remote: int, uncached_tokens: float) -> None:
    integrate_waiting(sim)
    g = sim.scalars[0]
    g.in_system += 1
    g.waiting += 1
    g.young += 1
    g.arrived += 1
    g.routed_remote += remote
    sim.bins[length_bin(uncached_tokens)] += 1


@kernel
def count_first_token(sim: Sim, number: int, ttft_s: float) -> None:
    """Call it before ``first_token_s`` of the request is set."""
    integrate_waiting(sim)
    g = sim.scalars[0]
    g.waiting -= 1
    if number >= g.young_next:
        g.young -= 1
    g.first_tokens += 1
    g.ttft_sum_s += ttft_s


@kernel
def count_finish(sim: Sim, output_tokens: int, service_class: int, ttft_s: float, tpot_s: float) -> None:
    g = sim.scalars[0]
    g.in_system -= 1
    g.completed += 1
    g.completed_output_tokens += output_tokens
    if ttft_s <= sim.objectives[0, service_class] and tpot_s <= sim.objectives[1, service_class]:
        g.completed_good += 1


@kernel
def integrate_pool(sim: Sim, side: int) -> None:
    pool = sim.pools[side]
    span = sim.scalars[0].now - pool.since_s
    pool.busy_integral_s += pool.running * span
    pool.member_integral_s += pool.members * span
    pool.since_s = sim.scalars[0].now


@kernel
def integrate_decode(sim: Sim) -> None:
    g = sim.scalars[0]
    span = g.now - g.decode_since_s
    g.active_integral_s += g.active * span
    g.slot_integral_s += sim.constants[0].slots * span * g.decoding
    g.decode_since_s = g.now


@kernel
def integrate_link(sim: Sim, direction: int) -> None:
    link = sim.links[direction]
    span = sim.scalars[0].now - link.since_s
    link.sent_bytes += link.total_rate_bps * span / 8.0
    link.capacity_bytes += link.capacity_bps * span / 8.0
    if link.congested:
        link.congested_s += span
    link.since_s = sim.scalars[0].now
