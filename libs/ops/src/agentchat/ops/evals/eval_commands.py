"""The commands of `agentchat eval`."""

from agentchat.ops.lazy_commands import build_lazy_app

_FUNCTIONS = {
    "collect": "collect_command:collect",
    "add": "collect_command:add",
    "sync": "sync_command:sync",
    "run": "run_command:run",
    "report": "report_command:report",
}

app = build_lazy_app("agentchat.ops.evals", _FUNCTIONS)


@app.callback()
def evals() -> None:
    """Try another version of an agent on recorded runs.

    A suite is a folder: collect it, run it, read the report. Works on the running stack, or on
    AGENTCHAT_DATABASE_URL with AGENTCHAT_SECRET_KEY and, to run, AGENTCHAT_NATS_URL.
    """
