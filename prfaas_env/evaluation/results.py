"""``results.json``: one row a policy, scenario and seed, in the schema that outside scripts rely on."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_env.config import ConfigError
from prfaas_env.evaluation.controls import as_controls
from prfaas_env.evaluation.provenance import git_commit, libraries
from prfaas_env.scenario import Scenario, suite_hash
from prfaas_env.simulator.log import empty_log
from prfaas_env.simulator.result import TIMELINE_DTYPE

__all__ = [
    "ROW_KEYS",
    "TTFT_LEVELS",
    "CellResult",
    "Evaluation",
    "prepare_folder",
    "results_json",
    "row",
    "write_atomically",
]

SCHEMA = 1

ROW_KEYS = (
    "policy",
    "scenario",
    "seed",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "goodput",
    "throughput_rps",
    "offload_fraction",
    "egress_gbps_mean",
    "conversions",
    "usd_per_million_output_tokens",
    "arrived",
    "completed",
    "rejected",
)


# From the least to P99.9, evenly spaced in the logarithm of how rare a slower request is; P90 and P99 are among them.
TTFT_LEVELS = 1.0 - 10.0 ** -np.linspace(0.0, 3.0, 121)


@dataclass(frozen=True, eq=False)
class CellResult:
    """What an evaluation keeps of one run.

    - ``row``: the row of ``results.json``, NaN where there is nothing to average.
    - ``ttft_s``: TTFT at ``TTFT_LEVELS``, NaN where too few requests tell; empty where none had a first token.
    - ``timeline``: ``TIMELINE_DTYPE``, empty where the run was not chosen to be drawn.
    - ``slowest``: ``REQUEST_DTYPE``, the requests of the longest TTFT, the longest first; empty likewise.
    - ``notes``: what the run warned of, a line each.
    - ``cpu_s``: processor time that it took. No result: it stands in no file but the journal.
    - ``controls``, ``decision_s``: what the policy did, and how long a decision took it (:class:`PolicyRun`).
    """

    row: Mapping[str, Any]
    ttft_s: np.ndarray
    timeline: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=TIMELINE_DTYPE))
    slowest: np.ndarray = field(default_factory=lambda: empty_log(0))
    notes: Sequence[str] = ()
    cpu_s: float = 0.0
    controls: np.ndarray = field(default_factory=lambda: as_controls([]))
    decision_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Policies × scenarios × seeds: the finished cells and what identifies the work.

    ``planned`` is the number of cells asked for; an interrupted evaluation has fewer ``cells``. ``skipped`` says, a
    line each, which members of a group of scenarios were left out and why; ``remarks`` what a scenario warned of.
    """

    cells: Sequence[CellResult]
    policies: Sequence[str]
    scenarios: Sequence[Scenario]
    seeds: Sequence[int]
    engine: str
    baseline: str
    version: str
    planned: int
    command: str = ""
    skipped: Sequence[str] = ()
    remarks: Sequence[str] = ()

    @property
    def notes(self) -> list[str]:
        """What scenarios and runs warned of, each line once, and where models gave way to their schedulers."""
        warned = (line for cell in self.cells for line in cell.notes)
        return list(dict.fromkeys([*self.remarks, *warned, *self._held_back()]))

    def _held_back(self) -> Iterator[str]:
        shares: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in self.rows:
            shares[row["policy"], row["scenario"]].append(row.get("held_back_share", 0.0))
        for policy in self.policies:
            means = {scenario: np.mean(of) for (who, scenario), of in shares.items() if who == policy and any(of)}
            if means:
                where = ", ".join(f"{mean:.1%} of the steps on {scenario}" for scenario, mean in means.items())
                yield f"policy {policy}: gave way to the scheduler it corrects, outside its training ranges: {where}"

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        return [cell.row for cell in self.cells]


def row(policy: str, scenario: str, seed: int, summary: Mapping[str, float]) -> dict[str, Any]:
    """A row: the keys of the schema first, then every other aggregate."""
    values = {"policy": policy, "scenario": scenario, "seed": seed, **summary}
    return {key: values[key] for key in ROW_KEYS} | values


def results_json(evaluation: Evaluation) -> str:
    """The content of ``results.json``. NaN and infinities become null, as JSON has none."""
    content = {
        "schema": SCHEMA,
        "suite_hash": suite_hash(evaluation.scenarios),
        "version": evaluation.version,
        "engine": evaluation.engine,
        "baseline": evaluation.baseline,
        "scenarios": {scenario.name: scenario.hash for scenario in evaluation.scenarios},
        "deployments": {scenario.name: scenario.deployment.name for scenario in evaluation.scenarios},
        "planned": evaluation.planned,
        "command": evaluation.command,
        "skipped": list(evaluation.skipped),
        "notes": evaluation.notes,
        "git_commit": git_commit(),
        "libraries": libraries(),
        "rows": [{key: _plain(value) for key, value in row.items()} for row in evaluation.rows],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def prepare_folder(path: Path, files: Sequence[str] = ()) -> None:
    """Make the output folder and try to write in it, before any work. Raises :class:`ConfigError`.

    ``files`` are those to come: none of them may be a folder.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ConfigError(f"{path}: cannot write into this output folder ({error.strerror})") from None
    for name in files:
        if (path / name).is_dir():
            raise ConfigError(f"{path / name}: is a folder, where a file is to be written")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside ``path`` and rename into place: a reader sees the old file or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # Arguments may be no text at all.
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
