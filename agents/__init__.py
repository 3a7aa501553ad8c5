"""Policies by name: one file a policy, one protocol (see ``base.py`` and README.md)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_env.config import ConfigError, from_mapping, nearest

if TYPE_CHECKING:
    from prfaas_env.scenario import Scenario

    from .base import Policy

__all__ = ["load_policy", "names"]

_SCRIPTED = {
    "static": ("static", "Static"),
    "naive": ("naive", "Naive"),
    "closed-form": ("closed_form", "ClosedForm"),
    "windowed-closed-form": ("windowed_closed_form", "WindowedClosedForm"),
    "dual-timescale": ("dual_timescale", "DualTimescale"),
    "least-completion": ("least_completion", "LeastCompletion"),
}
_LEARNED = Path(__file__).resolve().parent / "pretrained" / "residual" / "model.zip"


def names() -> list[str]:
    """The names that :func:`load_policy` knows, the simplest policy first."""
    return [*_SCRIPTED, "learned"]


def load_policy(name_or_path: str | Path, scenario: Scenario, **parameters: Any) -> Policy:
    """A policy by name, a trained model by the path of its ``.zip``, or one's own by that of its ``.py`` file.

    ``parameters`` are those of the policy's record of parameters. Raises :class:`ConfigError` on an unknown name,
    file or parameter, with the nearest valid one.
    """
    name = str(name_or_path)
    if name in _SCRIPTED:
        module, cls = _SCRIPTED[name]
        policy = getattr(import_module(f".{module}", __name__), cls)
        return policy(scenario, from_mapping(policy.Parameters, parameters, f"policy {name}: "))
    is_path = name.endswith((".zip", ".py")) or "/" in name
    if not is_path and name != "learned":
        raise ConfigError(f"unknown policy {name!r}{nearest(name, names())}")
    if parameters:
        what = "a policy of one's own" if name.endswith(".py") else "a trained model"
        raise ConfigError(f"policy {name}: {next(iter(parameters))}: unknown key; {what} has no parameters")
    if name.endswith(".py"):
        from .own import own_policy

        return own_policy(Path(name).expanduser(), scenario)
    if name == "learned" and not _LEARNED.is_file():
        raise ConfigError(
            "policy learned: no trained model is shipped with this version; name one by path/to/model.zip"
        )
    from .trained import Trained

    return Trained(Path(name).expanduser() if is_path else _LEARNED)
