"""Which instances fail, and when they are back (model.md section 6): scripted failures and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from prfaas_env.config import ConfigError, Range, Record
from prfaas_env.processes import check_number
from prfaas_env.profiles import NonNegative, Positive
from prfaas_env.simulator.conditions import FaultTimeline

__all__ = ["Failure", "Faults", "RandomFailures"]

Window = tuple[float, float]  # failure and repair, in seconds


@dataclass(frozen=True)
class Failure(Record):
    """A scripted failure of one instance, which is repaired ``repair_after_s`` later."""

    time_s: NonNegative
    cluster: Literal["remote", "local"]
    instance: Annotated[int, Range(ge=0)]
    repair_after_s: Positive


@dataclass(frozen=True)
class RandomFailures(Record):
    """Every instance of a cluster fails on its own; times between failures and repairs are exponential, stationary.

    ``mean_time_between_failures_s`` counts from a repair to the next failure, in simulated time. No public trace says
    how often a prefill or decode instance fails: both are design choices.
    """

    mean_time_between_failures_s: Positive
    mean_repair_s: Positive

    def windows(self, rng: np.random.Generator, horizon_s: float) -> Iterator[Window]:
        """Failures of one instance before the horizon, with their repairs, which may come after it."""
        up_share = self.mean_time_between_failures_s / (self.mean_time_between_failures_s + self.mean_repair_s)
        first = float(rng.exponential(self.mean_time_between_failures_s))
        now_s = first if rng.random() < up_share else 0.0
        while now_s < horizon_s:
            repaired_s = now_s + float(rng.exponential(self.mean_repair_s))
            yield now_s, repaired_s
            now_s = repaired_s + float(rng.exponential(self.mean_time_between_failures_s))


@dataclass(frozen=True)
class Faults(Record):
    """The failures of a scenario; none by default. An instance that fails while it is down is down until both end."""

    scripted: tuple[Failure, ...] = ()
    remote: RandomFailures | None = None
    local: RandomFailures | None = None

    def check_instances(self, remote: int, local: int) -> None:
        """:class:`ConfigError` if something fails that a deployment with so many instances does not have."""
        most = {"remote": remote, "local": local}
        for k, failure in enumerate(self.scripted):
            if failure.instance >= most[failure.cluster]:
                raise ConfigError(
                    f"scripted[{k}].instance: expected less than {most[failure.cluster]}, the number of "
                    f"{failure.cluster} instances, got {failure.instance}"
                )
        if self.remote is not None and remote == 0:
            raise ConfigError("remote: expected none: the deployment has no remote cluster")

    def draw(self, rng: np.random.Generator, horizon_s: float, remote: int, local: int) -> FaultTimeline:
        """Failures before ``horizon_s`` and all their repairs, for clusters of so many instances.

        Each cluster, and each instance in it, draws from a generator of its own.
        """
        rows: list[tuple[float, bool, int, bool]] = []
        clusters = (("remote", remote, self.remote), ("local", local, self.local))
        for cluster, instances, law in clusters:
            if law is not None:
                cycle_s = law.mean_time_between_failures_s + law.mean_repair_s
                check_number(instances * horizon_s / cycle_s, f"failures of {cluster} instances")
        for (cluster, instances, law), cluster_rng in zip(clusters, rng.spawn(2), strict=True):
            for instance, own in enumerate(cluster_rng.spawn(instances)):
                windows = [
                    (f.time_s, f.time_s + f.repair_after_s)
                    for f in self.scripted
                    if (f.cluster, f.instance) == (cluster, instance)
                ]
                windows += law.windows(own, horizon_s) if law else []
                for failed_s, repaired_s in _united(windows):
                    rows += [(failed_s, cluster == "remote", instance, False)]
                    rows += [(repaired_s, cluster == "remote", instance, True)]
        rows.sort()
        return FaultTimeline(*np.array(rows).reshape(-1, 4).T)


def _united(windows: Iterable[Window]) -> list[Window]:
    """Overlapping windows joined, in order of time."""
    joined: list[Window] = []
    for start, end in sorted(windows):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
