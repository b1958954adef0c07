"""The commands of `agentchat replay`, each imported when it runs, so that all start quickly."""

from importlib import import_module
from typing import Any

import typer
import typer.core
import typer.main

_FUNCTIONS = {
    "rebuild": "rebuild_command:rebuild",
    "verify": "rebuild_command:verify",
    "audit": "audit_command:app",
    "what-if": "what_if_command:what_if",
    "feed": "feed_command:feed",
    "lost": "lost_events:lost",
    "show": "show:show",
    "why": "why:why",
    "trace": "show:trace",
    "export": "export_command:export",
    "import": "import_command:import_",
}


class _Commands(typer.core.TyperGroup):
    def list_commands(self, _ctx: Any) -> list[str]:
        return list(_FUNCTIONS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        module, _, function = _FUNCTIONS.get(cmd_name, "").partition(":")
        if not module:
            return None
        found = getattr(import_module(f"ops.replay.{module}"), function)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name)(found)
        return typer.main.get_command(alone)


app = typer.Typer(cls=_Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def replay() -> None:
    """Inspect, replay and verify conversations; move them; rebuild and verify read models. Works on the
    running stack, or on AGENTCHAT_DATABASE_URL.
    """
