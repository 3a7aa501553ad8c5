"""The finished cells of an evaluation, kept one file each as soon as they are there, so that none is run twice.

A file bears the hash of all that its figures depend on: the policy with its files, the scenario, the seed, the engine,
and the code. What has changed is therefore not found, and run anew; a file that is damaged counts as none. Files
appear whole or not at all, so that the process may be killed at any moment.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import prfaas_env
from prfaas_env.config import ConfigError, content_hash
from prfaas_env.evaluation.fingerprint import code_hash
from prfaas_env.evaluation.results import CellResult, write_atomically
from prfaas_env.evaluation.runner import Cell

__all__ = ["Journal"]

_ARRAYS, _PLAIN = ("ttft_s", "timeline", "slowest", "controls"), ("row", "notes", "cpu_s", "decision_s")
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


class Journal:
    """The cells in a folder; ``policies`` has the hash of each policy's own files."""

    def __init__(self, folder: Path, policies: Mapping[str, str]) -> None:
        """Makes the folder. Raises :class:`ConfigError` if it cannot be."""
        self._folder, self._policies = folder, policies
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder}: cannot keep finished episodes here ({error.strerror})") from None

    def clear(self) -> None:
        """Forget everything."""
        for path in [*self._folder.glob("*.npz"), *self._folder.glob(".*.npz.*")]:
            path.unlink(missing_ok=True)

    def find(self, cell: Cell) -> CellResult | None:
        """What was kept of a cell, as it was; ``None`` if nothing was, or if the file is damaged."""
        identity = self._identity(cell)
        try:
            with self._path(identity).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                told = json.loads(str(kept["told"]))
                if told["cell"] != identity:
                    return None
                arrays = {name: kept[name] for name in _ARRAYS}
                return CellResult(**arrays, **{name: told[name] for name in _PLAIN})
        except _DAMAGED:
            return None

    def add(self, cell: Cell, result: CellResult) -> None:
        """Keep a finished cell."""
        identity = self._identity(cell)
        told = {"cell": identity, **{name: getattr(result, name) for name in _PLAIN}}
        file = io.BytesIO()
        np.savez_compressed(file, told=json.dumps(told), **{name: getattr(result, name) for name in _ARRAYS})
        write_atomically(self._path(identity), file.getvalue())

    def _identity(self, cell: Cell) -> dict[str, Any]:
        return {
            "policy": cell.policy,
            "policy_hash": self._policies[cell.policy],
            "scenario": cell.scenario.name,
            "scenario_hash": cell.scenario.hash,
            "seed": cell.seed,
            "engine": cell.engine,
            "drawn": cell.drawn,
            "version": prfaas_env.__version__,
            "code": code_hash(),
        }

    def _path(self, identity: Mapping[str, Any]) -> Path:
        return self._folder / f"{content_hash(identity)}.npz"
