"""Every answer of the planner together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from prfaas_env.planner.advice import Advice, Verdict, advice, verdict
from prfaas_env.planner.cost import Cost, EqualCost, RemoteSize, cost_at, equal_cost, remote_sizes
from prfaas_env.planner.inputs import Question
from prfaas_env.planner.latency import LeastTtft, least_ttft
from prfaas_env.planner.loaded import LOADS, SEEDS, Loaded, Objective, check_objective, loaded, objective
from prfaas_env.planner.paper import Compared, compared
from prfaas_env.planner.sensitivity import Sensitivity, sensitivity
from prfaas_env.planner.stages import Stage, stages
from prfaas_env.planner.traffic import Traffic, traffic

__all__ = ["Report", "report"]


@dataclass(frozen=True)
class Report:
    """The answers to one question. ``None``, or nothing in a row: not asked for, or not to be told of the input."""

    asked: Question
    stages: tuple[Stage, ...]
    sensitivity: tuple[Sensitivity, ...]
    loaded: tuple[Loaded, ...]
    least_ttft: tuple[LeastTtft, ...]
    slo: Objective | None
    cost: tuple[Cost, ...]
    equal_cost: EqualCost | None
    remote_sizes: tuple[RemoteSize, ...]
    paper: tuple[Compared, ...]
    trace: Traffic | None
    advice: tuple[Advice, ...]
    verdict: Verdict
    notes: tuple[str, ...]

    def as_mapping(self) -> dict[str, Any]:
        """Plain data, as ``plan --json`` prints it after the fields of the plan."""
        records = ("stages", "sensitivity", "loaded", "least_ttft", "cost", "remote_sizes", "paper", "advice")
        single = ("slo", "equal_cost", "trace", "verdict")
        plain: dict[str, Any] = {key: [asdict(one) for one in getattr(self, key)] for key in records}
        plain |= {key: asdict(one) if (one := getattr(self, key)) is not None else None for key in single}
        return plain | {"changes": list(self.asked.changes), "notes": list(self.notes)}


def report(
    asked: Question,
    *,
    simulated: bool = True,
    seeds: int = SEEDS,
    slo_ttft_s: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Answer everything; without ``simulated`` only what the closed form can. ``progress`` is told what is going on.

    Raises :class:`ConfigError` on an objective below the TTFT of an empty system.
    """
    if slo_ttft_s is not None:
        check_objective(asked, slo_ttft_s)  # before any work
    of_trace = None
    if asked.trace is not None:
        progress("Looking for bursts and drift in the trace …")
        of_trace = traffic(asked.trace)
    progress("Solving the plan again with every input changed …")
    sensitive, costs, sizes = sensitivity(asked), equal_cost(asked), remote_sizes(asked)
    runs: list[Loaded] = []
    quickest: list[LeastTtft | None] = []
    for load in LOADS if simulated else ():
        progress(f"Simulating {load:.0%} of Λ_max, {seeds} runs …")
        runs.append(loaded(asked, load, seeds))
        quickest.append(least_ttft(asked, runs[-1]))
    met = objective(asked, slo_ttft_s, seeds, progress) if simulated and slo_ttft_s is not None else None
    bills = [cost_at(asked, load) for load in (*LOADS, *([met.at.load] if met else []))]
    judged = advice(asked, of_trace, costs)
    figures = asked.plan.as_mapping() | {"equal_cost_ratio": costs.ratio_homogeneous if costs else None}
    return Report(
        asked=asked,
        stages=stages(asked),
        sensitivity=sensitive,
        loaded=tuple(runs),
        least_ttft=tuple(one for one in quickest if one is not None),
        slo=met,
        cost=tuple(bill for bill in bills if bill is not None),
        equal_cost=costs,
        remote_sizes=sizes,
        paper=compared(asked.paper, figures),
        trace=of_trace,
        advice=judged,
        verdict=verdict(asked, judged, costs, sizes),
        notes=asked.notes(),
    )
