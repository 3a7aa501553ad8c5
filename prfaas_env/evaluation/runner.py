"""Runs cells: one policy, one scenario, one seed each, in this process or in a pool of spawned ones.

A cell depends on nothing but itself, so results do not depend on the number of workers or on their order, and every
policy meets the same requests at the same seed (common random numbers).
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.results import CellResult, row
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.scenario import Scenario

__all__ = ["Cell", "plan_cells", "run_cell", "run_cells"]

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
    try:
        result = simulate(cell.scenario, cell.policy, cell.seed, cell.engine)
    except ConfigError as error:
        raise ConfigError(f"{cell.policy} on {cell.scenario.name}, seed {cell.seed}: {error}") from None
    except Exception as error:
        error.add_note(f"in policy {cell.policy} on scenario {cell.scenario.name}, seed {cell.seed}")
        raise
    ttft_s = result.requests["ttft_s"]
    ttft_s = ttft_s[np.isfinite(ttft_s)]
    points = min(len(ttft_s), TTFT_QUANTILES)
    quantiles = np.quantile(ttft_s, (np.arange(points) + 0.5) / points) if points else np.empty(0)
    kept = {"timeline": result.timeline} if cell.drawn else {}
    return CellResult(row(cell.policy, cell.scenario.name, cell.seed, result.summary), quantiles, **kept)


def run_cells(cells: Sequence[Cell], workers: int = 1) -> Iterator[CellResult]:
    """Results as they come. Closing the iterator, an error or Ctrl-C ends the workers at once."""
    if workers == 1 or len(cells) < 2:
        yield from map(run_cell, cells)
        return
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(cells)), context, initializer=_leave_interrupts_to_parent)
    try:
        futures = [pool.submit(run_cell, cell) for cell in cells]
        for future in as_completed(futures):
            yield future.result()
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_parent() -> None:
    """Ctrl-C reaches the whole process group; the parent alone decides what to keep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
