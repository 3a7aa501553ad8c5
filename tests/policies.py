"""What a policy does: in a whole episode, and on observations made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.observation import COMPONENTS, HISTOGRAM_FACTS, coarse_shares, encode
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.control import Control
from prfaas_env.theory.online import OnlineClosedForm, bin_shares

__all__ = ["controls_under", "encode_named", "paper_load", "run"]


def run(scenario: Scenario, policy: Any, seed: int = 0) -> tuple[ControlLoop, list[Control]]:
    """An episode under a policy: the loop at its end and the control of every interval."""
    loop = ControlLoop(scenario, policy.action_mode, cache_rule="scarce")
    observation, state, start, controls, ended = loop.reset(seed), None, True, [], False
    while not ended:
        action, state = policy.predict(observation, state, np.array([start]))
        interval = loop.step(action)
        controls.append(interval.control)
        observation, start, ended = interval.observation, False, interval.ended
    return loop, controls


def controls_under(
    policy: Any, *spells: tuple[int, dict[str, float]], advised: tuple[float, int] = (1e4, 3)
) -> list[Control]:
    """What a policy sets while each spell of (steps, components) lasts."""
    controls, state = [], None
    for steps, components in spells:
        for _ in range(steps):
            action, state = policy.predict(encode_named(components), state)
            controls.append(policy.actions.decode(action, *advised, components.get("filling_threshold", 0.0)))
    return controls


def encode_named(components: dict[str, float]) -> np.ndarray:
    """An observation from some of its components; the others are 0."""
    return encode(np.array([components.get(c.name, 0.0) for c in COMPONENTS]))


def paper_load(scenario: Scenario, arrivals: float, **others: float) -> dict[str, float]:
    """The paper's lengths at some rate, as an observation shows them."""
    shares = coarse_shares(bin_shares(scenario.nominal.lengths))
    closed_form = OnlineClosedForm(scenario.deployment, scenario.nominal, 300.0, 10.0)
    seen = {
        "arrivals": arrivals,
        "load": arrivals / 3.228,
        "output_mean": 1024.0,
        "link_capacity_gbps": 100.0,
        "prefill_nodes": 3.0,
        "target_prefill_nodes": 3.0,
        "advised_prefill": 3.0,
        "filling_threshold": closed_form.filling(3.0, arrivals, others.get("local_expected_wait_s", 0.0)),
    }
    return seen | dict(zip(HISTOGRAM_FACTS, shares, strict=True)) | others
