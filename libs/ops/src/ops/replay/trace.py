"""`agentchat replay trace`."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from contracts.ids import is_trace_id
from contracts.text import escaped
from conversations.aggregate.canonical_stream import rendered
from conversations.aggregate.conversation import Run
from conversations.queries.find_run import load_run
from ops import command_database
from ops.command_database import NoneSuchError
from ops.output import one_line
from ops.printing import note


class As(StrEnum):
    """The forms of an answer."""

    form1 = "form1"
    form2 = "form2"
    json = "json"


def trace(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE_ID", help="X-Trace-Id of the answer.")],
    form: Annotated[
        As | None, typer.Option("--as", help="The form to render; that of the request if unset.")
    ] = None,
) -> None:
    """Print an answer byte for byte as a reader who kept up got it, however long ago.

    A stream in form 1 or 2, or the document of the JSON endpoint; without ids, and without a gateway's
    comments and errors of its own. Exit code 1: the run has not ended, and this is what the log has by now.
    Exit code 2: there is no such run. On a terminal, characters that drive it are shown as escapes of JSON.
    """
    conversation_id, run = _run(trace_id)
    data = rendered(run, form.value if form else run.form, conversation_id)
    sys.stdout.buffer.write(escaped(data) if sys.stdout.isatty() else data)
    sys.stdout.buffer.flush()
    if run.state == "running":
        note(f"run {run.trace_id} has not ended: the log has no more of it yet")
        raise typer.Exit(1)


def _run(given: str) -> tuple[str, Run]:
    """The run and its conversation's id. Raises NoneSuchError."""
    trace_id = given.lower()
    known = command_database.run(lambda _, pool: load_run(pool, trace_id)) if is_trace_id(trace_id) else None
    if known is None:
        raise NoneSuchError(f"no such run, or its conversation was erased: {one_line(given, 100)}")
    return known
