"""The prefix cache of one cluster: one LRU pool of blocks, some of which carry a recurrent state (model.md section 5).

Full attention: any run of leading blocks that is held can be reused. Hybrid: the recurrent state of linear layers is
reusable only at exactly the length where it was taken, so a hit needs the blocks *and* a state. The state is taken at
the last full block of a turn: there the block's id, which stands for the whole prefix, vouches for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["BlockCache"]


class BlockCache:
    """Blocks of ``block_bytes``, states of ``state_bytes`` (0: full attention); least recently used goes first."""

    def __init__(self, capacity_bytes: float, block_tokens: int, block_bytes: float, state_bytes: float) -> None:
        self.capacity_bytes = capacity_bytes
        self.block_tokens = block_tokens
        self.block_bytes = block_bytes
        self.state_bytes = state_bytes
        self.blocks: OrderedDict[int, bool] = OrderedDict()  # id -> carries a state; oldest first
        self.used_bytes = 0.0

    def match(self, prompt: Sequence[int], input_tokens: int) -> tuple[int, int]:
        """Tokens of the prompt whose KV is held, and tokens that a prefill here can skip (at most all but one)."""
        held = usable = 0
        for block in prompt:
            state = self.blocks.get(block)
            if state is None:
                break
            held += 1
            if (state or not self.state_bytes) and held * self.block_tokens < input_tokens:
                usable = held * self.block_tokens
        if not self.state_bytes:
            usable = min(held * self.block_tokens, input_tokens - 1)
        return min(held * self.block_tokens, input_tokens), usable

    def touch(self, blocks: Sequence[int]) -> None:
        """Mark a prefix as just used. The deepest block is touched first, so that leaves are evicted before roots."""
        for block in reversed(blocks):
            if block in self.blocks:
                self.blocks.move_to_end(block)

    def insert(self, blocks: Sequence[int]) -> None:
        """Keep the KV of a sequence's full blocks, and the state at their end; evict what is too much."""
        if self.capacity_bytes <= 0:
            return
        for i in range(len(blocks) - 1, -1, -1):
            block = blocks[i]
            state = self.state_bytes > 0 and i + 1 == len(blocks)
            held = self.blocks.get(block)
            if held is None:
                self.used_bytes += self.block_bytes
            if state and not held:
                self.used_bytes += self.state_bytes
            self.blocks[block] = state or bool(held)
            self.blocks.move_to_end(block)
        while self.used_bytes > self.capacity_bytes and self.blocks:
            _, state = self.blocks.popitem(last=False)
            self.used_bytes -= self.block_bytes + (self.state_bytes if state else 0.0)
        if not self.blocks:
            self.used_bytes = 0.0
