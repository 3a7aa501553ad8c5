"""Control intervals a second, scalar and vector; how much of the raw engine's speed the vector environment keeps."""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

import gymnasium
import numba
import numpy as np
from gymnasium.utils import seeding

from benchmarks.timing import interleaved, seconds
from prfaas_env.environment.actions import action_form
from prfaas_env.environment.registration import ENVIRONMENT_ID
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.scenario import Draw, Scenario, load_scenario
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.compiled.handle import call, pointer_at
from prfaas_env.simulator.compiled.loop import ADVANCE, RING_FULL, operate
from prfaas_env.simulator.control import Control

__all__ = ["measure_share_of_engine", "measure_steps"]

SCENARIO = "paper-stationary-80"
COPIES = (1, 16, 64, 256)
SHARE_COPIES = 64


def measure_steps(quick: bool) -> dict[str, Any]:
    """Steps a second under the zero action, resets and episode draws included, one thread and two."""
    horizon_s, least = (200.0, 200) if quick else (3600.0, 20_000)
    scalar = gymnasium.make(ENVIRONMENT_ID, scenario=SCENARIO, horizon_s=horizon_s)
    scalar.reset(seed=0)

    def scalar_rate(steps: int = 50 if quick else 1500) -> float:
        def play() -> None:
            for _ in range(steps):
                if scalar.step(np.zeros(2, np.float32))[3]:
                    scalar.reset()

        return steps / seconds(play)

    subjects = {"scalar": scalar_rate}
    for threads in (1, 2):
        for n in COPIES[:2] if quick else COPIES:
            if threads > n:
                continue
            env = PrfaaSVectorEnv(n, SCENARIO, horizon_s=horizon_s, threads=threads)
            env.reset(seed=0)

            def vector_rate(env: PrfaaSVectorEnv = env, n: int = n) -> float:
                actions, rounds = np.zeros((n, 2)), max(1, least // n)
                return n * rounds / seconds(lambda: [env.step(actions) for _ in range(rounds)])

            subjects[f"vector {n} × {threads} thread{'s' if threads > 1 else ''}"] = vector_rate
    return interleaved(subjects, 1 if quick else 5)


@numba.njit(nogil=True)
def _advance_rows(engine: int, tables: np.ndarray, rows: np.ndarray, until_s: float, status: np.ndarray) -> None:
    for k in range(len(rows)):
        status[rows[k]] = call(engine, pointer_at(tables, rows[k]), ADVANCE, 0, 0, 0, until_s, 0.0)


def _raw(scenario: Scenario, draws: list[Draw], control: Control) -> float:
    """Seconds in which the compiled engine advances the episodes by control steps: nothing is measured or observed."""
    engines = [
        CompiledEngine(
            scenario.deployment, d.stream, d.capacity, d.faults, scenario.objectives, control, 30.0, keep_log=False
        )
        for d in draws
    ]
    tables = np.vstack([engine.table for engine in engines])
    status = np.zeros(len(engines), dtype=np.int64)
    every = np.arange(len(engines))
    steps = round(scenario.horizon_s / scenario.control_step_s)

    def play() -> None:
        for k in range(steps):
            rows = every
            while len(rows):
                _advance_rows(operate.address, tables, rows, (k + 1) * scenario.control_step_s, status)
                rows = rows[status[rows] == RING_FULL]
                for row in rows.tolist():
                    engines[row].grow()
                    tables[row] = engines[row].table[0]

    return seconds(play)


def measure_share_of_engine(quick: bool) -> dict[str, Any]:
    """One thread, ``SHARE_COPIES`` copies, one episode each under the deployment's own control, drawn beforehand.

    The vector environment takes an action, advances, measures, solves the closed form, observes and rewards; the raw
    engine advances the very same episodes by the same control steps in a compiled loop, and does nothing else. Episode
    draws are timed apart: the environment draws the next episode in the background while the present one runs.
    """
    n = 8 if quick else SHARE_COPIES
    scenario = load_scenario(SCENARIO).with_overrides(horizon_s=200.0 if quick else 3600.0)
    deployment = scenario.deployment
    control = Control(deployment.local.prefill, deployment.threshold_tokens)
    action = action_form("absolute", deployment).encode(control, deployment.threshold_tokens, deployment.local.prefill)
    actions = np.tile(action, (n, 1))
    draws = [scenario.draw(seeding.np_random(seed)[0]) for seed in range(n)]
    requests = sum(len(draw.stream) for draw in draws)
    steps = round(scenario.horizon_s / scenario.control_step_s)
    env = PrfaaSVectorEnv(n, scenario, action="absolute", threads=1)

    def vector_rate() -> float:
        env.reset(seed=0)
        wait(draw for draw in env.batch._next_draws if draw)  # what runs in the background is timed apart
        return requests / seconds(lambda: [env.step(actions) for _ in range(steps)])

    def drawn() -> float:
        return requests / seconds(lambda: [scenario.draw(seed) for seed in range(n)])

    _raw(scenario, draws[:1], control)  # compiles
    rates = interleaved(
        {"raw": lambda: requests / _raw(scenario, draws, control), "vector": vector_rate, "draws": drawn},
        1 if quick else 7,
    )
    assert int(env.batch.engines[0].sim.scalars[0]["arrived_next"]) == len(draws[0].stream)  # the same episodes
    return {
        "copies": n,
        "requests": requests,
        "raw_rps": rates["raw"],
        "vector_rps": rates["vector"],
        "share": rates["vector"] / rates["raw"],
        "draws_rps": rates["draws"],
        "draw_ms_per_episode": 1e3 * requests / n / rates["draws"],
    }
