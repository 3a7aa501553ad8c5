"""Many seeds of one scenario at once, in the compiled batch: what validation during a training run needs often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prfaas_env.environment.batch import Batch
from prfaas_env.environment.core import ControlLoop
from prfaas_env.scenario import Draw, Scenario
from prfaas_env.simulator.result import as_timeline
from prfaas_env.simulator.summary import summarise

__all__ = ["play_together", "summaries_together"]


def play_together(
    scenario: Scenario, policy: Any, draws: Sequence[Draw], keep_log: bool = False
) -> tuple[Batch, np.ndarray]:
    """The batch at the horizon, and its signals, float64 (draws, steps, signals), in the order of ``SIGNALS``.

    ``policy``: an object with ``predict`` for a batch of observations, (n, k) → (n, 2), and an ``action_mode``.
    Raises ``ValueError`` on an action that is not two finite numbers.
    """
    loop = ControlLoop(scenario, action=getattr(policy, "action_mode", "absolute"), engine="compiled")
    batch, rows = Batch([loop] * len(draws), keep_log=keep_log), np.arange(len(draws))
    for row, draw in enumerate(draws):
        batch.begin(row, draw)
    timelines: list[np.ndarray] = []
    state, start = None, np.ones(len(draws), dtype=bool)
    while not batch.shared.scalars["ended"].all():
        actions, state = policy.predict(batch.observations, state=state, episode_start=start, deterministic=True)
        batch.step(np.asarray(actions), rows)
        timelines.append(batch.shared.signals.copy())
        start = np.zeros(len(draws), dtype=bool)
    batch.close()
    return batch, np.stack(timelines, axis=1)


def summaries_together(scenario: Scenario, policy: Any, draws: Sequence[Draw]) -> list[dict[str, float]]:
    """The summaries that :func:`~prfaas_env.evaluation.simulate.simulate` gives of these episodes, drained as there.

    ``policy`` and what is raised: as for :func:`play_together`.
    """
    batch, steps = play_together(scenario, policy, draws, keep_log=True)
    found = []
    for row, engine in enumerate(batch.engines):
        assert engine is not None
        engine.drain()
        timeline = as_timeline(steps[row])
        found.append(summarise(engine.log(), timeline, scenario.deployment, scenario.objectives, scenario.horizon_s))
    return found
