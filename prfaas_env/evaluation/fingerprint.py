"""What the figures of a cell depend on besides its scenario and seed: the project's code, and a policy's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from prfaas_env.evaluation.provenance import libraries
from prfaas_env.policies import load_policy, policies_folder, policy_names, pretrained
from prfaas_env.resources import own_path
from prfaas_env.scenario import Scenario

__all__ = ["code_hash", "hashed_sources", "policy_hash"]

_PACKAGE = Path(__file__).resolve().parents[1]
_NO_PART = ("cli", "describe", "leaderboard", "pages", "parallel", "training", "tuning")
"""Folders of the package that come after a cell or around it."""
_PART_OF_EVALUATION = ("__init__", "controls", "fingerprint", "provenance", "results", "runner", "simulate")
_PRETRAINED = "pretrained"
_DIGITS = 16


def hashed_sources() -> Iterator[Path]:
    """The files that :func:`code_hash` reads: all that takes part in running a cell, but for what is named by
    scenarios and policies."""
    for path in sorted(_PACKAGE.rglob("*.py")):
        first, *rest = path.relative_to(_PACKAGE).parts
        evaluation = first == "evaluation" and path.stem not in _PART_OF_EVALUATION
        if not (rest and (first in _NO_PART or evaluation)) and not path.is_relative_to(policies_folder()):
            yield path
    for path in sorted(policies_folder().rglob("*")):
        apart = {_PRETRAINED, "__pycache__"} & set(path.relative_to(policies_folder()).parts)
        if path.is_file() and path.suffix != ".md" and not apart:
            yield path


@cache
def code_hash() -> str:
    """Hash of the code behind a cell, and of the versions of the libraries under it; sixteen hex digits."""
    return _hash(hashed_sources(), "".join(f"{name}={version};" for name, version in libraries().items()))


def policy_hash(policy: str, scenario: Scenario) -> str:
    """Hash of the files that a policy is besides the project's code: a model and its card, or a Python file.

    What a Python file reads or imports in its turn is not seen. Raises :class:`ConfigError` on a name that no policy
    bears, as loading it does.
    """
    if policy in policy_names():
        model = pretrained().get(policy)
        return _hash(sorted(path for path in model.parent.iterdir() if path.is_file()) if model else ())
    path = own_path(policy)
    if not path.is_file():
        load_policy(policy, scenario)  # says what is wrong with the name
        return _hash(())
    card = path.with_suffix(".json")
    return _hash([path, card] if path.suffix != ".py" and card.is_file() else [path])


def _hash(paths: Iterable[Path], start: str = "") -> str:
    digest = hashlib.sha256(start.encode())
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]
