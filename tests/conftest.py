"""What all tests share: repeatable Hypothesis examples, real traces where the machine has them, the paper's cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from prfaas_env.config import ConfigError
from prfaas_env.deployment import Deployment, load_deployment
from prfaas_env.planner.inputs import Question, question
from prfaas_env.scenario import Scenario, load_scenario
from prfaas_env.workload.traces import find_trace

# The suite must say the same on every run; `pytest --hypothesis-profile=explore` looks for new counterexamples.
settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile(
    "explore", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels once, before the workers begin: each would otherwise compile them for itself."""
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    from prfaas_env.environment.vector import PrfaaSVectorEnv

    env = PrfaaSVectorEnv(1, scenario="paper-stationary", horizon_s=20.0)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()


@pytest.fixture(scope="session")
def real_trace() -> Callable[[str], Path]:
    """``real_trace("mooncake-fast25/conversation_trace.jsonl.gz")`` → its path, or a skip that says what is missing."""

    def locate(name: str) -> Path:
        try:
            return find_trace(name)
        except ConfigError as absent:
            pytest.skip(str(absent))

    return locate


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two short scenarios, as ``--scenario`` takes them."""
    folder = tmp_path_factory.mktemp("scenarios")
    short = "split: train, horizon_s: 120, control_step_s: 20"
    (folder / "drifting.yaml").write_text(f"{{name: drifting, extends: drift-mix, {short}}}")
    (folder / "steady.yaml").write_text(f"{{name: steady, extends: paper-stationary, {short}}}")
    return f"{folder}/drifting.yaml,{folder}/steady.yaml"


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """Five minutes of the paper's traffic at 80 %, for the tests of policies."""
    return load_scenario("paper-stationary-80").with_overrides(horizon_s=300.0)


@pytest.fixture(scope="module")
def prfaas() -> Deployment:
    return load_deployment("prfaas-pd")


@pytest.fixture(scope="module")
def paper() -> Question:
    """The paper's own case, for the tests of the planner."""
    return question()
