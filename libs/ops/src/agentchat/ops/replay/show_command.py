"""`agentchat replay show` and `trace`: show a conversation's runs, or print an answer byte for byte."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from agentchat.contracts.ids import is_trace_id, is_uuid
from agentchat.contracts.text_checks import escape_controls, format_count
from agentchat.conversations.aggregate.canonical_stream import render_answer
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.aggregate.rounds import Round
from agentchat.conversations.eventsourcing_application import PastConversation
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.conversations.queries.time_travel import parse_version_or_time
from agentchat.ops import printing
from agentchat.ops.admin.options import AsJson
from agentchat.ops.connections import NoneSuchError, read_log, run_with_pool
from agentchat.ops.errors import SetupError
from agentchat.ops.printing import print_note
from agentchat.ops.replay.replay_lines import (
    Line,
    format_call,
    format_sources,
    format_summary,
    format_tokens,
    print_lines,
)
from agentchat.ops.terminal_text import shorten

_STYLES = {"completed": "green", "failed": "red", "cancelled": "yellow", "running": "cyan"}
_Versions = dict[tuple[str, int | None], tuple[int, int]]
"""First and last version by trace and round; round None is the complete run."""


def show(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="A conversation's id.")],
    at: Annotated[
        str | None,
        typer.Option(metavar="VERSION|TIME", help="Show it as it was then; a time is ISO 8601, UTC."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a conversation, now or at a version or time: its runs, rounds, tool calls and sources.

    Exit code 2: no such conversation, version or time.
    """
    past = _load_past(conversation, at)
    if as_json:
        printing.print_json({"head": past.head, "conversation": past.conversation})
    else:
        print_lines(_format_conversation(past))


def _load_past(conversation: str, at: str | None) -> PastConversation:
    """Load the conversation as it was at a version or time. Raises SetupError, NoneSuchError."""
    conversation_id = conversation.lower()
    if not is_uuid(conversation_id):
        raise NoneSuchError(f"no such conversation: {shorten(conversation, 100)}")
    try:
        place = None if at is None else parse_version_or_time(at)
    except ValueError as error:
        raise SetupError(f"--at: {shorten(at or '', 60)!r} {error}") from None
    past = read_log(lambda log: log.load_past(conversation_id, place))
    if past.head == 0:
        raise NoneSuchError(f"no such conversation: {conversation_id}")
    if past.conversation.erased:
        raise NoneSuchError(f"conversation {conversation_id} was erased at {past.entries[-1].event.at}")
    if isinstance(place, int) and place > past.head:
        raise NoneSuchError(f"conversation {conversation_id} is at version {past.head}, not {place} yet")
    if not past.entries:
        raise NoneSuchError(f"conversation {conversation_id} had not started at {at}")
    return past


def _format_conversation(past: PastConversation) -> Iterator[Line]:
    found = past.conversation
    version = f"version {found.version:,}" + (f" of {past.head:,}" if found.version < past.head else "")
    yield Line(0, f"conversation {found.conversation_id}", f"  {version}")
    yield Line(0, "", f"account {found.account_id or '-'}, started {found.started_at or '-'}", "dim")
    versions = _find_version_spans(past)
    for number, each in enumerate(found.runs, start=1):
        yield Line(0, "")
        yield from _format_run(number, each, versions)


def _format_run(number: int, run: Run, versions: _Versions) -> Iterator[Line]:
    first, last = versions[run.trace_id, None]
    about = f"versions {first:,} to {last:,}  {run.requested_at}  trace {run.trace_id}"
    yield Line(0, f"run {number}  ", f"{run.state}  {about}", _STYLES[run.state])
    attempts = f", attempt {run.attempt}" if run.attempt > 1 else ""
    agent = f"agent {run.agent_id} version {run.agent_version}"
    yield Line(2, "", f"{agent}, {shorten(run.model, 100)}, {run.form}{attempts}", "dim")
    yield Line(2, "user")
    yield Line(4, "", run.user_text)
    if run.sources is not None:
        yield Line(2, format_count(len(run.sources), "source"))
        yield from format_sources(run.sources, 4)
    if run.compacted is not None:
        yield from format_summary(run.compacted)
    for each in run.rounds:
        yield from _format_round(each, versions[run.trace_id, each.number])
    yield from _format_end(run)


def _format_round(each: Round, span: tuple[int, int]) -> Iterator[Line]:
    ended = "not ended" if each.blocks is None else f"{each.stop_reason}, {format_tokens(each.usage)}"
    about = f"  versions {span[0]:,} to {span[1]:,}  {shorten(ended, 200)}"
    yield Line(2, f"round {each.number}", about, "dim")
    if each.text:
        yield Line(4, "", each.text.rstrip())
    for call in each.calls:
        yield from format_call(call, 4)


def _format_end(run: Run) -> Iterator[Line]:
    if run.reply is not None:
        saved = "saved" if run.state == "completed" else "interrupted"
        yield Line(2, saved, f"  message {run.reply.id}, {format_tokens(run.usage)}", "dim")
        if not run.rounds:
            yield Line(2, "assistant")
            yield Line(4, "", run.reply.content)
    if run.state == "failed":
        yield Line(2, "failed", f"  {run.code}: {shorten(run.detail or '', 500)}  {format_tokens(run.usage)}")
        if run.provider_message:
            yield Line(4, "", f"The provider said: {shorten(run.provider_message, 500)}")
    elif run.state == "cancelled":
        yield Line(2, "cancelled", f"  {format_tokens(run.usage)}", "dim")


def _find_version_spans(past: PastConversation) -> _Versions:
    found: _Versions = {}
    for entry in past.entries:
        event = entry.event
        for key in {(event.trace_id, None), (event.trace_id, getattr(event, "round", None))}:
            found[key] = (found.get(key, (entry.originator_version, 0))[0], entry.originator_version)
    return found


class As(StrEnum):
    """Forms of an answer."""

    form1 = "form1"
    form2 = "form2"
    json = "json"


def print_answer(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE_ID", help="X-Trace-Id of the answer.")],
    form: Annotated[
        As | None, typer.Option("--as", help="The form to print; the request's if unset.")
    ] = None,
) -> None:
    """Print an answer byte for byte as its reader received it.

    It is a stream in form 1 or 2, or the document of the JSON endpoint, without event ids and without
    comments and errors of the gateway. Exit code 1: the run has not ended, and the output is incomplete. Exit
    code 2: no such run. On a terminal, control characters are shown as JSON escapes.
    """
    conversation_id, run = _load_run(trace_id)
    data = render_answer(run, form.value if form else run.form, conversation_id)
    sys.stdout.buffer.write(escape_controls(data) if sys.stdout.isatty() else data)
    sys.stdout.buffer.flush()
    if run.state == "running":
        print_note(f"run {run.trace_id} has not ended: the output is incomplete")
        raise typer.Exit(1)


def _load_run(given: str) -> tuple[str, Run]:
    """Load a run and its conversation's id. Raises NoneSuchError."""
    trace_id = given.lower()
    known = run_with_pool(lambda _, pool: load_run(pool, trace_id)) if is_trace_id(trace_id) else None
    if known is None:
        raise NoneSuchError(f"no such run, or its conversation was erased: {shorten(given, 100)}")
    return known
