"""What the policies that plan have in common: they read the run itself, and set the knobs without an action form.

They are references, not contenders: the snapshot that they plan on holds more than an operator can measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prfaas_env.config import ConfigError, Record
from prfaas_env.environment.core import ControlLoop
from prfaas_env.profiles import Positive
from prfaas_env.scenario import Scenario
from prfaas_env.simulator.control import Control

__all__ = ["PlanningParameters", "PlanningPolicy", "in_steps"]


@dataclass(frozen=True)
class PlanningParameters(Record):
    """``stretches_s``: for how long the search changes the knobs at a time, one pass a stretch, from coarse to fine."""

    stretches_s: tuple[Positive, ...]

    def check(self) -> None:
        if not self.stretches_s:
            raise ConfigError("stretches_s: expected at least one stretch")


class PlanningPolicy:
    """A policy that is asked for the knobs themselves, with the control loop in view."""

    Parameters: ClassVar[type]

    def __init__(self, scenario: Scenario, parameters: Any = None) -> None:
        self.scenario = scenario
        self.parameters = self.Parameters() if parameters is None else parameters

    def control(self, loop: ControlLoop) -> Control:
        """The knobs of the next control interval of the loop's episode."""
        raise NotImplementedError


def in_steps(spans_s: Sequence[float], control_step_s: float) -> list[int]:
    """Spans of time in control steps, at least one each."""
    return [max(1, round(span_s / control_step_s)) for span_s in spans_s]
