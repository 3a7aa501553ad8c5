"""Which executor a command has asked for."""

from __future__ import annotations

from prfaas_env.parallel.cluster import RayCluster
from prfaas_env.parallel.executor import Executor, Said, Serial
from prfaas_env.parallel.local import LocalPool

__all__ = ["make_executor"]


def make_executor(workers: int, cluster: str | None, said: Said) -> Executor:
    """A cluster if one is named, else this process for one worker and spawned processes for more.

    ``said`` takes a line where a worker was lost. Raises :class:`ConfigError` on a cluster that cannot be meant; one
    that cannot be reached is found on entering.
    """
    if cluster is not None:
        return RayCluster(cluster, workers, said)
    return Serial() if workers == 1 else LocalPool(workers, said)
