"""Role conversion (model.md section 4), one node at a time; the reference engine's ``roles.py`` states the rules."""

from __future__ import annotations

from prfaas_env.simulator.compiled.decode import fail_decoder, is_empty, least_loaded, set_admitting
from prfaas_env.simulator.compiled.jit import kernel
from prfaas_env.simulator.compiled.prefill import fail_prefill, join_pool, leave_pool
from prfaas_env.simulator.compiled.state import LOCAL, Sim
from prfaas_env.simulator.compiled.timers import AFTER_REQUESTS, CONVERTED, set_timer, stop_timer

__all__: list[str] = []


@kernel
def _conversion_timer(sim: Sim) -> int:
    return len(sim.decoders)


@kernel
def _begin(sim: Sim, node: int, to_prefill: int) -> None:
    g = sim.scalars[0]
    g.converting = node
    g.converting_to_prefill = to_prefill
    order = (AFTER_REQUESTS + node) * 16 + CONVERTED
    set_timer(sim, _conversion_timer(sim), g.now + sim.constants[0].conversion_s, order)


@kernel
def claim(sim: Sim, node: int) -> bool:
    """A prefill node is free: is it the one that a conversion waits for?"""
    g = sim.scalars[0]
    if not g.awaiting_prefill_node or sim.pools[LOCAL].members <= sim.constants[0].bound_low:
        return False
    g.awaiting_prefill_node = 0
    leave_pool(sim, LOCAL, node)
    _begin(sim, node, 0)
    return True


@kernel
def drained(sim: Sim, node: int) -> None:
    g = sim.scalars[0]
    if node == g.draining:
        g.draining = -1
        _begin(sim, node, 1)


@kernel
def steer(sim: Sim) -> None:
    """Take the next step towards the target N_p."""
    g = sim.scalars[0]
    if g.converting >= 0:
        return
    wanted = g.target - sim.pools[LOCAL].members - g.failed_prefill
    if wanted <= 0 and g.draining >= 0:
        node = g.draining
        g.draining = -1
        set_admitting(sim, node, 1)
    if wanted >= 0:
        g.awaiting_prefill_node = 0
    if wanted > 0 and g.draining < 0 and g.admitting > 1:
        node = least_loaded(sim)
        g.draining = node
        set_admitting(sim, node, 0)
        if is_empty(sim, node):
            drained(sim, node)
    elif wanted < 0:
        g.awaiting_prefill_node = 1
        if sim.pools[LOCAL].idle > 0:
            claim(sim, sim.instances[LOCAL, 0].idle)


@kernel
def _take_role(sim: Sim, node: int, to_prefill: int) -> None:
    if to_prefill:
        join_pool(sim, LOCAL, node)
    else:
        set_admitting(sim, node, 1)


@kernel
def converted(sim: Sim) -> None:
    """A conversion has ended: the node takes its new role."""
    g = sim.scalars[0]
    node = g.converting
    g.converting = -1
    _take_role(sim, node, g.converting_to_prefill)
    g.conversions += 1
    steer(sim)


@kernel
def fail_local(sim: Sim, node: int) -> int:
    """Section 6. Returns the request whose prefill is lost (−1: none); decode puts its own back itself."""
    g = sim.scalars[0]
    instance = sim.instances[LOCAL, node]
    if instance.failed:
        return -1
    instance.failed = 1
    g.failed_nodes += 1
    lost = -1
    if node == g.converting:
        instance.back_to_prefill = g.converting_to_prefill
        g.converting = -1
        stop_timer(sim, _conversion_timer(sim))
    elif instance.member:
        instance.back_to_prefill = 1
        lost = fail_prefill(sim, LOCAL, node)
    else:
        instance.back_to_prefill = 0
        if node == g.draining:
            g.draining = -1
        fail_decoder(sim, node)
    g.failed_prefill += instance.back_to_prefill
    steer(sim)
    return lost


@kernel
def repair_local(sim: Sim, node: int) -> None:
    g = sim.scalars[0]
    instance = sim.instances[LOCAL, node]
    if instance.failed:
        instance.failed = 0
        g.failed_nodes -= 1
        g.failed_prefill -= instance.back_to_prefill
        _take_role(sim, node, instance.back_to_prefill)
        steer(sim)
