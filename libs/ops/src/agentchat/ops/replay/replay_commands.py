"""The commands of `agentchat replay`, each imported when it runs, so that all start quickly."""

from agentchat.ops.lazy_commands import build_lazy_app

_FUNCTIONS = {
    "rebuild": "rebuild_command:rebuild",
    "verify": "rebuild_command:verify",
    "what-if": "what_if_command:run_what_if",
    "feed": "feed_command:feed",
    "show": "show_command:show",
    "why": "why_command:explain_message",
    "trace": "show_command:print_answer",
}

app = build_lazy_app("agentchat.ops.replay", _FUNCTIONS)


@app.callback()
def replay() -> None:
    """Inspect, replay and verify conversations; rebuild and verify read models.

    Works on the running stack, or on AGENTCHAT_DATABASE_URL.
    """
