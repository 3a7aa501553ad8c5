"""Policies by name: one file a policy, one protocol (see ``base.py`` and README.md)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_env.config import ConfigError, from_mapping, nearest
from prfaas_env.study import Study, read_study

from .models import SUFFIXES, model_policy

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario

    from .base import Policy

__all__ = ["load_policy", "names", "policy_class", "pretrained", "tuning_study"]

_SCRIPTED = {
    "static": ("static", "Static"),
    "naive": ("naive", "Naive"),
    "closed-form": ("closed_form", "ClosedForm"),
    "windowed-closed-form": ("windowed_closed_form", "WindowedClosedForm"),
    "sliding-window": ("sliding_window", "SlidingWindow"),
    "long-timescale": ("long_timescale", "LongTimescale"),
    "dual-timescale": ("dual_timescale", "DualTimescale"),
    "load-aware": ("load_aware", "LoadAware"),
    "least-completion": ("least_completion", "LeastCompletion"),
    "priced-completion": ("priced_completion", "PricedCompletion"),
    "mpc": ("mpc", "ModelPredictive"),
    "hindsight": ("hindsight", "Hindsight"),
}
_TUNED = Path(__file__).resolve().parent / "tuned"
_PRETRAINED = Path(__file__).resolve().parent / "pretrained"
_LEARNED = "learned"


def names() -> list[str]:
    """The names that :func:`load_policy` knows, the simplest policy first."""
    return list(dict.fromkeys([*_SCRIPTED, _LEARNED, *pretrained()]))


def pretrained() -> dict[str, Path]:
    """The shipped models by the names of their policies: ``learned`` is that of the form ``residual``, and
    ``learned-<form>`` any other, of whose form there is a folder with a ``model.npz``."""
    found = {path.parent.name: path for path in _PRETRAINED.glob("*/model.npz")}
    named = {_LEARNED if form == "residual" else f"{_LEARNED}-{form}": path for form, path in found.items()}
    return dict(sorted(named.items()))


def policy_class(name: str) -> type[Any]:
    """The class of a scripted policy, which says what its parameters are and which of them may be tuned.

    Raises :class:`ConfigError` on a name that no scripted policy bears.
    """
    if name not in _SCRIPTED:
        raise ConfigError(f"unknown scripted policy {name!r}{nearest(name, _SCRIPTED)}")
    module, cls = _SCRIPTED[name]
    found: type[Any] = getattr(import_module(f".{module}", __name__), cls)
    return found


def tuning_study(name: str) -> Study | None:
    """The shipped study that tuned a policy's parameters; ``None`` where there is none.

    Raises :class:`ConfigError` if its file is no study of this policy.
    """
    return _read_study(_TUNED / f"{name}.yaml", name) if name in _SCRIPTED else None


@cache
def _read_study(path: Path, name: str) -> Study | None:
    if not path.is_file():
        return None
    study = read_study(path)
    if study.policy != name:
        raise ConfigError(f"{path}: policy: expected {name!r}, got {study.policy!r}")
    from_mapping(policy_class(name).Parameters, study.values, f"{path}: values")
    return study


def load_policy(name_or_path: str | Path, scenario: Scenario, *, tuned: bool = True, **parameters: Any) -> Policy:
    """A policy by name, a model by the path of its ``.zip``, ``.npz`` or ``.onnx``, one's own by that of its ``.py``.

    ``parameters`` are those of the policy's record of parameters. What is not given is as tuned (``agents/tuned/``), or
    with ``tuned=False`` as published: the record's own defaults. Raises :class:`ConfigError` on an unknown name,
    file or parameter, with the nearest valid one.
    """
    name = str(name_or_path)
    if name in _SCRIPTED:
        policy = policy_class(name)
        study = tuning_study(name) if tuned else None
        values = {**(study.in_use if study else {}), **parameters}
        return policy(scenario, from_mapping(policy.Parameters, values, f"policy {name}: "))
    is_path = name.endswith((*SUFFIXES, ".py")) or "/" in name
    if not is_path and name not in names():
        raise ConfigError(f"unknown policy {name!r}{nearest(name, names())}")
    if parameters:
        what = "a policy of one's own" if name.endswith(".py") else "a trained model"
        raise ConfigError(f"policy {name}: {next(iter(parameters))}: unknown key; {what} has no parameters")
    if name.endswith(".py"):
        from .own import own_policy

        return own_policy(Path(name).expanduser(), scenario)
    path = Path(name).expanduser() if is_path else pretrained().get(name)
    if path is None:
        raise ConfigError(
            f"policy {name}: no trained model is shipped with this version; name one by path/to/model.zip"
        )
    if path.is_dir():
        raise ConfigError(f"{name}: is a folder, expected a model ({', '.join(SUFFIXES)}) or a file .py")
    return model_policy(path, scenario)
