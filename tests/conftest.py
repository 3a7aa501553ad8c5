"""What all tests share: repeatable Hypothesis examples, and real traces where the machine has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# The suite must say the same on every run; `pytest --hypothesis-profile=explore` looks for new counterexamples.
settings.register_profile("ci", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile(
    "explore", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


def find_trace(name: str) -> Path | None:
    """The file ``name`` of the shared traces, in ``$PRFAAS_TRACES`` or a ``shared/traces`` beside the checkout."""
    folders = [Path(os.environ["PRFAAS_TRACES"])] if "PRFAAS_TRACES" in os.environ else []
    folders += [parent / "shared" / "traces" for parent in list(REPOSITORY.parents)[:3]]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


@pytest.fixture(scope="session")
def real_trace() -> Callable[[str], Path]:
    """``real_trace("mooncake-fast25/conversation_trace.jsonl.gz")`` → its path, or a skip that says what is missing."""

    def locate(name: str) -> Path:
        path = find_trace(name)
        if path is None:
            pytest.skip(f"the real trace {name} is not here: expected under ../shared/traces or $PRFAAS_TRACES")
        return path

    return locate
