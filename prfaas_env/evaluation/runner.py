"""Runs cells: one policy, one scenario, one seed each, in this process or in a pool of spawned ones.

A cell depends on nothing but itself, so results do not depend on the number of workers or on their order, and every
policy meets the same requests at the same seed (common random numbers).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.results import CellResult, row
from prfaas_env.evaluation.simulate import ActionWarning, simulate
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.result import RunResult
from prfaas_env.workload.traces.trace import TraceWarning

__all__ = ["Cell", "plan_cells", "run_cell", "run_cells", "worker_pool"]

TTFT_QUANTILES = 400


@dataclass(frozen=True)
class Cell:
    """The unit of work, identified by policy, scenario hash, seed and engine. ``drawn``: keep the timeline."""

    policy: str
    scenario: Scenario
    seed: int
    engine: str
    drawn: bool = False


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


def run_cell(cell: Cell) -> CellResult:
    """Simulate one cell and keep what the tables and the report need. Errors say which cell it was."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        result = _simulated(cell)
    for other in caught:
        if not issubclass(other.category, (ActionWarning, TraceWarning)):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    notes = [str(one.message) for one in caught if issubclass(one.category, ActionWarning)]
    ttft_s = result.requests["ttft_s"]
    ttft_s = ttft_s[np.isfinite(ttft_s)]
    points = min(len(ttft_s), TTFT_QUANTILES)
    quantiles = np.quantile(ttft_s, (np.arange(points) + 0.5) / points) if points else np.empty(0)
    kept = {"timeline": result.timeline} if cell.drawn else {}
    return CellResult(row(cell.policy, cell.scenario.name, cell.seed, result.summary), quantiles, notes=notes, **kept)


def _simulated(cell: Cell) -> RunResult:
    try:
        return simulate(cell.scenario, cell.policy, cell.seed, cell.engine)
    except ConfigError as error:
        raise ConfigError(f"{cell.policy} on {cell.scenario.name}, seed {cell.seed}: {error}") from None
    except Exception as error:
        error.add_note(f"in policy {cell.policy} on scenario {cell.scenario.name}, seed {cell.seed}")
        raise


def run_cells(cells: Sequence[Cell], workers: int = 1) -> Iterator[CellResult]:
    """Results as they come. Closing the iterator, an error or Ctrl-C ends the workers at once."""
    if workers == 1 or len(cells) < 2:
        yield from map(run_cell, cells)
        return
    with worker_pool(min(workers, len(cells))) as pool:
        futures = [pool.submit(run_cell, cell) for cell in cells]
        for future in as_completed(futures):
            yield future.result()


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Spawned processes that run episodes. An error inside the block, or Ctrl-C, ends them at once."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_follow_parent)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """A worker leaves Ctrl-C to its parent, who decides what to keep, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
