"""``closed-form``: the optimum of Eqs. 6–8, solved once on the scenario's nominal workload and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.config import Record
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.control import Control
from prfaas_env.theory.plan import plan

from .base import Observed, ScriptedPolicy

__all__ = ["ClosedForm"]


@dataclass(frozen=True)
class ClosedFormParameters(Record):
    """There are none."""


class ClosedForm(ScriptedPolicy):
    """What an operator sets who trusts his forecast."""

    action_mode = "absolute"
    Parameters = ClosedFormParameters

    def __init__(self, scenario: Scenario, parameters: Any = None) -> None:
        super().__init__(scenario, parameters)
        optimum = plan(self.deployment, scenario)
        self.control = Control(optimum.n_prefill or 0, optimum.threshold_tokens or 0.0)

    def decide(self, observed: Observed, memory: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return self.actions.encode(self.control, self.control.threshold_tokens, self.control.n_prefill)
