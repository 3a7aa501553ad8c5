"""``python -m prfaas_env``: the group of commands, each loaded when it is named."""

from __future__ import annotations

from importlib import import_module

import click

from prfaas_env import __version__
from prfaas_env.config import nearest

__all__ = ["main"]

# Command → (module, its line in --help). Each module defines ``command``.
COMMANDS = {
    "evaluate": ("prfaas_env.cli.evaluating", "Policies on the same requests, in pairs: tables, a report, videos."),
    "export": ("prfaas_env.cli.exporting", "A trained model as ONNX or npz: acts without Stable-Baselines3."),
    "fetch": ("prfaas_env.cli.fetching", "Download a public trace at a pinned revision, checked."),
    "describe": ("prfaas_env.cli.describing", "Statistics and pictures of a scenario or a trace file."),
    "leaderboard": ("prfaas_env.cli.ranking", "Build the leaderboard's page from its entries."),
    "list": ("prfaas_env.cli.listing", "What can be named: deployments, profiles, scenarios, policies."),
    "plan": ("prfaas_env.cli.planning", "Which t and split, what limits them, TTFT under load, cost, advice."),
    "record": ("prfaas_env.cli.recording", "One run, instance by instance, for Perfetto or chrome://tracing."),
    "verify": ("prfaas_env.cli.verifying", "Play an entry for the leaderboard again, and check every figure."),
    "train": ("prfaas_env.cli.training", "A policy by reinforcement learning, starting at a scheduler."),
    "tune": ("prfaas_env.cli.tuning", "Search a policy's parameters on the training split, with a fixed budget."),
}


class _LazyGroup(click.Group):
    """A group that imports a command's module when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"unknown command {args[0]!r}{nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="prfaas_env")
def main() -> None:
    """A laboratory for scheduling prefill across data centres (PrfaaS, arXiv:2604.15039)."""
