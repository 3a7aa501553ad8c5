"""What the compiled engine has beside the reference engine's behaviour: snapshots, growth, no log, cached code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from prfaas_env.deployment import load_deployment
from prfaas_env.environment import kernel
from prfaas_env.scenario import load_scenario
from prfaas_env.simulator.compiled import jit, loop
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.control import Control
from prfaas_env.workload.stream import RequestStream
from tests.agreement import full_cases
from tests.strategies import Case

ROOT = Path(__file__).resolve().parent.parent


def engine_of(case: Case, keep_log: bool = True) -> CompiledEngine:
    return CompiledEngine(
        case.deployment, case.stream, case.capacity, case.faults, case.objectives, case.start, case.patience_s, keep_log
    )


def future(engine: CompiledEngine, controls: list[tuple[float, Control]]) -> list[np.ndarray]:
    """All that can be seen of an engine from now until it has drained."""
    seen: list[np.ndarray] = [engine.log()]
    for time_s, control in controls:
        engine.advance(time_s)
        seen.extend(engine.measure())
        engine.apply(control)
    engine.drain()
    return [*seen, *engine.measure(), engine.log()]


def assert_same_bits(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    for a, b in zip(one, other, strict=True):
        for name in a.dtype.names or [...]:
            np.testing.assert_array_equal(a[name], b[name])


# --- snapshots --------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(full_cases(), st.data())
def test_a_snapshot_gives_back_the_future_bit_for_bit(case: Case, data: st.DataObject) -> None:
    """… also where another future lay in between, and again."""
    engine = engine_of(case)
    controls = list(case.controls)
    k = data.draw(st.integers(0, len(controls)))
    for time_s, control in controls[:k]:
        engine.advance(time_s)
        engine.apply(control)
    saved = engine.snapshot()
    first = future(engine, controls[k:])
    engine.restore(saved)
    engine.apply(Control(8, law="price", price_s=1.0, cache_rule="abundant"))
    engine.drain()
    for _ in range(2):
        engine.restore(saved)
        assert_same_bits(first, future(engine, controls[k:]))


def crowd(n: int) -> RequestStream:
    arrivals = np.arange(n) / 64
    return RequestStream(arrivals, np.full(n, 8192), np.arange(n) % 7 + 1)


@pytest.mark.parametrize("taken_at_s", [1.0, 12.0])
def test_a_snapshot_outlives_a_ring_that_grows(taken_at_s: float) -> None:
    """Taken before the ring grew, or after: at 12 s some 700 requests are in the system."""
    engine = CompiledEngine(load_deployment("prfaas-pd"), crowd(2000))
    engine.advance(taken_at_s)
    saved, ring = engine.snapshot(), len(engine.sim.ring)
    assert (ring > 256) == (taken_at_s > 1.0)
    first = future(engine, [(20.0, Control(5, threshold_tokens=1e9))])
    assert len(engine.sim.ring) > ring
    for _ in range(3):
        engine.restore(saved)
        assert len(engine.sim.ring) == ring
        assert_same_bits(first, future(engine, [(20.0, Control(5, threshold_tokens=1e9))]))


def test_a_snapshot_is_a_copy() -> None:
    engine = CompiledEngine(load_deployment("prfaas-pd"), crowd(100))
    engine.advance(1.0)
    saved = engine.snapshot()
    kept = [array.copy() for array in saved.arrays]
    engine.drain()
    engine.restore(saved)
    engine.drain()
    assert_same_bits(list(saved.arrays), kept)


# --- growth, no log, refusals -----------------------------------------------------------------------------------------


def test_what_is_measured_does_not_depend_on_the_log() -> None:
    stream = load_scenario("drift-mix").draw(3).stream
    engines = [CompiledEngine(load_deployment("prfaas-pd"), stream, keep_log=keep) for keep in (True, False)]
    for engine in engines:
        engine.advance(600.0)
    assert_same_bits(list(engines[0].measure()), list(engines[1].measure()))
    with pytest.raises(ValueError, match="keep_log=False"):
        engines[1].log()


def test_memory_is_that_of_what_is_in_the_system() -> None:
    """A hundred times the requests at the same load: the state is as large, and only the stream grows."""
    sizes = []
    for horizon_s in (360.0, 36_000.0):
        scenario = load_scenario("paper-stationary-80").with_overrides(horizon_s=horizon_s)
        engine = CompiledEngine(scenario.deployment, scenario.draw(0).stream, keep_log=False)
        engine.drain()
        sizes.append((len(engine.stream), sum(array.nbytes for array in engine.snapshot().arrays)))
    (few, small), (many, large) = sizes
    assert many > 50 * few
    assert large <= 2 * small


def test_time_does_not_run_backwards() -> None:
    engine = CompiledEngine(load_deployment("prfaas-pd"), crowd(3))
    engine.advance(5.0)
    for time_s in (4.0, np.nan):
        with pytest.raises(ValueError, match="cannot advance"):
            engine.advance(time_s)


# --- compiled code is kept --------------------------------------------------------------------------------------------

RUN = """
import json, sys, time
begin = time.perf_counter()
import prfaas_env
from prfaas_env.environment import kernel
from prfaas_env.environment.vector import PrfaaSVectorEnv
env = PrfaaSVectorEnv(2, scenario="paper-stationary", horizon_s=60.0)
env.reset(seed=0)
step = env.step(env.action_space.sample() * 0)
print(json.dumps({
    "file": prfaas_env.__file__,
    "seconds": time.perf_counter() - begin,
    "hits": sum(kernel.step_rows.stats.cache_hits.values()),
    "misses": sum(kernel.step_rows.stats.cache_misses.values()),
    "reward": step[1].tolist(),
}))
"""


def run_process(root: Path, cache: Path | None = None) -> dict:
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    if cache:
        environment["PRFAAS_CACHE_DIR"] = str(cache)
    process = subprocess.run(
        [sys.executable, "-c", RUN], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def files_under(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def copy_of_package(to: Path) -> Path:
    for name in ("prfaas_env", "agents", "hardware_profiles"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to


def test_a_second_process_compiles_nothing() -> None:
    run_process(ROOT)
    again = run_process(ROOT)
    assert again["misses"] == 0
    assert again["hits"] == 1


def test_machine_code_is_named_after_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit leads to another folder: old code never meets new sources."""
    monkeypatch.setenv("PRFAAS_CACHE_DIR", str(tmp_path / "cache"))
    package = copy_of_package(tmp_path / "copy") / "prfaas_env"
    monkeypatch.setattr(jit, "__file__", str(package / "simulator" / "compiled" / "jit.py"))
    folders = [package / "environment", package / "theory"]
    fresh = jit._cache_folder.__wrapped__
    before = fresh(), fresh(*folders)
    assert all(Path(folder).is_relative_to(tmp_path / "cache") for folder in before)
    for source, changes in (
        ("theory/closed_form.py", [False, True]),
        ("environment/observation.py", [False, True]),
        ("simulator/laws.py", [True, True]),
        ("simulator/compiled/link.py", [True, True]),
        ("evaluation/report.py", [False, False]),
    ):
        with (package / source).open("a") as file:
            file.write("# edited")
        after = fresh(), fresh(*folders)
        assert [a != b for a, b in zip(before, after, strict=True)] == changes, source
        before = after


def test_everything_compiled_stands_in_a_folder_that_names_the_code() -> None:
    compiled = {name: thing for name, thing in vars(kernel).items() if isinstance(thing, Dispatcher)}
    assert {"solve", "encode", "weigh", "step_rows"} <= set(compiled)
    simulator = Path(jit.__file__).resolve().parent
    for name, function in compiled.items():
        folder = Path(function.py_func.__code__.co_filename).resolve().parent
        assert folder in {simulator, simulator.parent, *kernel._FOLDERS}, name
    for function in (kernel.step_rows, kernel.observe_now):
        assert jit._cache_folder(*kernel._FOLDERS) in str(function._cache._cache_path)
    assert jit._cache_folder() in str(loop.operate._cache._cache_path)


@pytest.mark.slow
def test_a_read_only_installation_compiles_once_into_the_cache_folder(tmp_path: Path) -> None:
    root, cache = copy_of_package(tmp_path / "copy"), tmp_path / "cache"
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = files_under(root)
    try:
        first, second = run_process(root, cache), run_process(root, cache)
        assert files_under(root) == before
    finally:
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755)
    assert Path(first["file"]).is_relative_to(root)
    assert files_under(cache)
    assert (first["misses"], second["misses"], second["hits"]) == (1, 0, 1)
    assert first["reward"] == second["reward"]
    assert first["seconds"] < 60
    assert second["seconds"] < 6
