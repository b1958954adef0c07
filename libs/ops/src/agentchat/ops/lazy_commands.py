"""Build groups of commands that are imported one by one, when they run, so that all start quickly."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main


def build_lazy_app(package: str, commands: Mapping[str, str]) -> typer.Typer:
    """Build a Typer from commands by name, each a `module:function` of the package."""
    return typer.Typer(
        cls=_build_group(package, commands),
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def _build_group(package: str, commands: Mapping[str, str]) -> type[typer.core.TyperGroup]:

    class _Commands(typer.core.TyperGroup):
        def list_commands(self, _ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, _ctx: Any, cmd_name: str) -> Any:
            module, _, function = commands.get(cmd_name, "").partition(":")
            if not module:
                return None
            found = getattr(import_module(f"{package}.{module}"), function)
            if isinstance(found, typer.Typer):
                return typer.main.get_command(found)
            alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            alone.command(cmd_name)(found)
            return typer.main.get_command(alone)

    return _Commands
