"""Multi-turn sessions: growing contexts whose prefixes are shared, and when the turns come.

A session opens with a prompt; each further turn sends the whole conversation again (previous prompt, previous output, a
new message), so that its prefix is the previous prompt, or an *edited* one that keeps only the beginning. All prompts
share a system block. Turns come at times drawn beforehand (the gap counts from arrival to arrival), whatever the system
does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.workload.lengths import LengthLaw
from prfaas_env.workload.prefixes import ragged_index
from prfaas_env.workload.stream import RequestStream

__all__ = ["Sessions"]

BLOCK_TOKENS = 512
NORMAL_P90 = 1.2815515655446004  # standard normal quantile
_SYSTEM_BLOCK = 0

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
      of it (log-uniform) and the system block; the rest is replaced by as many new tokens.
    - ``max_input_tokens``: a longer prompt is cut to it and loses its prefix but for the system block.
    - ``warm_up_s``: sessions are drawn from that long before the episode, so that it begins in mid-traffic.

    Defaults: fitted to the Mooncake conversation trace as an observer of one hour sees it (sessions cut at both ends,
    so that gaps look shorter and sessions smaller than they are); ``warm_up_s`` is a choice.
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
    warm_up_s: NonNegative = 3600.0

    def check(self) -> None:
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
        turns_rng, gaps_rng, edits_rng, messages_rng, outputs_rng = rng.spawn(5)
        turns = self._turns(turns_rng, first_tokens)
        alive = np.arange(len(start_s))
        now_s, prompt = start_s.astype(np.float64), np.minimum(first_tokens, self.max_input_tokens)
        shared = np.minimum(prompt // BLOCK_TOKENS, 1)
        previous = _Blocks(np.full(len(alive), _SYSTEM_BLOCK), np.arange(len(alive)))
        next_id, turn, rows = _SYSTEM_BLOCK + 1, 0, []
        while len(alive):
            output = output_tokens.sample(outputs_rng, len(alive))
            blocks = previous.extended(shared, -(-(prompt + output) // BLOCK_TOKENS), next_id)
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
        shared_tokens = np.where(edited, np.maximum(kept * prompt, BLOCK_TOKENS), prompt + output)
        shared_tokens = np.where(wanted > self.max_input_tokens, BLOCK_TOKENS, shared_tokens)
        shared = (np.minimum(shared_tokens, prompt + output) // BLOCK_TOKENS).astype(np.int64)
        return np.minimum(wanted, self.max_input_tokens), shared


class _Blocks:
    """Block ids of several prompts, each in a row of its own: row i starts at ``starts[i]`` of ``ids``."""

    def __init__(self, ids: np.ndarray, starts: np.ndarray, counts: np.ndarray | None = None) -> None:
        self.ids, self.starts = ids, starts
        self.counts = np.ones(len(starts), dtype=np.int64) if counts is None else counts

    def rows(self, chosen: np.ndarray) -> _Blocks:
        return _Blocks(self.ids, self.starts[chosen], self.counts[chosen])

    def extended(self, shared: np.ndarray, counts: np.ndarray, next_id: int) -> _Blocks:
        """Rows of ``counts`` blocks that begin with ``shared`` blocks of these rows; the others are new."""
        starts = np.cumsum(counts) - counts
        ids = np.empty(int(counts.sum()), dtype=np.int64)
        ids[ragged_index(starts, shared)] = self.ids[ragged_index(self.starts, shared)]
        fresh = ragged_index(starts + shared, counts - shared)
        ids[fresh] = next_id + np.arange(len(fresh))
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
    used = np.bincount(ids) > 0
    return RequestStream(
        arrival[order],
        prompt[order],
        output[order],
        session_id=session[order],
        turn=number[order],
        hash_offsets=np.concatenate([[0], np.cumsum(counts[order])]),
        block_hashes=(np.cumsum(used) - 1)[ids],
        block_tokens=BLOCK_TOKENS,
    )
