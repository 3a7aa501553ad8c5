"""Where trace files lie."""

from __future__ import annotations

import os
from pathlib import Path

from prfaas_env.config import ConfigError
from prfaas_env.resources import own_path

__all__ = ["CACHE_VARIABLE", "TRACES_VARIABLE", "cache_folder", "find_trace"]

TRACES_VARIABLE = "PRFAAS_TRACES"
CACHE_VARIABLE = "PRFAAS_CACHE"
_REPOSITORY = Path(__file__).resolve().parents[3]


def cache_folder() -> Path:
    """Where ``fetch`` puts traces: below ``$PRFAAS_CACHE``, else below ``prfaas_env`` in the user's cache (XDG)."""
    if own := os.environ.get(CACHE_VARIABLE):
        return own_path(own) / "traces"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path in the variable is to be ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "prfaas_env" / "traces"


def find_trace(path: str) -> Path:
    """The file behind a trace's path; :class:`ConfigError` saying how to get it.

    A relative path is tried from the working directory, the folder named by the variable ``PRFAAS_TRACES``, the cache
    of ``fetch``, and the folder ``../shared/traces`` beside the repository; in each also compressed (``.gz``), or not.
    """
    other = path.removesuffix(".gz") if path.endswith(".gz") else f"{path}.gz"
    folders = [
        Path(),
        *map(Path, filter(None, [os.environ.get(TRACES_VARIABLE)])),
        cache_folder(),
        _REPOSITORY.parent / "shared/traces",
    ]
    for folder in folders:
        for name in (path, other):
            if (found := own_path(folder / own_path(name))).is_file():
                return found
    raise ConfigError(f"trace {path!r} not found{_hint(path, folders)}")


def _hint(path: str, folders: list[Path]) -> str:
    """How to get a trace that is not there: a public one by ``fetch``, one's own from a folder that is searched."""
    from prfaas_env.workload.fetch import PUBLIC_TRACES

    for trace in PUBLIC_TRACES.values():
        if trace.path == path.removesuffix(".gz"):
            return f"; `python -m prfaas_env fetch {trace.name}` downloads it (docs/traces.md)"
    asked = own_path(path)
    if asked.is_dir():
        return ": it is a folder"
    if asked.is_absolute():
        return ""
    searched = ", ".join(str(own_path(folder).absolute()) for folder in folders)
    also = "" if os.environ.get(TRACES_VARIABLE) else f"; the variable {TRACES_VARIABLE} may name one more folder"
    return f" in {searched}{also} (docs/traces.md)"
