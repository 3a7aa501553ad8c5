"""The link as a fluid (model.md section 3); the reference engine's ``link.py`` explains the two states of a flow."""

from __future__ import annotations

import numpy as np

from prfaas_env.simulator.compiled.accounts import integrate_link
from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.laws import catch_up_s, fair_level
from prfaas_env.simulator.compiled.state import Sim
from prfaas_env.simulator.compiled.timers import CATCH_UP, SENT, set_timer, stop_timer, timer_b

__all__: list[str] = []


@kernel
def produced_bytes(sim: Sim, direction: int, k: int) -> float:
    flow = sim.flows[direction, k]
    now = sim.scalars[0].now
    if now >= flow.end_s:
        return flow.size_bytes
    return flow.production_bps * (now - flow.start_s) / 8.0


@kernel
def sent_by_now(sim: Sim, direction: int, k: int) -> float:
    flow = sim.flows[direction, k]
    if flow.caught_up:
        return produced_bytes(sim, direction, k)
    return flow.sent_bytes + flow.rate_bps * (sim.scalars[0].now - flow.since_s) / 8.0


@kernel
def plan_flow(sim: Sim, direction: int, k: int) -> None:
    """The next event of a flow that is behind: it catches up, or (all produced) it ends."""
    flow = sim.flows[direction, k]
    now = sim.scalars[0].now
    flow.planned = 1
    if now < flow.end_s:
        sent = sent_by_now(sim, direction, k)
        at_s = catch_up_s(now, sent, flow.rate_bps, flow.start_s, flow.production_bps, flow.end_s)
        stage = CATCH_UP
    else:
        left_bits = max(0.0, flow.size_bytes - sent_by_now(sim, direction, k)) * 8.0
        at_s = now + left_bits / flow.rate_bps if flow.rate_bps > 0 else np.inf
        stage = SENT
    if at_s < np.inf:
        set_timer(sim, timer_b(sim, flow.number), at_s, flow.number * 16 + stage)
    else:
        stop_timer(sim, timer_b(sim, flow.number))


@kernel
def share_link(sim: Sim, direction: int) -> None:
    """Give every flow its max-min fair rate; re-plan those whose rate has changed."""
    integrate_link(sim, direction)
    link = sim.links[direction]
    now = sim.scalars[0].now
    flow_cap = sim.constants[0].flow_cap_bps
    n = link.flows
    wanted = 0.0
    for k in range(n):
        flow = sim.flows[direction, k]
        wanted += flow.production_bps if flow.caught_up else flow_cap
    level = np.inf
    if wanted > link.capacity_bps * (1.0 - 1e-9):  # else there is room for all, whatever the rounding
        caps = sim.caps
        for k in range(n):
            flow = sim.flows[direction, k]
            cap = flow.production_bps if flow.caught_up else flow_cap
            place = k
            while place > 0 and caps[place - 1] > cap:
                caps[place] = caps[place - 1]
                place -= 1
            caps[place] = cap
        level = fair_level(caps, n, link.capacity_bps)
    total = 0.0
    behind = 0
    for k in range(n):
        flow = sim.flows[direction, k]
        rate = level
        if flow.caught_up:
            if flow.production_bps <= level:
                total += flow.rate_bps
                continue
            flow.sent_bytes = produced_bytes(sim, direction, k)
            flow.caught_up = 0
        else:
            rate = min(flow_cap, level)
            if rate == flow.rate_bps and flow.planned:
                total += rate
                behind += 1
                continue
            flow.sent_bytes = sent_by_now(sim, direction, k)
        flow.since_s = now
        flow.rate_bps = rate
        total += rate
        behind += 1
        plan_flow(sim, direction, k)
    link.behind = behind
    link.total_rate_bps = total
    link.congested = level < np.inf


@kernel
def _has_room(sim: Sim, direction: int, more_bps: float) -> bool:
    """Whether every flow runs at its production rate and goes on so with ``more_bps`` on top: nothing to share out."""
    link = sim.links[direction]
    return link.behind == 0 and not link.congested and link.total_rate_bps + more_bps < link.capacity_bps * (1.0 - 1e-6)


@kernel
def begin_flow(sim: Sim, direction: int, number: int, size_bytes: float, start_s: float, end_s: float) -> None:
    """Open a transfer, produced from ``start_s`` to ``end_s`` (equal: all is there)."""
    now = sim.scalars[0].now
    link = sim.links[direction]
    k = link.flows
    link.flows = k + 1
    flow = sim.flows[direction, k]
    production = size_bytes * 8.0 / (end_s - start_s) if end_s > start_s else 0.0
    caught_up = start_s == now and end_s > now and production <= sim.constants[0].flow_cap_bps
    flow.number = number
    flow.caught_up = caught_up
    flow.planned = 0
    flow.size_bytes = size_bytes
    flow.start_s = start_s
    flow.end_s = end_s
    flow.production_bps = production
    flow.sent_bytes = 0.0
    flow.since_s = now
    flow.rate_bps = production if caught_up else 0.0
    request = sim.ring[number & (len(sim.ring) - 1)]
    request.flow = k
    request.link = direction
    if caught_up and _has_room(sim, direction, production):
        integrate_link(sim, direction)
        link.total_rate_bps += production
    else:
        share_link(sim, direction)


@kernel
def close_flow(sim: Sim, direction: int, k: int) -> None:
    """Take a flow from the link; the others share anew."""
    integrate_link(sim, direction)
    link = sim.links[direction]
    flow = sim.flows[direction, k]
    stop_timer(sim, timer_b(sim, flow.number))
    mask = len(sim.ring) - 1
    sim.ring[flow.number & mask].flow = -1
    freed, caught_up = flow.rate_bps, flow.caught_up
    last = link.flows - 1
    link.flows = last
    if k != last:
        sim.flows[direction, k] = sim.flows[direction, last]
        sim.ring[sim.flows[direction, k].number & mask].flow = k
    if last > 0 and not (caught_up and _has_room(sim, direction, 0.0)):
        share_link(sim, direction)
    elif last == 0:
        link.total_rate_bps = 0.0
        link.behind = 0
        link.congested = 0
    else:
        link.total_rate_bps -= freed


@kernel
def flow_produced(sim: Sim, direction: int, k: int) -> None:
    """Prefill has ended with the flow behind: it knows its end now."""
    plan_flow(sim, direction, k)


@kernel
def caught_up(sim: Sim, direction: int, k: int) -> None:
    """A flow has sent all there is: from here on it runs at the production rate."""
    flow = sim.flows[direction, k]
    flow.caught_up = 1
    flow.rate_bps = flow.production_bps
    flow.planned = 1
    share_link(sim, direction)


@kernel
def set_capacity(sim: Sim, direction: int, bps: float) -> None:
    integrate_link(sim, direction)
    sim.links[direction].capacity_bps = bps
    share_link(sim, direction)


@kernel
def backlog_bytes(sim: Sim, direction: int) -> float:
    """KV produced and not yet sent."""
    total = 0.0
    if sim.links[direction].behind == 0:
        return total
    for k in range(sim.links[direction].flows):
        if not sim.flows[direction, k].caught_up:
            total += max(0.0, produced_bytes(sim, direction, k) - sent_by_now(sim, direction, k))
    return total
