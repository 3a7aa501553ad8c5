"""The shipped suite: splits that cannot meet, groups, loads, and how fast its requests are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_env.config import ConfigError
from prfaas_env.seeds import check_evaluation_seeds, split_of, training_seed, validation_seeds


@given(st.integers(0, 2**32 - 1), st.integers(0, 10**10 - 1), st.integers(0, 4095), st.integers(1, 500_000))
def test_seeds_of_the_splits_cannot_meet(run_seed: int, steps: int, copy: int, count: int) -> None:
    assert split_of(training_seed(run_seed, steps) + copy) == "train"
    seeds = validation_seeds(count)
    assert {split_of(seeds[0]), split_of(seeds[-1])} == {"validation"}
    with pytest.raises(ConfigError, match=r"seeds: expected less than 1,000,000"):
        check_evaluation_seeds([training_seed(run_seed, steps) + copy])


def test_an_evaluation_stays_in_one_range_of_seeds() -> None:
    for seeds in (range(10), range(499_990, 500_000), range(500_000, 500_010), range(999_999, 1_000_000)):
        check_evaluation_seeds(seeds)
    for seeds, message in (
        (range(0), "expected at least one"),
        (range(499_999, 500_001), "expected all below 500,000"),
        (range(999_999, 1_000_001), "expected less than 1,000,000"),
    ):
        with pytest.raises(ConfigError, match=message):
            check_evaluation_seeds(seeds)


def test_episodes_of_one_environment_do_not_run_into_other_seeds() -> None:
    """Resets without a seed spawn from the first one's generator: they share nothing with any numbered seed."""
    generator = np.random.default_rng(1_000_000)
    later = [child.bit_generator.seed_seq.generate_state(4).tolist() for child in generator.spawn(200)]
    numbered = [np.random.SeedSequence(s).generate_state(4).tolist() for s in range(1_000_000, 1_000_200)]
    own = [c.generate_state(4).tolist() for s in range(5) for c in np.random.SeedSequence(s).spawn(200)]
    states = [tuple(state) for state in (*later, *numbered, *own)]
    assert len(set(states)) == len(states)
