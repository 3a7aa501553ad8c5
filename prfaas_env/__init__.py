"""prfaas_env: a laboratory for scheduling prefill across data centres.

The names below are what scripts rely on; each is imported when first used, so that ``import prfaas_env`` stays light.
Importing the package registers the Gymnasium environment ``prfaas_env/PrfaaS-v0``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prfaas_env.environment.registration import register_environments

try:
    __version__ = version("prfaas_env")
except PackageNotFoundError:  # a bare copy of the folder, never installed
    __version__ = "0+unknown"

_HOME = {
    "load_deployment": "prfaas_env.deployment",
    "load_profile": "prfaas_env.profiles",
    "load_scenario": "prfaas_env.scenario",
    "load_policy": "prfaas_env.policies",
    "plan": "prfaas_env.planning",
    "simulate": "prfaas_env.evaluation.simulate",
    "ConfigError": "prfaas_env.config",
}

__all__ = [
    "ConfigError",
    "__version__",
    "load_deployment",
    "load_policy",
    "load_profile",
    "load_scenario",
    "plan",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


register_environments()
