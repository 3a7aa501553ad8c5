"""A batch of control loops stepped in compiled code, without Gymnasium: what vector environments are made of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn

import numpy as np

from prfaas_env.environment import kernel
from prfaas_env.environment.cache_rule import CACHE_RULES
from prfaas_env.environment.core import ControlLoop
from prfaas_env.environment.kernel import DESK, DESK_SCALARS, FORM, GROW, Desk
from prfaas_env.environment.observation import COMPONENTS
from prfaas_env.environment.recent import empty_recent
from prfaas_env.environment.reward import TERMS
from prfaas_env.scenario import Draw, Scenario
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.compiled.state import SIM
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.signals import LENGTH_BIN_CENTRES_TOKENS, SIGNALS
from prfaas_env.theory.online import OnlineClosedForm

__all__ = ["Batch"]


class Shared(NamedTuple):
    """What is read of all copies at every step, one row a copy; a copy's desk works on its row."""

    scalars: np.ndarray  # (n,) DESK_SCALARS
    signals: np.ndarray  # (n, signals)
    counts: np.ndarray  # (n, bins) int64
    terms: np.ndarray  # (n, terms)


def _desk(loop: ControlLoop, closed_form: OnlineClosedForm, shared: Shared, row: int) -> Desk:
    """The desk of one copy, as far as its scenario settles it."""
    scenario, deployment = loop.scenario, loop.scenario.deployment
    d = shared.scalars[row]
    d["form"] = FORM[loop.actions.name]
    d["prefill_low"], d["prefill_high"] = loop.actions.prefill_low, loop.actions.prefill_high
    d["control_step_s"], d["horizon_s"] = scenario.control_step_s, scenario.horizon_s
    d["window_s"] = loop.window_s
    d["n_local"] = deployment.local.instances
    d["n_remote"] = deployment.remote.instances if deployment.remote else 0.0
    d["cache_rule"] = CACHE_RULES.index(loop.cache_rule)
    d["pipelined"] = deployment.layerwise_pipelining
    d["decode_tokens_per_s"] = closed_form.decode_tokens_per_s
    return Desk(
        scalars=shared.scalars[row : row + 1],
        signals=shared.signals[row],
        counts=shared.counts[row],
        recent=empty_recent(),
        window=closed_form.ring,
        total=closed_form.total,
        tables=closed_form.tables,
        splits=closed_form.splits,
        constants=loop.constants,
        factors=loop.factors,
        weights=loop.weights,
        terms=shared.terms[row],
    )


class Batch:
    """Copies of the control loop, copy i that of ``loops[i]``, on the compiled engine.

    ``threads``: how many step at a time (default: one a core); the result does not depend on it. While the copies run,
    the next episode of each is drawn in the background from the copy's own generator. With ``keep_log`` the engines
    remember every request.
    """

    def __init__(self, loops: Sequence[ControlLoop], threads: int | None = None, keep_log: bool = False) -> None:
        n = len(loops)
        self._keep_log = keep_log
        self.loops = list(loops)
        self.observations = np.zeros((n, len(COMPONENTS)), dtype=np.float32)
        self._closed_forms = [
            OnlineClosedForm(x.scenario.deployment, x.scenario.nominal, x.window_s, x.scenario.control_step_s)
            for x in loops
        ]
        self.shared = Shared(
            np.zeros(n, DESK_SCALARS),
            np.zeros((n, len(SIGNALS))),
            np.zeros((n, len(LENGTH_BIN_CENTRES_TOKENS)), dtype=np.int64),
            np.zeros((n, len(TERMS))),
        )
        self.desks = [_desk(loops[i], self._closed_forms[i], self.shared, i) for i in range(n)]
        self._desk_tables = np.vstack([DESK.table(desk) for desk in self.desks])
        self._sim_tables = np.zeros((n, 0), dtype=np.int64)
        self.engines: list[CompiledEngine | None] = [None] * n
        self._status = np.zeros(n, dtype=np.int64)
        self._chosen = np.zeros((n, 2))
        self._generators: list[np.random.Generator | None] = [None] * n
        self._next_draws: list[Future[Draw] | None] = [None] * n
        self._latest: dict[int, tuple[Any, int, Draw]] = {}
        self.threads = max(1, min(threads or os.cpu_count() or 1, n))
        self._workers: ThreadPoolExecutor | None = None
        self._drawer: ThreadPoolExecutor | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a batch holds addresses and threads and cannot be copied: make another")

    def __len__(self) -> int:
        return len(self.loops)

    # --- episodes -------------------------------------------------------------------------------------------------

    def seed(self, row: int, generator: np.random.Generator) -> None:
        """Where copy ``row`` draws its episodes from, from now on."""
        pending = self._next_draws[row]
        if pending is not None and not pending.cancel():
            pending.result()  # it holds the old generator; let go of it before anyone else does
        self._next_draws[row] = None
        self._generators[row] = generator

    def reset(self, row: int) -> None:
        """Begin the next episode of copy ``row``; its first observation stands in ``observations[row]``."""
        generator = self._generators[row]
        if generator is None:
            raise RuntimeError("no generator: call seed first")
        scenario, pending = self.loops[row].scenario, self._next_draws[row]
        self.begin(row, pending.result() if pending is not None else self._drawn(scenario, generator))
        if self._drawer is None:
            self._drawer = ThreadPoolExecutor(1, thread_name_prefix="prfaas-draw")
        self._next_draws[row] = self._drawer.submit(self._drawn, scenario, generator)

    def begin(self, row: int, draw: Draw) -> None:
        """Begin a given episode in copy ``row``."""
        loop, desk, closed_form = self.loops[row], self.desks[row], self._closed_forms[row]
        scenario, deployment = loop.scenario, loop.scenario.deployment
        engine = CompiledEngine(
            deployment,
            draw.stream,
            capacity=draw.capacity,
            faults=draw.faults,
            objectives=scenario.objectives,
            control=Control(deployment.local.prefill, deployment.threshold_tokens),
            patience_s=loop.patience_s,
            keep_log=self._keep_log,
        )
        self._seat(row, engine)
        closed_form.reset()
        desk.recent[:] = 0.0
        desk.terms[:] = 0.0
        d = desk.scalars[0]
        for name in ("steps", "running", "window_at", "ttft_mean_s", "reward", "ended", "price_s"):
            d[name] = 0
        d["horizon_s"] = scenario.horizon_s
        d["threshold_tokens"] = deployment.threshold_tokens
        d["day_s"], d["start_hour"] = draw.clock.day_s, draw.clock.start_h or 0.0
        kernel.observe_now(kernel.OPERATE, self._sim_tables, self._desk_tables, row, self.observations)

    def _drawn(self, scenario: Scenario, generator: np.random.Generator) -> Draw:
        """The next episode from a generator, which is only spawned from; of alike generators in turn, the same one."""
        seeds = generator.bit_generator.seed_seq
        assert isinstance(seeds, np.random.SeedSequence)
        begun = (seeds.entropy, seeds.spawn_key, seeds.n_children_spawned)
        known = self._latest.get(id(scenario))
        if known is not None and known[0] == begun:
            seeds.spawn(known[1])
            return known[2]
        draw = scenario.draw(generator)
        self._latest[id(scenario)] = begun, seeds.n_children_spawned - begun[2], draw
        return draw

    def _seat(self, row: int, engine: CompiledEngine) -> None:
        # The engine measures into the batch's arrays.
        engine.sim = engine.sim._replace(signals=self.shared.signals[row], counts=self.shared.counts[row])
        self.engines[row] = engine
        table = SIM.table(engine.sim)
        if self._sim_tables.shape[1] == 0:
            self._sim_tables = np.zeros((len(self.loops), table.shape[1]), dtype=np.int64)
        self._sim_tables[row] = table[0]

    # --- steps ----------------------------------------------------------------------------------------------------

    def step(self, actions: np.ndarray, rows: np.ndarray) -> None:
        """One control interval of the copies ``rows`` under ``actions[rows]``; what came of it stands in ``shared``
        and ``observations``.

        Raises ``ValueError`` if an action is not two finite numbers, ``RuntimeError`` if a copy was never reset.
        """
        if actions.shape != self._chosen.shape or not np.isfinite(actions[rows]).all():
            raise ValueError(f"actions: expected finite numbers of shape {self._chosen.shape}, got {actions!r}")
        if any(self.engines[row] is None for row in rows.tolist()):
            raise RuntimeError("no episode: call reset first")
        self._chosen[:] = actions
        left = np.asarray(rows, dtype=np.int64)
        while len(left):
            self._run(left)
            left = left[self._status[left] == GROW]
            for row in left.tolist():
                engine = self.engines[row]
                assert engine is not None
                engine.grow()
                self._seat(row, engine)

    def _run(self, rows: np.ndarray) -> None:
        arguments = (self._chosen, self.observations, self._status)
        parts = min(self.threads, len(rows))
        if parts == 1:
            kernel.step_rows(kernel.OPERATE, self._sim_tables, self._desk_tables, rows, *arguments)
            return
        if self._workers is None:
            self._workers = ThreadPoolExecutor(self.threads, thread_name_prefix="prfaas-step")
        done = [
            self._workers.submit(
                kernel.step_rows,
                kernel.OPERATE,
                self._sim_tables,
                self._desk_tables,
                np.ascontiguousarray(rows[k::parts]),
                *arguments,
            )
            for k in range(parts)
        ]
        for part in done:
            part.result()

    def close(self) -> None:
        """Stop the threads."""
        for executor in (self._workers, self._drawer):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)
        self._workers = self._drawer = None
