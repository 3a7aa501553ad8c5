"""What an engine is: the one interface that the environment, the evaluation and the tests use.

Two engines implement it: the readable SimPy reference (``simulator/reference``) and the compiled one. Neither knows
Gymnasium, policies or reward.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from prfaas_env.config import ConfigError, nearest
from prfaas_env.deployment import Deployment
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.workload.stream import RequestStream

__all__ = ["ENGINES", "Engine", "check_engine_name", "make_engine"]

ENGINES = ("compiled", "reference")


class Engine(Protocol):
    """One run of one deployment on one request stream."""

    @property
    def now_s(self) -> float:
        """Simulated time in seconds."""

    def apply(self, control: Control) -> None:
        """Put a control in force, now. A target N_p outside the deployment's bounds is clipped to them."""

    def advance(self, until_s: float) -> None:
        """Run to ``until_s``: its completions, capacity changes and faults included, its arrivals not yet."""

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Signals (in the order of ``SIGNALS``) and length-bin counts since the last call; both are fresh arrays."""

    def drain(self) -> None:
        """Run, under the control in force, until every request that is in the stream has left the system."""

    def log(self) -> np.ndarray:
        """The request log (``REQUEST_DTYPE``): one row a request of the stream that has arrived by now."""


def check_engine_name(name: str) -> None:
    """:class:`ConfigError` with the nearest valid name unless an engine is called so; loads none."""
    if name not in ENGINES:
        raise ConfigError(f"unknown engine {name!r}{nearest(name, ENGINES)}")


def make_engine(
    name: str,
    deployment: Deployment,
    stream: RequestStream,
    capacity: CapacityTimeline | None = None,
    faults: FaultTimeline | None = None,
    objectives: Objectives | None = None,
    control: Control | None = None,
    patience_s: float = 30.0,
) -> Engine:
    """An engine by name (one of ``ENGINES``), at time 0 with ``control`` in force.

    ``capacity`` defaults to the link's nominal capacity, ``control`` to the deployment's own threshold and N_p.
    ``patience_s`` bounds a request's part in the signal ``waiting_young_integral_s``.
    """
    check_engine_name(name)
    if name == "reference":
        from prfaas_env.simulator.reference.engine import ReferenceEngine

        return ReferenceEngine(deployment, stream, capacity, faults, objectives, control, patience_s)
    from prfaas_env.simulator.compiled.engine import CompiledEngine

    return CompiledEngine(deployment, stream, capacity, faults, objectives, control, patience_s)
