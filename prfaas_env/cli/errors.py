"""How every command of the project ends: bad input is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from typing import NoReturn

import click

from prfaas_env.config import ConfigError

__all__ = ["BAD_INPUT", "INTERRUPTED", "run"]

BAD_INPUT = 2
FAILED = 1  # by its surroundings: a full disk, a reader or a worker that is gone
TERMINATED = 143  # 128 + SIGTERM
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def run(command: click.Command, arguments: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
    """Run a click command on ``arguments`` (default: those of the process) and exit with its code."""
    if sys.stdout is None:
        _refuse("standard output is closed", FAILED)
    for stream in (sys.stdout, sys.stderr):  # an ASCII terminal shows what it cannot print as \\u escapes
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        code = command.main(args=arguments, prog_name=prog_name, standalone_mode=False)
        sys.stdout.flush()
    except ConfigError as error:
        _refuse(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(BAD_INPUT)
    except click.ClickException as error:
        _refuse(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader (head, less) has gone; nothing is left to say, at exit neither
        _drop_output()
        sys.exit(FAILED)
    except OSError as error:  # a full disk, most likely that of standard output
        _drop_output()
        _refuse(f"{error.filename or 'output'}: {error.strerror}", FAILED)
    except BrokenExecutor as error:
        _refuse(str(error) or "a worker process ended abruptly (out of memory?)", FAILED)
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str, code: int = BAD_INPUT) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)


def _drop_output() -> None:
    """What is left unwritten goes nowhere, so that the interpreter's end has nothing to complain of."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
