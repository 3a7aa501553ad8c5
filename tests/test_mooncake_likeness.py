"""``mooncake-like`` against the file that it imitates; skipped where the real trace is absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp

from prfaas_env.scenario import load_scenario
from prfaas_env.seeds import FIRST_VALIDATION_SEED
from prfaas_env.workload.prefixes import infinite_cache_hits

TRACE = "mooncake-fast25/conversation_trace.jsonl.gz"


def test_uncached_lengths_and_hits_are_those_of_the_trace(real_trace: Callable[[str], Path]) -> None:
    """Kolmogorov distance of the uncached lengths ≤ .06, hit share of the tokens within .03, at the trace's rate."""
    real_trace(TRACE)
    conversation = load_scenario("mooncake-conversation")
    as_measured = replace(conversation.workload, length_scale=1.0, rate_scale=1.0)  # type: ignore[type-var]
    real = replace(conversation, workload=as_measured, horizon_s=3600.0).draw(0).stream
    like = replace(load_scenario("mooncake-like"), load=None, rate_rps=3.4, horizon_s=3540.0)
    uncached_real = real.input_tokens - infinite_cache_hits(real)
    hit_share = 1.0 - uncached_real.sum() / real.input_tokens.sum()
    for seed in range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + 3):
        generated = like.draw(seed).stream
        uncached = generated.input_tokens - infinite_cache_hits(generated)
        assert ks_2samp(uncached_real, uncached).statistic <= 0.06
        assert abs(1.0 - uncached.sum() / generated.input_tokens.sum() - hit_share) <= 0.03


def test_scripted_policies_rank_alike(real_trace: Callable[[str], Path]) -> None:
    """The same order of mean TTFT on the trace and on its likeness, where one policy is better than the next by 5 %."""
    real_trace(TRACE)
    from prfaas_env import simulate

    names = ("least-completion", "windowed-closed-form", "static", "naive")
    means = {
        scenario: np.array(
            [
                np.mean(
                    [simulate(scenario, name, seed=FIRST_VALIDATION_SEED + k).summary["ttft_mean_s"] for k in range(n)]
                )
                for name in names
            ]
        )
        for scenario, n in (("mooncake-conversation", 1), ("mooncake-like", 3))
    }
    for scenario in means:
        assert (np.diff(means[scenario]) > 0.05 * means[scenario][:-1]).all(), (scenario, means[scenario])
