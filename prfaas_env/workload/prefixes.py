"""Prefixes of prompts as block ids: ragged arrays, and what an infinite cache would hit."""

from __future__ import annotations

import numpy as np

from prfaas_env.workload.stream import RequestStream

__all__ = ["infinite_cache_hits", "ragged_index"]


def ragged_index(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Indices ``starts[i], …, starts[i] + counts[i] − 1`` of each row, row after row. Shape (counts.sum(),)."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def infinite_cache_hits(stream: RequestStream) -> np.ndarray:
    """Tokens of each prompt that an earlier prompt had as its prefix: what one cache without limits would serve.

    Whole blocks count, up to the first that no earlier prompt filled; outputs are not cached. Shape (n,), int64.
    """
    n, block = len(stream), stream.block_tokens
    counts = np.minimum(np.diff(stream.hash_offsets), stream.input_tokens // block)
    ids = stream.block_hashes[ragged_index(stream.hash_offsets[:-1], counts)]
    owner = np.repeat(np.arange(n), counts)
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    new = owner[first][inverse] == owner
    hit_blocks = counts.copy()
    np.minimum.at(hit_blocks, owner[new], ragged_index(np.zeros(n, dtype=np.int64), counts)[new])
    return hit_blocks * block
