"""Options that several commands share, and the confirmation that `--yes` skips."""

import sys
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from agentchat.ops.errors import RefusedError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Most = Annotated[
    int | None, typer.Option("--limit", min=1, help="The largest number of items; all if unset.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")]


class LazyGroup(typer.core.TyperGroup):
    """The groups of `agentchat admin`, imported when one runs, so that other commands start quickly."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names of all commands (click's interface)."""
        return list(self._load_commands())

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None (click's interface)."""
        return self._load_commands().get(cmd_name)

    def _load_commands(self) -> dict[str, Any]:
        from agentchat.ops.admin.app import app

        made: Any = typer.main.get_command(app)
        return dict(made.commands)


def build_group(about: str) -> typer.Typer:
    """Build a group of commands, which may have only one."""
    made = typer.Typer(
        help=about, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    made.callback()(lambda: None)  # else a group of one command would be that command
    return made


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal; scripts are not asked. Raises RefusedError."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise RefusedError("nothing was changed")
