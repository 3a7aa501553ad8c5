"""Which seeds are for what: three ranges that cannot meet, so that no figure is measured on what was trained on.

An episode is settled by its seed alone (``Scenario.draw``). ``evaluate.py`` counts up from 0, the best model of a run
is chosen on seeds from 500,000, and training starts at 1,000,000 with no end. A policy is tuned on training's seeds,
and what came of it is validated on those from 540,000.
"""

from __future__ import annotations

from collections.abc import Sequence

from prfaas_env.config import ConfigError

__all__ = [
    "FIRST_TRAINING_SEED",
    "FIRST_VALIDATION_SEED",
    "RUN_STRIDE",
    "check_evaluation_seeds",
    "lesson_seeds",
    "split_of",
    "training_seed",
    "tuning_seeds",
    "tuning_validation_seeds",
    "validation_seeds",
]

FIRST_VALIDATION_SEED = 500_000
FIRST_TUNING_VALIDATION_SEED = FIRST_VALIDATION_SEED + 40_000
FIRST_TRAINING_SEED = 1_000_000
RUN_STRIDE = 10**10
"""Distance between the seeds of two runs: more than twice the steps that any run takes."""


def split_of(seed: int) -> str:
    """What a seed is for: ``"test"``, ``"validation"`` or ``"train"``, as the splits of scenarios are called."""
    if seed >= FIRST_TRAINING_SEED:
        return "train"
    return "validation" if seed >= FIRST_VALIDATION_SEED else "test"


def training_seed(run_seed: int, steps: int) -> int:
    """Seed of the first of the environments that a run starts (or resumes) after ``steps`` steps; copy i adds i.

    A run takes at least one step a copy before it can be resumed, so a resumed run meets new episodes.
    """
    return FIRST_TRAINING_SEED + RUN_STRIDE * run_seed + steps


def lesson_seeds(run_seed: int, count: int) -> range:
    """Seeds of the episodes on which a run's policy learns from its teacher, apart from those of its own episodes."""
    first = training_seed(run_seed, RUN_STRIDE // 2)
    return range(first, first + count)


def validation_seeds(count: int) -> range:
    """The seeds on which models of a run are compared. Raises :class:`ConfigError` if they would reach training's."""
    seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + count)
    if seeds.stop > FIRST_TRAINING_SEED:
        raise ConfigError(f"validation_seeds: expected at most {FIRST_TRAINING_SEED - FIRST_VALIDATION_SEED}")
    return seeds


def tuning_seeds(count: int) -> range:
    """The seeds on which the settings of a policy are tried."""
    return range(FIRST_TRAINING_SEED, FIRST_TRAINING_SEED + count)


def tuning_validation_seeds(count: int) -> range:
    """The seeds on which the best settings found are held against the defaults."""
    return range(FIRST_TUNING_VALIDATION_SEED, FIRST_TUNING_VALIDATION_SEED + count)


def check_evaluation_seeds(seeds: Sequence[int]) -> None:
    """:class:`ConfigError` unless there are seeds, and all of one range that is not training's."""
    if not seeds:
        raise ConfigError("seeds: expected at least one")
    first, last = split_of(min(seeds)), split_of(max(seeds))
    if last == "train":
        raise ConfigError(f"seeds: expected less than {FIRST_TRAINING_SEED:,}, where those of training begin")
    if first != last:
        raise ConfigError(f"seeds: expected all below {FIRST_VALIDATION_SEED:,} (test) or none (validation)")
