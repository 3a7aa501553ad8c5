"""Finds the policies: ``prfaas_env.agents`` in a wheel, the folder ``agents`` beside the package in a checkout."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prfaas_env.config import ConfigError
from prfaas_env.resources import own_path

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario
    from prfaas_env.study import Study

__all__ = [
    "agents_module",
    "check_policy",
    "load_policy",
    "plans",
    "policies_folder",
    "policy_class",
    "policy_line",
    "policy_names",
    "pretrained",
    "tuning_study",
]

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


def agents_module(name: str) -> ModuleType:
    """A module of ``agents`` by its name there, wherever that package is."""
    return import_module(f"{_agents().__name__}.{name}")


def policy_names() -> list[str]:
    """The names of policies, the simplest first."""
    return list(_agents().names())


def policy_class(name: str) -> Any:
    """The class of a scripted policy, with its record ``Parameters`` and the spans ``tunable``.

    Raises :class:`ConfigError` on a name that no scripted policy bears.
    """
    return _agents().policy_class(name)


def tuning_study(name: str) -> Study | None:
    """The shipped study that tuned a policy's parameters; ``None`` where there is none. Raises :class:`ConfigError`."""
    study: Study | None = _agents().tuning_study(name)
    return study


def pretrained() -> dict[str, Path]:
    """The shipped models (``.npz``) by the names of their policies, ``learned`` and ``learned-<form>``."""
    found: dict[str, Path] = _agents().pretrained()
    return found


def policies_folder() -> Path:
    """The folder that the shipped policies are in."""
    return Path(_agents().__file__ or "").resolve().parent


def policy_line(name: str) -> str:
    """What a policy does, in one line: how the docstring of its module begins."""
    if name == "learned" or name in pretrained():
        form = name.partition("-")[2]
        return (
            f"the shipped model{form and f' of the form {form}'}: corrections to a scheduler, learned by reinforcement"
        )
    opening = (import_module(_agents().policy_class(name).__module__).__doc__ or "").partition("\n\n")[0]
    return " ".join(opening.split()).partition(": ")[2].replace("``", "").rstrip(".")


def load_policy(name_or_path: str | Path, scenario: Scenario, *, tuned: bool = True, **parameters: Any) -> Any:
    """A policy by name, or by the path of a trained model or of a Python file, for a scenario; see ``agents``.

    Parameters that are not given are as tuned, or with ``tuned=False`` as published.

    Raises :class:`ConfigError` on an unknown name, file or parameter, and on what is no policy.
    """
    own_path(name_or_path)
    return check_policy(_agents().load_policy(name_or_path, scenario, tuned=tuned, **parameters), str(name_or_path))


def plans(policy: Any) -> bool:
    """Whether a policy plans: it sets the knobs with the run itself in view (``control(loop)``), a reference and no
    contender."""
    return callable(getattr(policy, "control", None)) and not callable(getattr(policy, "predict", None))


def check_policy(policy: Any, name: str) -> Any:
    """``policy`` itself if it acts or plans. Raises :class:`ConfigError` without ``predict`` or an action form."""
    from prfaas_env.environment.actions import ACTION_FORMS

    if plans(policy):
        return policy
    if not callable(getattr(policy, "predict", None)):
        raise ConfigError(f"policy {name}: expected an object with predict, got {policy!r}"[:200])
    forms = ", ".join(ACTION_FORMS)
    mode = getattr(policy, "action_mode", None)
    if mode is None:
        raise ConfigError(f"policy {name}: expected an attribute action_mode: which form its actions have ({forms})")
    if mode not in ACTION_FORMS:
        raise ConfigError(f"policy {name}: action_mode: expected one of {forms}, got {mode!r}")
    return policy
