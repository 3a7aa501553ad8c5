"""Every physics test runs on every engine."""

from __future__ import annotations

import pytest

from tests.engines import ENGINES


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    return request.param
