"""Files that start from another: ``extends: NAME_OR_PATH`` and, beside it, what is different."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prfaas_env.config import ConfigError, merge, read_yaml
from prfaas_env.resources import locate, own_path

__all__ = ["FileKind"]


@dataclass(frozen=True)
class FileKind:
    """How files of one kind (``deployments``, ``scenarios``) extend each other.

    ``anchor(plain, folder)`` settles what a mapping names relative to the folder of its own file, before mappings from
    different folders come together; ``merged(base, changes)`` joins two of them.
    """

    kind: str
    anchor: Callable[[Any, Path], Any]
    merged: Callable[[Any, Any], Any] = merge

    def read(self, path: Path, trail: tuple[Path, ...] = ()) -> Any:
        """The content of a file on top of that of the file it extends, whose name it does not inherit: its own is that
        of the file where it states none. Raises :class:`ConfigError`.
        """
        if path.resolve() in trail:
            raise ConfigError(f"{path}: extends: goes in a circle")
        plain = read_yaml(path)
        if isinstance(plain, Mapping) and "extends" in plain:
            plain = {"name": path.stem, **plain}
        return self.resolved(plain, f"{path}: ", path.parent, (*trail, path.resolve()))

    def resolved(self, plain: Any, where: str, beside: Path, trail: tuple[Path, ...] = ()) -> Any:
        """``plain`` with its ``extends`` resolved: a file in the folder ``beside``, else as on the command line.

        Raises :class:`ConfigError`, prefixed with ``where``.
        """
        plain = self.anchor(plain, beside)
        if not isinstance(plain, Mapping) or "extends" not in plain:
            return plain
        try:
            own = own_path(beside / str(plain["extends"]))
            base = locate(self.kind, own if own.is_file() else str(plain["extends"]))
        except ConfigError as error:
            raise ConfigError(f"{where}extends: {error}") from None
        below = self.read(base, trail)
        try:
            return self.merged(below, {key: value for key, value in plain.items() if key != "extends"})
        except ConfigError as error:
            raise ConfigError(f"{where}{error}") from None
