"""``path/to/mine.py``: a policy of one's own in a Python file, by a function ``policy(scenario)`` or by one class."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from prfaas_env.config import ConfigError

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario

    from .base import Policy

__all__ = ["own_policy"]


def own_policy(path: Path, scenario: Scenario) -> Policy:
    """The policy that a file defines, for a scenario: what its ``policy(scenario)`` returns or, without that function,
    an instance of its one class with ``predict`` and ``action_mode`` (made with the scenario where it takes one).

    Raises :class:`ConfigError` if there is no such file, if it fails, or if it does not say which policy it means.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    maker = _maker(_module(path), path)
    made: Policy = _tried(maker, (scenario,) if _takes_one(maker) else (), path, "makes no policy")
    return made


def _module(path: Path) -> ModuleType:
    """The file as a module, run anew each time: no policy inherits what another one left in it."""
    name = f"own_policy_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)  # where dataclasses look their module up
    _tried(spec.loader.exec_module, (module,), path, "cannot be loaded")
    return module


def _maker(module: ModuleType, path: Path) -> Callable[..., Any]:
    if callable(factory := getattr(module, "policy", None)):
        return factory
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and value.__module__ == module.__name__
        and callable(getattr(value, "predict", None))
        and hasattr(value, "action_mode")
    ]
    if len(classes) == 1:
        return classes[0]
    found = ", ".join(cls.__name__ for cls in classes) or "none"
    wanted = "a function policy(scenario), or exactly one class with predict and action_mode"
    raise ConfigError(f"{path}: expected {wanted}; found classes: {found}")


def _takes_one(maker: Callable[..., Any]) -> bool:
    """Whether it can be called with the scenario."""
    try:
        inspect.signature(maker).bind(None)
    except TypeError:
        return False
    return True


def _tried(call: Callable[..., Any], arguments: tuple[Any, ...], path: Path, failure: str) -> Any:
    try:
        return call(*arguments)
    except ConfigError:
        raise
    except Exception as error:
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise ConfigError(f"{path}: {failure} ({type(error).__name__}: {error}{where})") from error
