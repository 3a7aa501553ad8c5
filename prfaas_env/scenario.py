"""Scenarios: a deployment, a workload, a link, faults and objectives, under one name and version.

A scenario is data (YAML in ``scenarios/`` or a file of one's own) and everything random in an episode comes from
:meth:`Scenario.draw`, before the run begins: the same seed gives the same requests, link and faults whatever a policy
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np

from prfaas_env.config import ConfigError, Range, Record, content_hash, from_mapping, merge, to_mapping
from prfaas_env.deployment import Deployment, anchor_deployment, deployment_from_mapping
from prfaas_env.extending import FileKind
from prfaas_env.faults import Faults
from prfaas_env.link_process import LinkProcess
from prfaas_env.processes import Clock
from prfaas_env.profiles import NonNegative
from prfaas_env.resources import locate, own_path
from prfaas_env.simulator.conditions import CapacityTimeline, FaultTimeline, Objectives
from prfaas_env.workload.classes import ServiceClass, check_classes, draw_classes, objectives_of
from prfaas_env.workload.lengths import NominalWorkload
from prfaas_env.workload.stream import RequestStream
from prfaas_env.workload.traces import TraceWorkload
from prfaas_env.workload.workload import SyntheticWorkload, Workload

__all__ = ["SPLITS", "Draw", "LoadRange", "Scenario", "Split", "load_scenario", "suite", "suite_hash"]

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Load = Annotated[float, Range(ge=0, le=100)]


@dataclass(frozen=True)
class LoadRange(Record):
    """A load drawn uniformly for each episode."""

    low: Load
    high: Load

    def check(self) -> None:
        if self.high < self.low:
            raise ConfigError(f"high: expected at least low {self.low:g}, got {self.high:g}")


@dataclass(frozen=True, eq=False)
class Draw:
    """One episode's randomness, settled: what arrives, what the link can carry, what fails, and where the clock starts.

    ``rate_rps`` is the mean rate that was drawn (before diurnal and other factors), ``None`` for a trace.
    """

    stream: RequestStream
    capacity: CapacityTimeline | None
    faults: FaultTimeline
    clock: Clock
    rate_rps: float | None


@dataclass(frozen=True)
class Scenario(Record):
    """What a run is made of, apart from the policy and the seed.

    ``load`` is the mean rate as a share of Λ_max of this deployment under the nominal workload (closed form, Eqs. 6–8):
    a number, a list to choose from in each episode, or a range ``{low, high}``; ``rate_rps`` says the rate outright.
    ``nominal`` is what an operator reckons with when he solves the closed form: the law of *uncached* input lengths and
    that of outputs. It defaults to the workload's base laws where that is the same thing.
    With ``classes`` the requests are divided among service classes, and ``objectives`` are theirs, in their order.
    """

    name: str
    deployment: Deployment
    workload: Workload
    nominal: NominalWorkload
    version: Annotated[int, Range(ge=1)] = 1
    family: str = "own"
    split: Split = "test"
    tags: tuple[str, ...] = ()
    load: Load | tuple[Load, ...] | LoadRange | None = None
    rate_rps: NonNegative | None = None
    link: LinkProcess = field(default_factory=LinkProcess)
    clock: Clock = field(default_factory=Clock)
    faults: Faults = field(default_factory=Faults)
    objectives: Objectives = field(default_factory=Objectives)
    classes: tuple[ServiceClass, ...] = ()
    horizon_s: Annotated[float, Range(gt=0, le=7 * 86_400)] = 3600.0
    control_step_s: Annotated[float, Range(ge=1, le=300)] = 10.0
    notes: str = ""

    def check(self) -> None:
        given = [key for key in ("load", "rate_rps") if getattr(self, key) is not None]
        if self.workload.needs_rate and len(given) != 1:
            found = "both" if given else "neither"
            raise ConfigError(f"load: expected exactly one of load and rate_rps, got {found}")
        if not self.workload.needs_rate and given:
            raise ConfigError(f"{given[0]}: expected none, a trace has its own rate (scale it by workload.rate_scale)")
        if self.load == ():
            raise ConfigError("load: expected at least one value to choose from")
        if self.classes:
            self._check_classes()
        elif isinstance(self.workload, TraceWorkload) and self.workload.service_classes > len(self.objectives.ttft_s):
            raise ConfigError(
                f"objectives: expected one for each of the trace's {self.workload.service_classes} service classes, "
                f"got {len(self.objectives.ttft_s)}"
            )
        remote = self.deployment.remote.instances if self.deployment.remote else 0
        try:
            self.faults.check_instances(remote, self.deployment.local.instances)
        except ConfigError as error:
            raise ConfigError(f"faults.{error}") from None

    def _check_classes(self) -> None:
        check_classes(self.classes)
        if not isinstance(self.workload, SyntheticWorkload):
            raise ConfigError("classes: expected none: a trace does not tell service classes apart")
        for k, one in enumerate(self.classes):
            try:
                one.workload(self.workload)
            except ConfigError as error:
                raise ConfigError(f"classes[{k}]: {error}") from None
        own = objectives_of(self.classes)
        if self.objectives not in (own, Objectives()):
            raise ConfigError("objectives: expected none: each of the classes has its own")
        object.__setattr__(self, "objectives", own)

    @cached_property
    def hash(self) -> str:
        """Content hash: changes with any value of the scenario, its deployment and its profiles.

        What is ``None``, or an empty list, counts as not said: a part that a later version may have, and this scenario
        has not, leaves its hash as it was.
        """
        plain = to_mapping(self)
        plain["workload"] |= self.workload.identity()
        return content_hash(_said(plain))

    @cached_property
    def lambda_max_rps(self) -> float:
        """Λ_max of this deployment under the nominal workload, at the best threshold and split (closed form)."""
        from prfaas_env.theory.plan import plan

        return plan(self.deployment, self.nominal).lambda_max_rps

    def draw(self, seed: int | np.random.Generator) -> Draw:
        """Settle everything random of one episode. Requests end at ``horizon_s``; what is in the system then drains.

        ``seed`` is a number, or the generator of an environment (``self.np_random``), which is only spawned from.
        Load, clock, workload, link and faults draw from generators of their own (append to that list, never insert).
        """
        if not isinstance(seed, np.random.Generator):
            if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
                raise ConfigError(f"seed: expected a whole number ≥ 0, got {str(seed)[:60]!r}")
            seed = np.random.default_rng(int(seed))
        rng = seed
        load_rng, clock_rng, workload_rng, link_rng, faults_rng = rng.spawn(5)
        clock = self.clock.started(clock_rng)
        rate_rps = self._draw_rate(load_rng)
        if self.classes and isinstance(self.workload, SyntheticWorkload):
            stream = draw_classes(self.classes, self.workload, workload_rng, self.horizon_s, rate_rps, clock)
        else:
            stream = self.workload.draw(workload_rng, self.horizon_s, rate_rps, clock)
        link, remote, local = self.deployment.link, self.deployment.remote, self.deployment.local
        capacity = self.link.draw(link_rng, link.capacity_gbps, self.horizon_s, clock) if link else None
        faults = self.faults.draw(faults_rng, self.horizon_s, remote.instances if remote else 0, local.instances)
        return Draw(stream, capacity, faults, clock, rate_rps)

    def _draw_rate(self, rng: np.random.Generator) -> float | None:
        if not self.workload.needs_rate:
            return None
        if self.rate_rps is not None:
            return self.rate_rps
        if isinstance(self.load, LoadRange):
            load = float(rng.uniform(self.load.low, self.load.high))
        elif isinstance(self.load, tuple):
            load = self.load[int(rng.integers(len(self.load)))]
        else:
            load = self.load or 0.0
        return load * self.lambda_max_rps

    def with_overrides(self, overrides: Mapping[str, Any] | None = None, **more: Any) -> Scenario:
        """The same scenario with other values, nested mappings merged: ``with_overrides(load=0.9)``.

        Raises :class:`ConfigError` as a file with these values would.
        """
        plain = to_mapping(self)
        if plain["nominal"] == _base_laws(plain):
            del plain["nominal"]  # taken from the workload, so taken anew from a changed one
        plain = _merge_scenario(plain, {**(overrides or {}), **more})
        return _scenario_from_mapping(plain, f"scenario {self.name}: ", Path.cwd())


def _said(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {key: _said(value) for key, value in plain.items() if value is not None and value != []}
    return [_said(value) for value in plain] if isinstance(plain, list) else plain


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A shipped scenario by name, or one's own by path. Raises :class:`ConfigError`."""
    path = locate("scenarios", name_or_path)
    return _scenario_from_mapping(_FILES.read(path), f"{path}: ", path.parent)


def suite(names_or_paths: Iterable[str | Path]) -> tuple[Scenario, ...]:
    """Several scenarios, in the order named. Raises :class:`ConfigError` also where two have the same name."""
    scenarios = tuple(load_scenario(name) for name in names_or_paths)
    seen: set[str] = set()
    for scenario in scenarios:
        if scenario.name in seen:
            raise ConfigError(f"scenario {scenario.name!r} is named twice")
        seen.add(scenario.name)
    return scenarios


def suite_hash(scenarios: Iterable[Scenario]) -> str:
    """Hash of a set of scenarios, whatever their order."""
    return content_hash({scenario.name: scenario.hash for scenario in scenarios})


def _scenario_from_mapping(plain: Any, where: str, beside: Path) -> Scenario:
    """A scenario from its plain form: its deployment by name, by path, in full, or as changes to another."""
    if isinstance(plain, Mapping) and "deployment" in plain:
        plain = {**plain, "deployment": deployment_from_mapping(plain["deployment"], f"{where}deployment", beside)}
    if isinstance(plain, Mapping) and "nominal" not in plain and (laws := _base_laws(plain)):
        plain = {**plain, "nominal": laws}
    return from_mapping(Scenario, plain, where)


def _base_laws(plain: Mapping[str, Any]) -> dict[str, Any] | None:
    """The nominal workload of a scenario that states none: the laws of its workload, those of classes mixed by share.

    ``None`` where it cannot be told from them: a trace, or sessions, whose prompts are cached in part.
    """
    workload, classes = plain.get("workload"), plain.get("classes") or []
    if not isinstance(workload, Mapping) or not {"lengths", "output_tokens"} <= workload.keys():
        return None
    if not isinstance(classes, list) or not all(isinstance(c, Mapping) and "share" in c for c in classes):
        classes = []  # refused when the classes are read
    if any(own.get("sessions") for own in (workload, *classes)):
        return None
    if not classes:
        return {key: workload[key] for key in ("lengths", "output_tokens")}
    return {
        key: {"kind": "mixture", "parts": [{"weight": c["share"], "law": c.get(key) or workload[key]} for c in classes]}
        for key in ("lengths", "output_tokens")
    }


def _anchored(plain: Any, beside: Path) -> Any:
    """A scenario whose relative paths are absolute where they name a file in the folder ``beside``."""
    if not isinstance(plain, Mapping):
        return plain
    done = dict(plain)
    if "deployment" in done:
        done["deployment"] = anchor_deployment(done["deployment"], beside)
    workload = done.get("workload")
    path = workload.get("path") if isinstance(workload, Mapping) else None
    if isinstance(path, str) and own_path(beside / path).is_file():
        done["workload"] = {**done["workload"], "path": str((beside / path).resolve())}
    return done


def _merge_scenario(base: Any, changes: Mapping[str, Any]) -> Any:
    """Scenario mappings merged; naming a rate replaces a load, classes replace objectives, and the other way round."""
    if not isinstance(base, Mapping):
        return base
    base = dict(base)
    for one, other in (("load", "rate_rps"), ("objectives", "classes")):
        for key, rival in ((one, other), (other, one)):
            if changes.get(key) is not None:
                base.pop(rival, None)
    return merge(base, changes)


_FILES = FileKind("scenarios", _anchored, _merge_scenario)
