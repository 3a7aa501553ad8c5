"""Where results come from: the commit of a checkout and the versions of the libraries that shape the figures."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["git_commit", "libraries"]

LIBRARIES = ("numpy", "gymnasium", "simpy", "numba", "polars", "stable-baselines3", "torch")


def git_commit() -> str | None:
    """The commit of the checkout that this package lies in, ``-dirty`` if files differ; ``None`` outside of one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def libraries() -> dict[str, str]:
    """Versions of Python and of the installed libraries, by name."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
