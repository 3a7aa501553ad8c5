"""What a name or a file stands for: a scenario, shipped or one's own, or a trace file, made into a scenario."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from prfaas_env.config import ConfigError, from_mapping
from prfaas_env.deployment import load_deployment
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.workload.lengths import Empirical, NominalWorkload
from prfaas_env.workload.prefixes import infinite_cache_hits
from prfaas_env.workload.traces import Columns, TraceWorkload, find_trace
from prfaas_env.workload.traces.files import line_blocks
from prfaas_env.workload.traces.formats import FORMATS

__all__ = ["DEFAULT_DEPLOYMENT", "load_subject", "trace_columns"]

DEFAULT_DEPLOYMENT = "prfaas-pd"
LONGEST_S = 7 * 86_400.0  # of a scenario
QUANTILES = 4096  # that stand for the lengths of a trace


def load_subject(name_or_path: str, deployment: str | None = None, columns: Columns | None = None) -> Scenario:
    """A scenario by name or YAML file, or a trace file replayed as it is on a deployment (``prfaas-pd``).

    What has no suffix and no folder is the name of a shipped scenario. ``columns``: what holds what in a trace of no
    published format. Raises :class:`ConfigError`.
    """
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or not (path.suffix or "/" in name_or_path):
        for option, given in (("deployment", deployment), ("columns", columns)):
            if given is not None:
                raise ConfigError(f"{option}: expected with a trace file only, a scenario has its own")
        return load_scenario(name_or_path)
    return _of_trace(find_trace(name_or_path), deployment or DEFAULT_DEPLOYMENT, columns)


def trace_columns(text: str) -> Columns:
    """Columns from ``arrival=NAME,input=NAME,output=NAME,arrival_unit=ms``. Raises :class:`ConfigError`."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    named = {
        key.strip(): int(name) if key.strip() == "block_tokens" and name.isdigit() else name for key, _, name in pairs
    }
    return from_mapping(Columns, named, "columns")


def _of_trace(path: Path, deployment: str, columns: Columns | None) -> Scenario:
    """The whole of a trace, at its own rate and lengths; what it turns out to hold is its nominal workload."""
    plain = {"path": str(path), "rate_scale": 1.0, "length_scale": 1.0}
    plain |= {"format": "table", "columns": columns} if columns else {"format": _format_of(path)}
    workload = from_mapping(TraceWorkload, plain)
    stream = workload.draw(np.random.default_rng(0), LONGEST_S)
    if len(stream) == 0:
        raise ConfigError(f"{path}: no request in the first week of the trace")
    end_s = float(stream.arrival_s[-1]) + (FORMATS[workload.format].batch_s if workload.format in FORMATS else 0.0)
    uncached = np.maximum(stream.input_tokens - infinite_cache_hits(stream), 1)
    return Scenario(
        name=Path(path.name.removesuffix(".gz")).stem,
        deployment=load_deployment(deployment),
        workload=workload,
        nominal=NominalWorkload(lengths=_law(uncached), output_tokens=_law(stream.output_tokens)),
        horizon_s=min(np.floor(end_s) + 1.0, LONGEST_S),
        notes="A trace file at its own rate and lengths; what is planned is planned on these very lengths.",
    )


def _law(lengths_tokens: np.ndarray) -> Empirical:
    points = min(len(lengths_tokens), QUANTILES)
    quantiles = np.quantile(lengths_tokens, (np.arange(points) + 0.5) / points, method="inverted_cdf")
    return Empirical(tuple(quantiles.astype(np.float64).tolist()))


def _format_of(path: Path) -> str:
    """The published format whose columns a file has, by its first line. Raises :class:`ConfigError`."""
    first = (
        "" if path.suffix == ".parquet" else next((block.texts[0] for block in line_blocks(path) if block.texts), "")
    )
    if not first and path.suffix != ".parquet":
        raise ConfigError(f"{path}: the trace is empty")
    try:
        row = json.loads(first)
        found = set(row) if isinstance(row, dict) else set()
    except ValueError:
        found = set(next(csv.reader([first]), []))
    for name, form in FORMATS.items():
        if {column for held, column in form.columns.named.items() if held not in (*form.optional, "hashes")} <= found:
            return name
    raise ConfigError(
        f"{path}: not of a known format ({', '.join(FORMATS)}): say what holds what by --columns "
        "arrival=NAME,input=NAME,output=NAME"
    )
