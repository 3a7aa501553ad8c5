"""Requests a second of both engines, beside a plain SimPy pipeline, on three scenarios; the cost of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pipeline import run_pipeline
from benchmarks.timing import interleaved, seconds
from prfaas_env.config import to_mapping
from prfaas_env.scenario import Draw, Scenario, load_scenario
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import Engine
from prfaas_env.simulator.reference.engine import ReferenceEngine

__all__ = ["MODELS", "SCENARIOS", "measure_engines", "measure_snapshots"]

SCENARIOS = {"paper": "paper-stationary-80", "mooncake-like": "mooncake-like", "drift-mix": "drift-mix"}

_CACHES_OFF = {"local": {"cache": {"capacity_gib": 0}}, "remote": {"cache": {"capacity_gib": 0}}}
_CACHES_ON = {"local": {"cache": {"capacity_gib": 2048}}, "remote": {"cache": {"capacity_gib": 1024}}}
_FULL = {
    "deployment": _CACHES_ON,
    "link": {"background": {"mean_share": 0.2, "daily_amplitude": 0.1, "wander": {"sd": 0.05, "time_constant_h": 0.5}}},
    "faults": {
        "remote": {"mean_time_between_failures_s": 7200, "mean_repair_s": 300},
        "local": {"mean_time_between_failures_s": 14_400, "mean_repair_s": 300},
    },
}
_MESSAGES = {"kind": "truncated-log-normal", "mu": 6.0, "sigma": 1.0, "low_tokens": 1, "high_tokens": 131_072}

# What is on. `full`: prefix caches with the abundant rule, instances that fail, background traffic on the line and
# two service classes. `conversations`: the same, and the scenario's prompts open conversations that grow.
MODELS: dict[str, Mapping[str, Any]] = {
    "small": {"deployment": _CACHES_OFF},
    "full": _FULL,
    "conversations": {**_FULL, "workload": {"sessions": {"message_tokens": _MESSAGES}}},
}


class Subject(NamedTuple):
    """A run to be timed."""

    scenario: Scenario
    draw: Draw
    control: Control


def subject(name: str, model: str, horizon_s: float) -> Subject:
    """One of ``SCENARIOS`` under one of ``MODELS``."""
    base = load_scenario(SCENARIOS[name]).with_overrides(horizon_s=horizon_s)
    scenario = base.with_overrides({**MODELS[model], "nominal": to_mapping(base.nominal)})
    draw = scenario.draw(0)
    deployment = scenario.deployment
    control = Control(deployment.local.prefill, deployment.threshold_tokens)
    if model != "small":
        stream = replace(draw.stream, service_class=np.arange(len(draw.stream)) % 2)
        draw = replace(draw, stream=stream)
        scenario = replace(scenario, objectives=Objectives((3.0, 20.0), (0.03, 0.05)))
        control = replace(control, cache_rule="abundant")
    return Subject(scenario, draw, control)


def pairs() -> list[tuple[str, str]]:
    """Scenario and model of every run; mooncake-like has conversations of its own."""
    return [
        (name, model) for name in SCENARIOS for model in MODELS if (name, model) != ("mooncake-like", "conversations")
    ]


def start(kind: type[CompiledEngine] | type[ReferenceEngine], run: Subject) -> Engine:
    scenario, draw = run.scenario, run.draw
    return kind(scenario.deployment, draw.stream, draw.capacity, draw.faults, scenario.objectives, run.control)


def measure_engines(quick: bool) -> list[dict[str, Any]]:
    """Whole runs on one core, from an engine's construction until the last request has left; the stream stands."""
    rows = []
    for name, model in pairs():
        run = subject(name, model, 300.0 if quick else 3600.0)
        n = len(run.draw.stream)

        def whole(kind: Any, times: int, run: Subject = run, n: int = n) -> float:
            return n * times / seconds(lambda: [start(kind, run).drain() for _ in range(times)])

        def plain(run: Subject = run, n: int = n) -> float:
            return n / seconds(lambda: run_pipeline(run.scenario.deployment, run.draw.stream))

        rates = interleaved(
            {
                "reference": lambda whole=whole: whole(ReferenceEngine, 1),
                "compiled": lambda whole=whole: whole(CompiledEngine, 2 if quick else 20),
                "plain_simpy": plain,
            },
            1 if quick else 5,
        )
        rows.append(
            {
                "scenario": name,
                "model": model,
                "requests": n,
                **{f"{kind}_rps": rate for kind, rate in rates.items()},
                "compiled_over_reference": rates["compiled"] / rates["reference"],
            }
        )
    return rows


def measure_snapshots(quick: bool) -> list[dict[str, Any]]:
    """In the middle of an hour: time of a snapshot and of a restore, and bytes copied."""
    rows = []
    for name, model in (("paper", "small"), ("mooncake-like", "full"), ("paper", "conversations")):
        run = subject(name, model, 300.0 if quick else 3600.0)
        engine = start(CompiledEngine, run)
        assert isinstance(engine, CompiledEngine)
        engine.advance(run.scenario.horizon_s / 2)
        saved = engine.snapshot()
        times = 10 if quick else 200

        def rate(action: Any, times: int = times) -> float:
            return times / seconds(lambda: [action() for _ in range(times)])

        rates = interleaved(
            {
                "snapshot": lambda e=engine: rate(e.snapshot),
                "restore": lambda e=engine, s=saved: rate(lambda: e.restore(s)),
            },
            1 if quick else 7,
        )
        rows.append(
            {
                "scenario": name,
                "model": model,
                "kib": sum(array.nbytes for array in saved.arrays) / 1024,
                **{f"{what}_us": 1e6 / value for what, value in rates.items()},
            }
        )
    return rows
