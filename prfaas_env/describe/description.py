"""A scenario described: one episode of it, what was noticed on the way, and both as plain data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from prfaas_env.describe.episode import Episode
from prfaas_env.describe.statistics import Value, statistics
from prfaas_env.describe.subject import load_subject
from prfaas_env.scenario import Scenario
from prfaas_env.workload.traces import Columns
from prfaas_env.workload.traces.ending import early_end

__all__ = ["Description", "describe", "describe_scenario"]


@dataclass(frozen=True, eq=False)
class Description:
    """One episode and the seed that it was drawn by. ``remarks`` are what its trace file gives cause for."""

    episode: Episode
    seed: int
    remarks: tuple[str, ...] = ()

    @property
    def scenario(self) -> Scenario:
        return self.episode.scenario

    @cached_property
    def statistics(self) -> Mapping[str, Value]:
        """The figures by key (see :mod:`prfaas_env.describe.statistics`)."""
        return statistics(self.episode)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What is described, in words."""
        s = self.scenario
        found = [("Scenario", f"{s.name}, version {s.version}, hash {s.hash}")]
        if s.workload.kind == "trace":
            found.append(("Trace", str(getattr(s.workload, "path", ""))))
        else:
            found.append(("Family, split", f"{s.family}, {s.split}"))
        found += [("Tags", ", ".join(s.tags))] if s.tags else []
        clusters = [("remote", s.deployment.remote), ("local", s.deployment.local)]
        nodes = ", ".join(f"{name} {c.instances} × {c.profile.instance}" for name, c in clusters if c)
        split = f"N_p {s.deployment.local.prefill}, N_d {s.deployment.local.decode}"
        found.append(("Deployment", f"{s.deployment.name}: {nodes} ({split})"))
        found.append(("Seed", str(self.seed)))
        return found

    def as_mapping(self) -> dict[str, Any]:
        """Everything as plain data, as ``describe --json`` prints it; every number's key ends in its unit."""
        s = self.scenario
        return {
            "scenario": s.name,
            "version": s.version,
            "hash": s.hash,
            "family": s.family,
            "split": s.split,
            "tags": list(s.tags),
            "deployment": s.deployment.name,
            "seed": self.seed,
            "notes": s.notes,
            "remarks": list(self.remarks),
            "statistics": dict(self.statistics),
            "windows": [asdict(window) for window in self.episode.windows],
        }


def describe(
    name_or_path: str, seed: int = 0, deployment: str | None = None, columns: Columns | None = None
) -> Description:
    """Describe a scenario or a trace file (see :func:`load_subject`). Raises :class:`ConfigError`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        description = describe_scenario(load_subject(name_or_path, deployment, columns), seed)
    remarks = dict.fromkeys(str(warning.message) for warning in caught)
    episode = description.episode
    if episode.scenario.workload.kind == "trace" and (remark := early_end(episode.draw.stream, episode.horizon_s)):
        remarks[remark] = None
    return Description(episode, seed, tuple(remarks))


def describe_scenario(scenario: Scenario, seed: int = 0) -> Description:
    """Describe the episode that a seed draws from a scenario. Raises :class:`ConfigError` (a trace that is absent)."""
    return Description(Episode(scenario, scenario.draw(seed)), seed)
