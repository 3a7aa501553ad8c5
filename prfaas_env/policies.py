"""Finds the policies: ``prfaas_env.agents`` in a wheel, the folder ``agents`` beside the package in a checkout."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prfaas_env.config import ConfigError

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario

__all__ = ["load_policy", "policy_names"]

_PACKAGE = Path(__file__).resolve().parent


def _agents() -> ModuleType:
    if (_PACKAGE / "agents").is_dir():
        return import_module("prfaas_env.agents")
    beside = _PACKAGE.parent / "agents"
    module = import_module("agents")
    # `agents` is a common name: one's own folder may stand before ours on the path.
    if Path(module.__file__ or "").resolve().parent != beside:
        raise ConfigError(f"the package 'agents' at {module.__file__} hides this project's own at {beside}: rename it")
    return module


def policy_names() -> list[str]:
    """The names of policies, the simplest first."""
    return list(_agents().names())


def load_policy(name_or_path: str | Path, scenario: Scenario, **parameters: Any) -> Any:
    """A policy by name or by the path of a trained model, for a scenario; see ``agents.load_policy``."""
    return _agents().load_policy(name_or_path, scenario, **parameters)
