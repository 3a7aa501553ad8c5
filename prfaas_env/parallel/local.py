"""Spawned processes on this machine.

The standard pool does not say which item a worker died of, and is broken after it; here each worker has a pipe of its
own, so that the item is known, given to a fresh worker, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from prfaas_env.parallel.executor import Losses, Outcome, Said, attempt, result_of

__all__ = ["LocalPool"]

Item = TypeVar("Item")
Result = TypeVar("Result")
PATIENCE_S = 5.0  # for a worker to heed SIGTERM


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    task: tuple[int, Any] | None = None

    @property
    def end(self) -> str:
        """How the process ended."""
        self.process.join(PATIENCE_S)
        code = self.process.exitcode
        return f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"


class LocalPool:
    """As many processes as ``workers`` at most, started when there is work for them, kept from run to run."""

    def __init__(self, workers: int, said: Said) -> None:
        self._most, self._said = workers, said
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(list(self._workers))

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """See :class:`~prfaas_env.parallel.executor.Executor`."""
        losses = Losses(self._said)
        coming: Iterator[tuple[int, Item]] = iter(enumerate(items))
        again: deque[tuple[int, Item]] = deque()

        def lost(worker: _Worker) -> None:
            assert worker.task is not None
            self._workers.remove(worker)
            worker.pipe.close()
            losses.add(*worker.task, worker.end)
            again.append(worker.task)

        def hand_out() -> None:
            """Work for everybody who has none."""
            while idle := self._idle():
                task = again.popleft() if again else next(coming, None)
                if task is None:
                    return
                worker = idle[0] if idle[0] is not None else self._start()
                worker.task = task
                try:
                    worker.pipe.send((function, task[1]))
                except OSError:  # it died idle
                    lost(worker)

        try:
            hand_out()
            while busy := {worker.pipe: worker for worker in self._workers if worker.task is not None}:
                finished: list[tuple[int, Outcome]] = []
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    assert worker.task is not None
                    try:
                        finished.append((worker.task[0], worker.pipe.recv()))
                        worker.task = None
                    except (EOFError, OSError):
                        lost(worker)
                hand_out()  # before the caller is busy with the results
                for number, outcome in finished:
                    yield number, result_of(outcome)
        finally:
            self._end([worker for worker in self._workers if worker.task is not None])

    def _idle(self) -> list[_Worker | None]:
        """Who could take an item; ``None`` stands for a worker still to be started."""
        idle: list[_Worker | None] = [worker for worker in self._workers if worker.task is None]
        return idle or ([None] if len(self._workers) < self._most else [])

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), name="prfaas_env worker")
        with _interrupts_ignored():
            process.start()
        theirs.close()
        self._workers.append(worker := _Worker(process, ours))
        return worker

    def _end(self, workers: list[_Worker]) -> None:
        for worker in workers:
            self._workers.remove(worker)
            worker.process.terminate()
        for worker in workers:
            worker.process.join(PATIENCE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process started meanwhile ignores Ctrl-C from its first moment on: its parent decides what to keep."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(pipe: Connection) -> None:
    """A worker: items in, outcomes out, until the other end is closed."""
    _follow_parent()
    while True:
        try:
            function, item = pipe.recv()
        except EOFError:
            return
        outcome = attempt(function, item)
        try:
            sent = ForkingPickler.dumps(outcome)
        except Exception:  # what cannot be pickled is told all the same
            sent = ForkingPickler.dumps((False, RuntimeError(f"{type(outcome[1]).__name__}: {outcome[1]}"[:2000])))
        pipe.send_bytes(sent)


def _follow_parent() -> None:
    """A worker leaves Ctrl-C to its parent, who decides what to keep, and ends when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
