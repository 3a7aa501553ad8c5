"""A run given another future: what is in the system stays, what would have arrived is replaced."""

from __future__ import annotations

import copy

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.compiled.state import SIM, STATE_FIELDS
from prfaas_env.workload.stream import RequestStream

__all__ = ["branch", "compiled_engine"]


def compiled_engine(engine: object, policy: str) -> CompiledEngine:
    """``engine`` itself if it can be searched on. Raises :class:`ConfigError` otherwise."""
    if not isinstance(engine, CompiledEngine):
        raise ConfigError(f"policy {policy}: plans on snapshots, which only the engine 'compiled' has")
    return engine


def branch(engine: CompiledEngine, future: RequestStream) -> CompiledEngine:
    """A twin of a run as it stands now, in which ``future`` arrives next, the link keeps the capacity that it has, and
    nothing fails or is repaired any more. The two share no state.

    ``future``: arrivals from now on, by the clock of the run, without hashes of blocks: nothing of it is in a cache.
    """
    sim = engine.sim
    arrived = int(sim.scalars[0]["arrived_next"])
    state = {name: getattr(sim, name).copy() for name in STATE_FIELDS}
    scalars, constants = state["scalars"], sim.constants.copy()
    scalars["capacity_next"], scalars["fault_next"] = 1, 0
    constants["requests"] = arrived + len(future)
    streams = {
        name: np.concatenate([getattr(sim, name)[:arrived], getattr(future, name)])
        for name in ("arrival_s", "input_tokens", "output_tokens", "service_class")
    }
    offsets = sim.hash_offsets
    if len(offsets) > 1:  # the run has a cache
        offsets = np.concatenate([offsets[: arrived + 1], np.full(len(future), offsets[arrived])])
    twin = copy.copy(engine)
    twin.sim = sim._replace(
        **state,
        **streams,
        constants=constants,
        hash_offsets=offsets,
        capacity_times_s=np.zeros(1),
        capacity_gbps=sim.links["capacity_bps"][:1] / 1e9,
        faults=sim.faults[:0],
        log=sim.log[:0],
    )
    twin.table = SIM.table(twin.sim)
    return twin
