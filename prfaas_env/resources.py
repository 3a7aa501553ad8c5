"""Where the shipped YAML files are, in a checkout and in an installed wheel, and how a name becomes a file."""

from __future__ import annotations

from pathlib import Path

from prfaas_env.config import ConfigError, nearest

__all__ = ["folder", "locate", "names", "own_path"]

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: str) -> Path:
    """The folder of ``hardware_profiles``, ``deployments`` or ``scenarios``.

    Deployments and scenarios live in the package; ``hardware_profiles`` stands beside it in a checkout and is
    packed into it in a wheel.
    """
    beside = _PACKAGE.parent / kind
    return beside if kind == "hardware_profiles" and beside.is_dir() else _PACKAGE / kind


def names(kind: str) -> list[str]:
    """The shipped names of a kind, sorted."""
    return sorted(p.stem for p in folder(kind).glob("*.yaml"))


def own_path(text: str | Path) -> Path:
    """A path of one's own, ``~`` expanded. Raises :class:`ConfigError` where no file can have it."""
    try:
        path = Path(text).expanduser()
        path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, a user who is not there, a zero byte
        shown = str(text) if len(str(text)) < 60 else f"{str(text)[:57]}..."
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{shown!r}: no such file ({reason})") from None
    return path


def locate(kind: str, name_or_path: str | Path) -> Path:
    """The YAML file behind a shipped name or a path of one's own; :class:`ConfigError` if there is neither."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")) or "/" in text:
        path = own_path(text)
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder, expected a YAML file")
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        return path
    path = own_path(folder(kind) / f"{text}.yaml")
    if not path.is_file():
        what = {"hardware_profiles": "profile"}.get(kind, kind.rstrip("s"))
        raise ConfigError(f"unknown {what} {text!r}{nearest(text, names(kind))}")
    return path
