"""Prefix caches (model.md section 5): one LRU list of blocks a cluster, blocks numbered by the stream's ids.

Entry ``blocks`` (the last) anchors the list: its ``older`` is the newest block, its ``newer`` the oldest.
"""

from __future__ import annotations

from prfaas_env.simulator.compiled.jit import kernel, small
from prfaas_env.simulator.compiled.state import Sim

__all__: list[str] = []


@small
def first_block(sim: Sim, number: int) -> int:
    """Where a request's block ids begin; 0 where no cache is switched on."""
    return sim.hash_offsets[number] if len(sim.block_hashes) else 0


@small
def context_blocks(sim: Sim, number: int) -> int:
    """How many block ids the stream knows of a request: its prompt's, and perhaps its output's."""
    return sim.hash_offsets[number + 1] - sim.hash_offsets[number] if len(sim.block_hashes) else 0


@small
def prompt_blocks(sim: Sim, number: int, input_tokens: int) -> int:
    block = sim.constants[0].block_tokens
    return min(context_blocks(sim, number), (input_tokens + block - 1) // block)


@kernel
def held_blocks(sim: Sim, side: int, number: int, prompt: int) -> int:
    """How many leading blocks of the prompt are held."""
    first = first_block(sim, number)
    held = 0
    while held < prompt and sim.cache[side, sim.block_hashes[first + held]].held:
        held += 1
    return held


@kernel
def usable_tokens(sim: Sim, side: int, number: int, held: int, input_tokens: int) -> int:
    """Tokens that a prefill can skip: with recurrent states only up to one that was kept; at most all but one."""
    block = sim.constants[0].block_tokens
    if sim.cache_constants[side].state_bytes == 0.0:
        return min(held * block, input_tokens - 1) if held else 0
    first = first_block(sim, number)
    for k in range(held, 0, -1):
        if k * block < input_tokens and sim.cache[side, sim.block_hashes[first + k - 1]].state:
            return k * block
    return 0


@small
def _unlink(sim: Sim, side: int, block: int) -> None:
    entry = sim.cache[side, block]
    sim.cache[side, entry.newer].older = entry.older
    sim.cache[side, entry.older].newer = entry.newer


@small
def _to_newest(sim: Sim, side: int, block: int) -> None:
    anchor = sim.cache.shape[1] - 1
    newest = sim.cache[side, anchor].older
    sim.cache[side, block].newer = anchor
    sim.cache[side, block].older = newest
    sim.cache[side, newest].newer = block
    sim.cache[side, anchor].older = block


@kernel
def touch(sim: Sim, side: int, number: int, blocks: int) -> None:
    """Mark a prefix as just used, the deepest block first, so that leaves are evicted before roots."""
    first = first_block(sim, number)
    for k in range(blocks - 1, -1, -1):
        block = sim.block_hashes[first + k]
        if sim.cache[side, block].held:
            _unlink(sim, side, block)
            _to_newest(sim, side, block)


@kernel
def insert(sim: Sim, side: int, number: int, blocks: int) -> None:
    """Keep the KV of a sequence's full blocks, and the state at their end; evict what is too much."""
    c = sim.cache_constants[side]
    if c.capacity_bytes <= 0.0 or blocks == 0:
        return
    first = first_block(sim, number)
    used = sim.cache_totals[side].used_bytes
    for k in range(blocks - 1, -1, -1):
        block = sim.block_hashes[first + k]
        entry = sim.cache[side, block]
        if entry.held:
            _unlink(sim, side, block)
        else:
            entry.held = 1
            entry.state = 0
            used += c.block_bytes
        if c.state_bytes > 0.0 and k + 1 == blocks and not entry.state:
            entry.state = 1
            used += c.state_bytes
        _to_newest(sim, side, block)
    anchor = sim.cache.shape[1] - 1
    while used > c.capacity_bytes and sim.cache[side, anchor].newer != anchor:
        oldest = sim.cache[side, anchor].newer
        entry = sim.cache[side, oldest]
        _unlink(sim, side, oldest)
        used -= c.block_bytes + (c.state_bytes if entry.state else 0.0)
        entry.held = 0
        entry.state = 0
    sim.cache_totals[side].used_bytes = used if sim.cache[side, anchor].newer != anchor else 0.0
