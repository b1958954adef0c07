"""The commands of `agentchat export`, each imported when it runs, so that all start quickly."""

import typer

from agentchat.ops.lazy_commands import build_lazy_group

_FUNCTIONS = {
    **dict.fromkeys(("runs", "messages", "tool-calls", "feedback"), "rows_command:export_rows"),
    "conversations": "conversations_command:export_conversations",
}


app = typer.Typer(
    cls=build_lazy_group("agentchat.ops.export", _FUNCTIONS),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def export() -> None:
    """Write runs, messages, tool calls, feedback or conversations to a file.

    Works on the running stack, or on AGENTCHAT_DATABASE_URL.
    """
