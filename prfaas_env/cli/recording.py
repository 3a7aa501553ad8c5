"""``record``: one run, instance by instance, as a trace for Perfetto or chrome://tracing."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import click

from prfaas_env.config import ConfigError
from prfaas_env.environment.core import DEFAULT_ENGINE
from prfaas_env.evaluation.chrome_trace import chrome_trace
from prfaas_env.evaluation.results import write_atomically
from prfaas_env.evaluation.simulate import simulate
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.engine import ENGINES

__all__ = ["command"]


@click.command(name="record")
@click.argument("scenario")
@click.argument("policy")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of the episode.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="run.json, or run.json.gz: smaller."
)
@click.option("--engine", default=DEFAULT_ENGINE, show_default=True, help=f"{' or '.join(ENGINES)}.")
def command(scenario: str, policy: str, seed: int, out: Path, engine: str) -> None:
    """Run POLICY on SCENARIO and write what every instance and the link did, and when, as a Chrome trace.

    Open FILE with ui.perfetto.dev or chrome://tracing: a group an instance with its prefills and decode slots, one for
    the transfers on the link, and counters for queues, roles and knobs. SCENARIO and POLICY: names or paths.
    """
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ConfigError(f"--out: expected a file in a folder that exists, got {out}")
    loaded = load_scenario(scenario)
    run = simulate(loaded, policy, seed, engine)
    content = json.dumps(chrome_trace(run, loaded.deployment), separators=(",", ":"), allow_nan=False).encode()
    try:
        write_atomically(out, gzip.compress(content, mtime=0) if out.suffix == ".gz" else content)
    except OSError as error:
        raise ConfigError(f"--out: {out} cannot be written ({error.strerror})") from None
    mean_s = run.summary["ttft_mean_s"]
    served = f"mean TTFT {mean_s:.3g} s" if math.isfinite(mean_s) else "none was served"
    click.echo(f"written: {out} ({len(run.requests)} requests, {served})")
