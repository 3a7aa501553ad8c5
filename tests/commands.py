"""The program's commands in this process: how they ended, and what they said."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from prfaas_env.cli.app import main
from prfaas_env.cli.errors import run

__all__ = ["Ended", "ended"]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def ended(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """``python -m prfaas_env`` with these arguments."""
    with pytest.raises(SystemExit) as exit_:
        run(main, [str(argument) for argument in arguments])
    said = capsys.readouterr()
    return Ended(int(exit_.value.code or 0), said.out, said.err)
