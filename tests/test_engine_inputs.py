"""What an engine must refuse, or survive, because its kernels work on bare arrays."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import replace

import numpy as np
import pytest

from prfaas_env.config import ConfigError
from prfaas_env.deployment import load_deployment
from prfaas_env.environment.vector import PrfaaSVectorEnv
from prfaas_env.simulator.compiled.engine import CompiledEngine
from prfaas_env.simulator.conditions import Objectives
from prfaas_env.simulator.control import Control
from prfaas_env.simulator.engine import ENGINES, make_engine
from prfaas_env.workload.stream import RequestStream

DEPLOYMENT = load_deployment("prfaas-pd")


def stream(n: int = 50, **others: np.ndarray | int) -> RequestStream:
    rng = np.random.default_rng(0)
    return RequestStream(np.sort(rng.random(n) * 20), rng.integers(200, 60_000, n), np.full(n, 50), **others)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", [1, 10**9])
def test_a_class_without_objectives_is_refused(engine: str, number: int) -> None:
    with pytest.raises(ConfigError, match="service_class of request 0: expected 0 to 0"):
        make_engine(engine, DEPLOYMENT, stream(service_class=np.full(50, number)))
    make_engine(engine, DEPLOYMENT, stream(service_class=np.full(50, 1)), objectives=Objectives((1.0, 2.0), (1.0, 1.0)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("patience_s", [-1.0, float("nan")])
def test_patience_is_a_time(engine: str, patience_s: float) -> None:
    with pytest.raises(ConfigError, match="patience_s"):
        make_engine(engine, DEPLOYMENT, stream(), patience_s=patience_s)


@pytest.mark.parametrize("middle", [10**9, -(10**9)])
def test_offsets_outside_the_hashes_are_refused(middle: int) -> None:
    offsets = np.full(51, middle)
    offsets[0], offsets[-1] = 0, 5
    with pytest.raises(ConfigError, match="hash_offsets"):
        stream(hash_offsets=offsets, block_hashes=np.arange(5))


def test_other_nonsense_in_a_stream_is_refused() -> None:
    with pytest.raises(ConfigError, match="block_tokens"):
        stream(block_tokens=0)
    with pytest.raises(ConfigError, match="input_tokens of request 0"):
        RequestStream(np.array([0.0]), np.array([9 * 10**18]), np.array([1]))
    with pytest.raises(ConfigError, match="service_class"):
        stream(service_class=np.full(50, -1))


@pytest.mark.parametrize("n_prefill", [2.5, float("nan"), 2**64 + 2, -1, True])
def test_a_target_that_is_no_number_of_nodes_is_refused(n_prefill: float) -> None:
    with pytest.raises(ConfigError, match="n_prefill"):
        Control(n_prefill, 1e4)  # type: ignore[arg-type]


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))])
def test_a_copy_of_an_engine_runs_on_its_own(travel) -> None:  # type: ignore[no-untyped-def]
    engine = make_engine("compiled", DEPLOYMENT, stream(2000))
    engine.advance(5.0)
    twin = travel(engine)
    twin.advance(15.0)
    assert (engine.now_s, twin.now_s) == (5.0, 15.0)
    engine.drain()
    expected = engine.log()
    del engine
    gc.collect()
    twin.drain()
    assert twin.log().tobytes() == expected.tobytes()


def test_a_snapshot_of_another_run_is_refused() -> None:
    long, short = CompiledEngine(DEPLOYMENT, stream(2000)), CompiledEngine(DEPLOYMENT, stream(5))
    long.advance(10.0)
    with pytest.raises(ValueError, match="another run"):
        short.restore(long.snapshot())


@pytest.mark.parametrize("travel", [copy.deepcopy, pickle.dumps])
def test_a_batch_is_not_copied_and_not_stepped_before_a_reset(travel) -> None:  # type: ignore[no-untyped-def]
    env = PrfaaSVectorEnv(2, horizon_s=200.0)
    with pytest.raises(TypeError, match="cannot be copied"):
        travel(env)
    with pytest.raises(RuntimeError, match="reset"):
        env.batch.step(np.zeros((2, 2)), np.arange(2))


@pytest.mark.parametrize("capacity_gib", [1e-20, 1e-18, 1e-15])
def test_engines_agree_on_a_cache_that_holds_nothing(capacity_gib: float) -> None:
    cache = replace(DEPLOYMENT.local.cache, capacity_gib=capacity_gib)
    deployment = replace(DEPLOYMENT, local=replace(DEPLOYMENT.local, cache=cache))
    offsets = np.arange(51) * 3
    hashed = stream(hash_offsets=offsets, block_hashes=np.arange(150) % 7)
    logs = []
    for name in ENGINES:
        engine = make_engine(name, deployment, hashed)
        engine.drain()
        logs.append(engine.log())
    assert logs[0].tobytes() == logs[1].tobytes()
    assert logs[0]["cached_tokens"].sum() == 0
