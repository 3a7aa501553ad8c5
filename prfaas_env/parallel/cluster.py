"""A Ray cluster, or a Ray of this machine's own; the extra ``cluster``."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from prfaas_env.config import ConfigError
from prfaas_env.parallel.executor import Losses, Outcome, Said, attempt, result_of

__all__ = ["RayCluster", "check_cluster"]

Item = TypeVar("Item")
Result = TypeVar("Result")

ADDRESS = re.compile(r"ray(?:://(?P<host>[^:/\[\]]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?)?")
PORT = 10001  # of Ray's client server
REACHED_S = 5.0
AHEAD = 2  # items on their way for each processor, so that none waits for this process
COUNTED_S = 5.0  # how often the processors are counted: a cluster may grow
STORE_BYTES = 128 << 20  # items and results are small


def check_cluster(cluster: str) -> tuple[str, int] | None:
    """Host and port of ``ray://host[:port]``, ``None`` for ``ray``. Raises :class:`ConfigError` on anything else."""
    found = ADDRESS.fullmatch(cluster)
    if not found:
        raise ConfigError(f"cluster: expected ray or ray://host:port, got {cluster!r}")
    return (found["host"].strip("[]"), int(found["port"] or PORT)) if found["host"] else None


class RayCluster:
    """``ray://host:port`` is a cluster's client server; ``ray`` the cluster that this machine belongs to (Ray's own
    ``RAY_ADDRESS`` names it too), and where there is none a Ray of this machine, with ``workers`` processors.

    Workers run the ``prfaas_env`` that is installed where they are.
    """

    def __init__(self, cluster: str, workers: int | None, said: Said) -> None:
        self._place, self._cluster, self._workers, self._said = check_cluster(cluster), cluster, workers, said
        self._ray: Any = None
        self._counted_s, self._processors = -COUNTED_S, 1

    def __enter__(self) -> RayCluster:
        """Raises :class:`ConfigError` without Ray, and where the cluster cannot be reached."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise ConfigError("cluster: needs Ray: pip install 'prfaas_env[cluster]'") from None
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self._place is not None:
                host, port = self._place
                socket.create_connection((host, port), REACHED_S).close()  # Ray itself would try for half a minute
                ray.init(f"ray://{host if ':' not in host else f'[{host}]'}:{port}", **quiet)
            else:
                self._join_or_start(ray, quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(f"cluster {self._cluster}: cannot be reached ({_line(error)})") from None
        self._ray = ray
        return self

    def _join_or_start(self, ray: Any, quiet: dict[str, Any]) -> None:
        try:
            ray.init("auto", **quiet)
        except ConnectionError:
            if os.environ.get("RAY_ADDRESS"):
                raise
            ray.init("local", num_cpus=self._workers, include_dashboard=False, object_store_memory=STORE_BYTES, **quiet)

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def run(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[int, Result]]:
        """See :class:`~prfaas_env.parallel.executor.Executor`."""
        ray = self._ray
        # Ray's own retries are silent.
        remote = ray.remote(max_retries=0)(_work)
        shared = ray.put((function, os.getcwd()))
        died = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError)
        losses = Losses(self._said)
        coming: Iterator[tuple[int, Item]] = iter(enumerate(items))
        again: deque[tuple[int, Item]] = deque()
        under_way: dict[Any, tuple[int, Item]] = {}
        try:
            while True:
                while len(under_way) < AHEAD * self._count():
                    task = again.popleft() if again else next(coming, None)
                    if task is None:
                        break
                    under_way[remote.remote(shared, task[1])] = task
                if not under_way:
                    return
                ready, _ = ray.wait(list(under_way), num_returns=1)
                task = under_way.pop(ready[0])
                try:
                    outcome: Outcome = ray.get(ready[0])
                except died as error:
                    losses.add(*task, type(error).__name__)
                    again.append(task)
                    continue
                except ray.exceptions.RayError as error:  # raised outside of the function: no such package there
                    raise ConfigError(f"cluster {self._cluster}: a worker cannot run it ({_line(error)})") from None
                yield task[0], result_of(outcome)
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)

    def _count(self) -> int:
        """Processors of the cluster, at least one."""
        if time.monotonic() - self._counted_s >= COUNTED_S:
            self._counted_s = time.monotonic()
            self._processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self._processors


def _work(shared: tuple[Callable[[Item], Result], str], item: Item) -> Outcome:
    """In a worker of the cluster: relative paths mean what they mean to the caller, where his folder exists."""
    function, folder = shared
    if os.path.isdir(folder):
        os.chdir(folder)
    return attempt(function, item)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
