"""The commands of `agentchat export`, each imported when it runs, so that all start quickly."""

from agentchat.ops.lazy_commands import build_lazy_app

_FUNCTIONS = {
    **dict.fromkeys(("runs", "messages", "tool-calls", "feedback", "approvals"), "rows_command:export_rows"),
    "conversations": "conversations_command:export_conversations",
}

app = build_lazy_app("agentchat.ops.export", _FUNCTIONS)


@app.callback()
def export() -> None:
    """Write runs, messages, tool calls, feedback, approvals or conversations to a file.

    Works on the running stack, or on AGENTCHAT_DATABASE_URL.
    """
