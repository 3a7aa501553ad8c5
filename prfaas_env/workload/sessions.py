"""Multi-turn sessions: growing contexts whose prefixes are shared, and when the turns come.

A session opens with a prompt; each further turn sends the whole conversation again (previous prompt, previous output, a
new message), so that its prefix is the previous prompt, or an *edited* one that keeps only the beginning. Sessions
share system prompts. Turns come at times drawn beforehand (the gap counts from arrival to arrival), whatever the system
does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import check_number
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.workload.lengths import LengthLaw
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.stream import RequestStream

__all__ = ["CacheRestart", "Sessions"]

BLOCK_TOKENS = 512
MOST_TURNS = 10_000  # on average
MOST_BLOCKS = 1 << 28  # of all prompts of an episode: some gigabytes
NORMAL_P90 = 1.2815515655446004  # standard normal quantile

Share = Annotated[float, Range(ge=0, le=1)]


@dataclass(frozen=True)
class Sessions(Record):
    """How sessions go on after their first prompt (whose law is the workload's ``lengths``).

    - ``message_tokens``: law of the new message of a later turn.
    - ``continue_alpha``, ``continue_beta``: the probability of one more turn differs between sessions by a Beta law.
    - ``least_to_continue_tokens``: sessions with a shorter first prompt have one turn (templated one-shot calls).
    - ``gap_p10_s``, ``gap_p50_s``, ``gap_p90_s``: quantiles of the time between turns, log-normal on either side of the
      median.
    - ``edit_share``: share of later turns that keep only a part of the previous prompt: ``least_kept_share`` to all
      of it (log-uniform) and the system prompt; the rest is replaced by as many new tokens.
    - ``max_input_tokens``: a longer prompt is cut to it, or, with ``compact_to_tokens``, replaced by a summary of that
      length, as coding agents do; it loses its prefix but for the system prompt.
    - ``system_prompts``, ``system_tokens``: how many different system prompts (with tools) there are, and how long each
      is in whole blocks; prompts of all sessions begin with one. The k-th is used in proportion to k^−``system_skew``.
    - ``warm_up_s``: sessions are drawn from that long before the episode, so that it begins in mid-traffic.

    Defaults: fitted to the Mooncake conversation trace as an observer of one hour sees it (sessions cut at both ends,
    so that gaps look shorter and sessions smaller than they are); ``warm_up_s`` and the system prompts are choices.
    """

    message_tokens: LengthLaw
    continue_alpha: Positive = 4.1
    continue_beta: Annotated[float, Range(gt=1)] = 5.8
    least_to_continue_tokens: NonNegative = 1000.0
    gap_p10_s: Positive = 43.0
    gap_p50_s: Positive = 128.0
    gap_p90_s: Positive = 560.0
    edit_share: Share = 0.27
    least_kept_share: Annotated[float, Range(gt=0, le=1)] = 0.054
    max_input_tokens: Annotated[int, Range(ge=BLOCK_TOKENS)] = 131_072
    warm_up_s: Annotated[float, Range(ge=0, le=7 * 86_400)] = 3600.0
    compact_to_tokens: Annotated[int, Range(ge=BLOCK_TOKENS)] | None = None
    system_prompts: Annotated[int, Range(ge=1, le=100_000)] = 1
    system_tokens: Annotated[int, Range(ge=BLOCK_TOKENS)] = BLOCK_TOKENS
    system_skew: Annotated[float, Range(ge=0, le=100)] = 1.0

    def check(self) -> None:
        check_number(self.system_prompts * self.system_tokens / BLOCK_TOKENS, "blocks of system prompts")
        going_on = (self.continue_alpha + self.continue_beta - 1.0) / (self.continue_beta - 1.0)
        check_number(going_on, "turns of a session", MOST_TURNS)
        most = self.max_input_tokens if self.compact_to_tokens is None else self.compact_to_tokens
        if self.compact_to_tokens is not None and most > self.max_input_tokens:
            raise ConfigError(
                f"compact_to_tokens: expected at most max_input_tokens {self.max_input_tokens}, got {most}"
            )
        if self.system_tokens > most:
            raise ConfigError(f"system_tokens: expected at most {most}, the length of a cut or compacted prompt")
        if not self.gap_p10_s < self.gap_p50_s < self.gap_p90_s:
            raise ConfigError("gap_p50_s: expected gap_p10_s < gap_p50_s < gap_p90_s")

    def mean_turns(self, lengths: LengthLaw) -> float:
        """Mean number of requests of a session whose first prompt follows ``lengths``."""
        going_on = (self.continue_alpha + self.continue_beta - 1.0) / (self.continue_beta - 1.0)  # E[1 / (1 − θ)]
        single = float(lengths.cdf(self.least_to_continue_tokens))
        return single + (1.0 - single) * going_on

    def draw(
        self,
        rng: np.random.Generator,
        start_s: np.ndarray,
        first_tokens: np.ndarray,
        output_tokens: LengthLaw,
        horizon_s: float,
    ) -> RequestStream:
        """The requests of ``[0, horizon_s)`` of the sessions that start at ``start_s`` (may be negative).

        ``first_tokens`` are the first prompts, one a session. A request's block ids cover its prompt and its output.
        """
        turns_rng, gaps_rng, edits_rng, messages_rng, outputs_rng, system_rng = rng.spawn(6)
        turns = self._turns(turns_rng, first_tokens)
        alive = np.arange(len(start_s))
        now_s, prompt = start_s.astype(np.float64), np.minimum(first_tokens, self.max_input_tokens)
        previous = self._system(system_rng, len(alive))
        shared = np.minimum(prompt // BLOCK_TOKENS, previous.counts)
        next_id, turn, rows, block_total = len(previous.ids), 0, [], 0.0
        while (within := now_s < horizon_s).any():
            output = output_tokens.sample(outputs_rng, len(alive))
            # Turns beyond the horizon cost numbers, so that it does not shift those of others, but no blocks.
            shared = np.where(within, shared, 0)
            counts = np.where(within, -(-(prompt + output) // BLOCK_TOKENS), 0)
            block_total += float(counts.sum(dtype=np.float64))
            check_number(block_total, "blocks of prompts", MOST_BLOCKS)
            blocks = previous.extended(shared, counts, next_id)
            next_id += int((blocks.counts - shared).sum())
            rows.append((now_s, prompt, output, alive, np.full(len(alive), turn), blocks))
            turn += 1
            stay = turns[alive] > turn
            alive, previous = alive[stay], blocks.rows(stay)
            now_s = now_s[stay] + self._gaps(gaps_rng, len(alive))
            prompt, shared = self._next_prompt(
                edits_rng, prompt[stay], output[stay], self.message_tokens.sample(messages_rng, len(alive))
            )
        return _stream(rows, horizon_s)

    def _turns(self, rng: np.random.Generator, first_tokens: np.ndarray) -> np.ndarray:
        going_on = rng.beta(self.continue_alpha, self.continue_beta, len(first_tokens))
        turns = rng.geometric(1.0 - going_on)
        return np.where(first_tokens < self.least_to_continue_tokens, 1, turns)

    def _system(self, rng: np.random.Generator, n: int) -> _Blocks:
        """The system prompts of ``n`` sessions."""
        weights = np.arange(1.0, self.system_prompts + 1.0) ** -self.system_skew
        which = np.searchsorted(np.cumsum(weights)[:-1] / weights.sum(), rng.random(n), side="right")
        blocks = self.system_tokens // BLOCK_TOKENS
        return _Blocks(np.arange(self.system_prompts * blocks), which * blocks, np.full(n, blocks))

    def _gaps(self, rng: np.random.Generator, n: int) -> np.ndarray:
        z = rng.standard_normal(n) / NORMAL_P90
        below, above = np.log(self.gap_p50_s / self.gap_p10_s), np.log(self.gap_p90_s / self.gap_p50_s)
        return self.gap_p50_s * np.exp(z * np.where(z < 0.0, below, above))

    def _next_prompt(
        self, rng: np.random.Generator, prompt: np.ndarray, output: np.ndarray, message: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Length of the next prompt, and how many of its blocks the conversation so far has already."""
        edited = rng.random(len(prompt)) < self.edit_share
        kept = self.least_kept_share ** rng.random(len(prompt))
        wanted = prompt + message + np.where(edited, 0, output)
        shared_tokens = np.where(edited, np.maximum(kept * prompt, self.system_tokens), prompt + output)
        full, refit = wanted > self.max_input_tokens, self.compact_to_tokens or self.max_input_tokens
        shared_tokens = np.where(full, self.system_tokens, shared_tokens)
        shared = (np.minimum(shared_tokens, prompt + output) // BLOCK_TOKENS).astype(np.int64)
        return np.where(full, refit, wanted), shared


@dataclass(frozen=True)
class CacheRestart(Record):
    """A moment from which on nothing cached before is of use: new weights are rolled out, in both clusters.

    It comes between two times (uniform). Prompts after it have block ids of their own. What the caches hold from before
    is dead but still there; being the least recently used, it is what they evict first, so that prompts hit what they
    would hit after the caches had been emptied.
    """

    low_s: NonNegative
    high_s: NonNegative

    def check(self) -> None:
        if self.high_s < self.low_s:
            raise ConfigError(f"high_s: expected at least low_s {self.low_s:g}, got {self.high_s:g}")

    def apply(self, rng: np.random.Generator, stream: RequestStream) -> RequestStream:
        """The same requests, their block ids renumbered from the restart on."""
        restart_s = float(rng.uniform(self.low_s, self.high_s))
        first = stream.hash_offsets[np.searchsorted(stream.arrival_s, restart_s, side="left")]
        after = np.arange(len(stream.block_hashes)) >= first
        ids = stream.block_hashes + after * (stream.block_hashes.max(initial=-1) + 1)
        return replace(stream, block_hashes=_without_gaps(ids))


class _Blocks:
    """Block ids of several prompts, each in a row of its own: row i starts at ``starts[i]`` of ``ids``."""

    def __init__(self, ids: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
        self.ids, self.starts, self.counts = ids, starts, counts

    def rows(self, chosen: np.ndarray) -> _Blocks:
        return _Blocks(self.ids, self.starts[chosen], self.counts[chosen])

    def extended(self, shared: np.ndarray, counts: np.ndarray, next_id: int) -> _Blocks:
        """Rows of ``counts`` blocks that begin with ``shared`` blocks of these rows; the others are new."""
        ends = np.cumsum(counts)
        starts, new = ends - counts, next_id - np.cumsum(shared)  # id of a new block at position p: p + that of its row
        ids = np.arange(ends[-1]) + np.repeat(new, counts)
        ids[ragged_index(starts, shared)] = self.ids[ragged_index(self.starts, shared)]
        return _Blocks(ids, starts, counts)


_Turn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, _Blocks]


def _stream(turns: list[_Turn], horizon_s: float) -> RequestStream:
    """The requests of all turns between 0 and the horizon in order of arrival, blocks numbered without gaps."""
    if not turns:
        return RequestStream(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    arrival, prompt, output, session, number = (np.concatenate([turn[k] for turn in turns]) for k in range(5))
    blocks = [turn[5] for turn in turns]
    sizes = np.cumsum([0, *(len(b.ids) for b in blocks[:-1])])
    starts = np.concatenate([b.starts + size for b, size in zip(blocks, sizes, strict=True)])
    counts = np.concatenate([b.counts for b in blocks])
    order = np.argsort(arrival, kind="stable")
    order = order[(arrival[order] >= 0.0) & (arrival[order] < horizon_s)]
    ids = np.concatenate([b.ids for b in blocks])[ragged_index(starts[order], counts[order])]
    return RequestStream(
        arrival[order],
        prompt[order],
        output[order],
        session_id=session[order],
        turn=number[order],
        hash_offsets=np.concatenate([[0], np.cumsum(counts[order])]),
        block_hashes=_without_gaps(ids),
        block_tokens=BLOCK_TOKENS,
    )


def _without_gaps(ids: np.ndarray) -> np.ndarray:
    """The same ids, numbered 0, 1, … in their order."""
    return (np.cumsum(np.bincount(ids) > 0) - 1)[ids]
