"""How every command of the project ends: bad input is one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from prfaas_env.config import ConfigError

__all__ = ["BAD_INPUT", "INTERRUPTED", "run"]

BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def run(command: click.Command, arguments: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
    """Run a click command on ``arguments`` (default: those of the process) and exit with its code."""
    try:
        code = command.main(args=arguments, prog_name=prog_name, standalone_mode=False)
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(BAD_INPUT)
