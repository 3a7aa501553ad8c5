"""The drawn episodes of an evaluation, to browse in the report: any policy beside any other."""

from __future__ import annotations

from prfaas_env.evaluation.results import CellResult, Evaluation
from prfaas_env.evaluation.slowest import slowest_bars, slowest_items
from prfaas_env.evaluation.standings import Standings
from prfaas_env.evaluation.timelines import QUANTITIES, RESOLUTIONS, limits, minutes, panel, values
from prfaas_env.pages.explorer import Episode, Explorer
from prfaas_env.scenario import Scenario

__all__ = ["explorer"]


def explorer(evaluation: Evaluation, board: Standings) -> Explorer | None:
    """Every episode of which timelines were kept; ``None`` without any. It opens with the leader and the baseline."""
    episodes = [
        _episode(scenario, seed, cells)
        for scenario in evaluation.scenarios
        for seed in evaluation.seeds
        if (cells := _drawn(evaluation, scenario.name, seed))
    ]
    if not episodes:
        return None
    leader, *others = [standing.policy for standing in board.contenders() or board.ranked]
    second = board.baseline if leader != board.baseline else next(iter(others), leader)
    return Explorer([panel(quantity) for quantity in QUANTITIES], slowest_bars(), episodes, leader, second)


def _drawn(evaluation: Evaluation, scenario: str, seed: int) -> list[CellResult]:
    return [c for c in evaluation.cells if (c.row["scenario"], c.row["seed"]) == (scenario, seed) and len(c.timeline)]


def _episode(scenario: Scenario, seed: int, cells: list[CellResult]) -> Episode:
    return Episode(
        name=f"{scenario.name}, seed {seed}",
        tags={"family": scenario.family, "scenario": scenario.name},
        xs=[minutes(cells[0].timeline, points) for points in RESOLUTIONS],
        lines={cell.row["policy"]: [values(quantity, cell.timeline) for quantity in QUANTITIES] for cell in cells},
        limits=limits(cells[0].timeline),
        bars={cell.row["policy"]: slowest_items(cell.slowest) for cell in cells},
    )
