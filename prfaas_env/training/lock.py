"""One process at a time in the folder of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prfaas_env.config import ConfigError

try:
    import fcntl
except ImportError:  # not a POSIX system: nobody keeps a second run out
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "locked"]

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises :class:`ConfigError`, with the process that has it, if another holds it already.

    The system itself gives the lock back when a process ends, however it ends: no lock is ever stale.
    """
    try:
        file = (folder / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder}: cannot write into this folder ({error.strerror})") from None
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(20).strip()
            raise ConfigError(f"{folder}: a run goes on here already (process {holder or 'unknown'})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
