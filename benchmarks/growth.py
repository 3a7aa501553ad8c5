"""How time and memory grow with the deployment and with the number of requests.

``python -m benchmarks.growth 10000000`` draws that many requests and runs them with a summary only, and prints one line
of JSON; a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import interleaved, seconds
from prfaas_env.deployment import Deployment
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.control import Control
from prfaas_env.workload.stream import RequestStream

__all__ = ["measure_growth_in_instances", "measure_growth_in_requests"]

SCENARIO = "paper-stationary-80"


def grown(deployment: Deployment, factor: int) -> Deployment:
    """Every pool, and the link, ``factor`` times as large."""
    local, remote, link = deployment.local, deployment.remote, deployment.link
    assert remote is not None
    assert link is not None
    return replace(
        deployment,
        local=replace(local, instances=local.instances * factor, prefill=local.prefill * factor),
        remote=replace(remote, instances=remote.instances * factor),
        link=replace(link, capacity_gbps=link.capacity_gbps * factor),
    )


def stream_of(requests: int, factor: int = 1) -> RequestStream:
    """About so many requests of the scenario's workload, at its load times ``factor``."""
    scenario = load_scenario(SCENARIO)
    assert isinstance(scenario.load, float)
    rate_rps = scenario.load * scenario.lambda_max_rps * factor
    return scenario.workload.draw(np.random.default_rng(0), requests / rate_rps, rate_rps)


def drain(deployment: Deployment, stream: RequestStream, control: Control) -> None:
    CompiledEngine(deployment, stream, control=control, keep_log=False).drain()


def measure_growth_in_instances(quick: bool) -> list[dict[str, Any]]:
    """12, 120 and 1,200 instances with load and link to match, under either routing law."""
    base = load_scenario(SCENARIO).deployment
    assert base.remote is not None
    requests, factors = (2000, (1, 10)) if quick else (100_000, (1, 10, 100))
    subjects, labels = {}, []
    for law in ("threshold", "price"):
        for factor in factors:
            deployment, stream = grown(base, factor), stream_of(requests, factor)
            control = Control(deployment.local.prefill, base.threshold_tokens, law=law)

            def rate(d: Deployment = deployment, s: RequestStream = stream, c: Control = control) -> float:
                return len(s) / seconds(lambda: drain(d, s, c))

            labels.append((law, factor * (base.local.instances + base.remote.instances)))
            subjects[f"{law} {factor}"] = rate
    rates = interleaved(subjects, 1 if quick else 5)
    return [
        {"law": law, "instances": instances, "us_per_request": 1e6 / rate}
        for (law, instances), rate in zip(labels, rates.values(), strict=True)
    ]


def measure_growth_in_requests(quick: bool) -> list[dict[str, Any]]:
    """10⁴ to 10⁷ requests, each number in a process of its own: stream and run, no log kept."""
    rows = []
    for requests in (10**4,) if quick else (10**4, 10**5, 10**6, 10**7):
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", str(requests)],
            cwd=Path(__file__).resolve().parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        rows.append(json.loads(process.stdout))
    return rows


def _peak_gib() -> float:
    """Most memory that this process has held; Linux's own figure where there is one (``getrusage`` inherits)."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _run(requests: int) -> dict[str, Any]:
    deployment = load_scenario(SCENARIO).deployment
    control = Control(deployment.local.prefill, deployment.threshold_tokens)
    small = stream_of(100)
    drain(deployment, small, control)  # loads the compiled code
    streams: list[RequestStream] = []
    draw_s = seconds(lambda: streams.append(stream_of(requests)))
    times = max(1, 300_000 // requests)
    run_s = seconds(lambda: [drain(deployment, streams[0], control) for _ in range(times)]) / times
    return {
        "requests": len(streams[0]),
        "draw_us_per_request": 1e6 * draw_s / len(streams[0]),
        "us_per_request": 1e6 * run_s / len(streams[0]),
        "peak_gib": _peak_gib(),
    }


if __name__ == "__main__":
    print(json.dumps(_run(int(sys.argv[1]))))
