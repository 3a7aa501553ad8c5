"""From the start of Python to the first step of a vector environment: with nothing compiled yet, and after that."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.timing import seconds

__all__ = ["measure_starts", "used_cpu_s"]

FIRST_STEP = """
from prfaas_env.environment.vector import PrfaaSVectorEnv
env = PrfaaSVectorEnv(2, scenario="paper-stationary")
env.reset(seed=0)
env.step(env.action_space.sample())
"""


def used_cpu_s() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start(code: str, cache: str | None = None) -> float:
    environment = {**os.environ, **({"PRFAAS_CACHE_DIR": cache} if cache else {})}
    root = Path(__file__).resolve().parent.parent
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, check=True))


def measure_starts(quick: bool) -> dict[str, Any]:
    """Wall time of whole processes, and processor time of the cold one; ``quick`` leaves that out."""
    times = 1 if quick else 3
    with tempfile.TemporaryDirectory() as cache:
        before_s = used_cpu_s()
        cold_s = None if quick else _start(FIRST_STEP, cache)
        cold_cpu_s = used_cpu_s() - before_s
        place = None if quick else cache
        warm_s = min(_start(FIRST_STEP, place) for _ in range(times))
    return {
        "cold_s": cold_s,
        "cold_cpu_s": None if quick else cold_cpu_s,
        "warm_s": warm_s,
        "import_s": min(_start("import prfaas_env") for _ in range(times)),
        "python_s": min(_start("pass") for _ in range(times)),
    }
