"""Runs cells: one policy, one scenario, one seed each, on any executor.

A cell depends on nothing but itself, so results do not depend on the number of workers or on their order, and every
policy meets the same requests at the same seed (common random numbers).
"""

from __future__ import annotations

import math
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.controls import PolicyRun
from prfaas_env.evaluation.fingerprint import code_hash
from prfaas_env.evaluation.results import TTFT_LEVELS, CellResult, row
from prfaas_env.evaluation.simulate import ActionWarning, simulate
from prfaas_env.parallel.executor import Executor
from prfaas_env.policies import load_policy
from prfaas_env.scenario import Scenario
from prfaas_env.workload.traces.trace import TraceWarning

__all__ = ["Cell", "check_policy_of", "plan_cells", "run_cell", "run_cells"]

SLOWEST = 20  # requests of a drawn cell, whose time the report takes apart


@dataclass(frozen=True)
class Cell:
    """The unit of work, identified by policy, scenario hash, seed and engine. ``drawn``: keep the timeline."""

    policy: str
    scenario: Scenario
    seed: int
    engine: str
    drawn: bool = False

    def __str__(self) -> str:
        return f"{self.policy} on {self.scenario.name}, seed {self.seed}"


def plan_cells(policies: Sequence[str], scenarios: Sequence[Scenario], seeds: Sequence[int], engine: str) -> list[Cell]:
    """Every policy on every scenario and seed; seed by seed, so that an interrupted evaluation stays paired.

    The first seed of each scenario is the one that the report draws over time.
    """
    return [
        Cell(policy, scenario, seed, engine, drawn=seed == seeds[0])
        for seed in seeds
        for scenario in scenarios
        for policy in policies
    ]


def check_policy_of(cell: Cell) -> None:
    """Raises :class:`ConfigError` unless a cell's policy can be loaded for its scenario."""
    load_policy(cell.policy, cell.scenario)


def run_cell(cell: Cell, code: str | None = None) -> CellResult:
    """Simulate one cell and keep what the tables and the report need. Errors say which cell it was.

    Raises :class:`ConfigError` where the code here is not ``code`` (:func:`code_hash`): results of two never mix.
    """
    if code is not None and code != code_hash():
        raise ConfigError(
            f"worker on {platform.node()}: runs code {code_hash()} of prfaas_env or its libraries, expected {code}: "
            "install the same versions, and change none while an evaluation runs"
        )
    begin_s = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = _simulated(cell)
    for other in caught:
        if not issubclass(other.category, (ActionWarning, TraceWarning)):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    notes = [str(one.message) for one in caught if issubclass(one.category, ActionWarning)]
    values = row(cell.policy, cell.scenario.name, cell.seed, result.summary)
    kept = {"timeline": result.timeline, "slowest": _slowest(result.requests)} if cell.drawn else {}
    return CellResult(
        values,
        _quantiles(result.requests),
        notes=notes,
        cpu_s=time.process_time() - begin_s,
        controls=result.controls,
        decision_s=result.decision_s,
        **kept,
    )


def _quantiles(requests: np.ndarray) -> np.ndarray:
    """TTFT at ``TTFT_LEVELS``, NaN from where less than one request is slower."""
    ttft_s = requests["ttft_s"][np.isfinite(requests["ttft_s"])]
    if not len(ttft_s):
        return ttft_s
    known = (1.0 - TTFT_LEVELS) * len(ttft_s) > 1.0 - 1e-9
    return np.where(known, np.quantile(ttft_s, TTFT_LEVELS), np.nan)


def _slowest(requests: np.ndarray) -> np.ndarray:
    served = requests[np.isfinite(requests["ttft_s"])]
    return served[np.argsort(-served["ttft_s"], kind="stable")[:SLOWEST]]


def _simulated(cell: Cell) -> PolicyRun:
    try:
        return simulate(cell.scenario, cell.policy, cell.seed, cell.engine)
    except ConfigError as error:
        raise ConfigError(f"{cell}: {error}") from None
    except Exception as error:
        error.add_note(f"in {cell}")
        raise


def run_cells(
    cells: Sequence[Cell], executor: Executor, cpu_s: Mapping[tuple[str, str], float] | None = None
) -> Iterator[tuple[int, CellResult]]:
    """Results as they come, each with the number of its cell. Closing the iterator, an error or Ctrl-C ends all work.

    Seed by seed, so that an interrupted evaluation stays paired; within a seed the longest first, so that no worker is
    left alone with a long one at the end. How long is what the same policy and scenario has taken before (``cpu_s``,
    by policy and scenario, and this run); what is not known yet comes first, the policy named last before the others.
    """
    taken = dict(cpu_s or {})
    handed_out: list[int] = []

    def expected_s(i: int) -> tuple[float, int]:
        return taken.get(_kind(cells[i]), math.inf), i

    def coming() -> Iterator[Cell]:
        for _, numbers in groupby(range(len(cells)), key=lambda i: cells[i].seed):
            for i in sorted(numbers, key=expected_s, reverse=True):
                handed_out.append(i)
                yield cells[i]

    for number, result in executor.run(partial(run_cell, code=code_hash()), coming()):
        i = handed_out[number]
        taken[_kind(cells[i])] = result.cpu_s
        yield i, result


def _kind(cell: Cell) -> tuple[str, str]:
    return cell.policy, cell.scenario.name
