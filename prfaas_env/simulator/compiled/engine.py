"""The Python face of the compiled engine."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from prfaas_env.deployment import Deployment
from prfaas_env.simulator.checks import check_run
from prfaas_env.simulator.compiled import loop
from prfaas_env.simulator.compiled.state import SIM, STATE_FIELDS, Sim, allocate, grown
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.log import empty_log
from prfaas_env.workload.stream import RequestStream

__all__ = ["CompiledEngine", "Snapshot"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of one run at one moment: a copy of its arrays, in the order of ``STATE_FIELDS``."""

    run: object  # the run that it belongs to: another run's arrays have other lengths
    arrays: tuple[np.ndarray, ...]


# By ctypes, which lets go of the interpreter's lock while the kernel runs.
_OPERATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 4, *[ctypes.c_double] * 2)(
    loop.operate.address
)


class CompiledEngine:
    """Implements :class:`prfaas_env.simulator.engine.Engine`; arguments as in ``make_engine``.

    ``keep_log=False`` runs without a request log: memory is then that of the stream and of what is in the system.
    """

    def __init__(
        self,
        deployment: Deployment,
        stream: RequestStream,
        capacity: CapacityTimeline | None = None,
        faults: FaultTimeline | None = None,
        objectives: Objectives | None = None,
        control: Control | None = None,
        patience_s: float = 30.0,
        keep_log: bool = True,
    ) -> None:
        if capacity is None:
            capacity = CapacityTimeline.constant(deployment.link.capacity_gbps if deployment.link else 0.0)
        faults, objectives = faults or FaultTimeline.none(), objectives or Objectives()
        check_run(deployment, stream, faults, objectives, patience_s)
        self.deployment = deployment
        self.stream = stream
        self.sim: Sim = allocate(deployment, stream, capacity, faults, objectives, patience_s, keep_log)
        self.sim.scalars[0]["capacity_next"] = 1
        self.table = SIM.table(self.sim)
        self._run = object()
        self.apply(control or Control(deployment.local.prefill, deployment.threshold_tokens))

    def __getstate__(self) -> dict[str, Any]:
        """Addresses do not travel: a copy makes its own table, of its own arrays."""
        return {name: value for name, value in self.__dict__.items() if name not in ("table", "_run")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.table = SIM.table(self.sim)
        self._run = object()

    @property
    def now_s(self) -> float:
        return float(self.sim.scalars[0]["now"])

    def apply(self, control: Control) -> None:
        """Put a control in force, now."""
        self._operate(
            loop.APPLY,
            control.n_prefill,
            int(control.law == "price"),
            int(control.cache_rule == "abundant"),
            control.threshold_tokens,
            control.price_s,
        )

    def _operate(self, operation: int, i: int = 0, j: int = 0, k: int = 0, x: float = 0.0, y: float = 0.0) -> int:
        """The kernel's ``operate``, the ring grown whenever it is full."""
        while (status := _OPERATE(self.table.ctypes.data, operation, i, j, k, x, y)) == loop.RING_FULL:
            self.grow()
        return status

    def advance(self, until_s: float) -> None:
        """Run to ``until_s``: its completions, capacity changes and faults included, its arrivals not yet."""
        if not until_s >= self.now_s:
            raise ValueError(f"cannot advance to {until_s} s: it is {self.now_s} s")
        self._operate(loop.ADVANCE, x=until_s)

    def drain(self) -> None:
        """Run until every request of the stream has left (or nothing can move any more)."""
        self._operate(loop.DRAIN)

    def grow(self) -> None:
        """Make room for more requests at a time."""
        self.sim = grown(self.sim)
        self.table = SIM.table(self.sim)

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Signals and length-bin counts since the last call."""
        self._operate(loop.MEASURE)
        return self.sim.signals.copy(), self.sim.counts.copy()

    def log(self) -> np.ndarray:
        """The request log: one row a request that has arrived by now. Raises ``ValueError`` if none is kept."""
        n = int(self.sim.scalars[0]["arrived_next"])
        if len(self.sim.log) < n:
            raise ValueError("this engine was made with keep_log=False")
        self._operate(loop.LOG)
        log, stream, kept = empty_log(n), self.stream, self.sim.log[:n]
        for name in ("arrival_s", "input_tokens", "output_tokens", "service_class", "session_id"):
            log[name] = getattr(stream, name)[:n]
        for name in kept.dtype.names or ():
            log[name] = kept[name]
        steps = np.maximum(log["output_tokens"] - 1, 1)
        log["tpot_s"] = (log["finish_s"] - log["first_token_s"]) / steps
        return log

    # --- snapshots ------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """A copy of the state, the log not included."""
        return Snapshot(self._run, tuple(getattr(self.sim, name).copy() for name in STATE_FIELDS))

    def restore(self, snapshot: Snapshot) -> None:
        """Back to a snapshot of this engine; it may be restored any number of times.

        Raises ``ValueError`` if the snapshot is of another run.
        """
        if snapshot.run is not self._run:
            raise ValueError("the snapshot is of another run")
        present = {name: getattr(self.sim, name) for name in STATE_FIELDS}
        changed = {}
        for (name, array), saved in zip(present.items(), snapshot.arrays, strict=True):
            if array.shape == saved.shape:
                array[...] = saved
            else:
                changed[name] = saved.copy()
        if changed:
            self.sim = self.sim._replace(**changed)
            self.table = SIM.table(self.sim)
