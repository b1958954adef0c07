"""`agentchat replay why`: show how a message was made."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from agentchat.contracts.text_checks import format_count, format_duration
from agentchat.ops import printing
from agentchat.ops.admin.options import AsJson
from agentchat.ops.connections import run_with_pool
from agentchat.ops.replay.provenance import Provenance, RecordedAgent, load_provenance
from agentchat.ops.replay.replay_lines import (
    Line,
    format_call,
    format_sources,
    format_summary,
    format_tokens,
    print_lines,
)
from agentchat.ops.terminal_text import format_fields, shorten

_PROMPT = 2000
_TEXT = 400
_MESSAGES = 20


def explain_message(
    message: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="A message's id, or a trace id.")],
    as_json: AsJson = False,
) -> None:
    """Show how a message was made: agent, configuration, model, prompt, sources, tools, tokens, workers.

    Exit code 2: no such message.
    """
    found = run_with_pool(lambda _, pool: load_provenance(pool, message.lower()))
    if as_json:
        printing.print_json(found)
    else:
        print_lines(_format_provenance(found))


def _format_provenance(found: Provenance) -> Iterator[Line]:
    first, last = found.versions
    code = f" ({found.code})" if found.code else ""
    yield _build_field(
        found.role or "reply", f"message {found.message_id}" if found.message_id else "not saved"
    )
    if found.role == "user":
        yield _build_field("", "written by the user; the lines below describe the reply")
    yield _build_field("conversation", f"{found.conversation_id}, versions {first:,} to {last:,}")
    yield _build_field("run", f"{found.state}{code}, trace {found.trace_id}, requested as {found.form}")
    if found.detail:
        yield _build_field("failure", shorten(found.detail, _TEXT))
    if found.provider_message:
        yield _build_field("", f"the provider said: {shorten(found.provider_message, _TEXT)}")
    yield _build_field("time", f"{found.requested_at} to {found.ended_at or 'now'}")
    for attempt in found.attempts:
        yield _build_field(
            f"attempt {attempt.attempt}", f"{attempt.at}  {attempt.worker or 'worker not recorded'}"
        )
    yield from _format_agent(found.agent)
    yield _build_field("model", found.model)
    for warning in found.warnings:
        yield _build_field("warning", shorten(warning.message, _TEXT))
    yield from _format_prompt(found)
    if found.sources is not None:
        yield _build_field("sources", f"{len(found.sources)}")
        yield from format_sources(found.sources, 2)
    if found.compacted is not None:
        yield from format_summary(found.compacted)
    yield from _format_messages(found)
    yield from _format_rounds(found)
    yield _build_field("tokens", format_tokens(found.usage))
    if found.lost.total:
        yield _build_field("", f"{format_tokens(found.lost)} of them for abandoned model calls")


def _format_agent(agent: RecordedAgent) -> Iterator[Line]:
    name = "" if agent.config is None else f" {agent.config.get('name', '')!r}"
    if agent.current is None or agent.config is None:
        yield _build_field("agent", f"{agent.agent_id} version {agent.version}, which no longer exists")
        return
    now = "the current one" if agent.current == agent.version else f"now at version {agent.current}"
    yield _build_field("agent", f"{agent.agent_id}{name} version {agent.version}, {now}")
    for change in agent.changes:
        values = f"{printing.format_cell(change.then)} → {printing.format_cell(change.now)}"
        yield _build_field("", f"changed since: {change.field}: {values}")
    if agent.current != agent.version and not agent.changes:
        yield _build_field("", "unchanged since then, except for secrets")


def _format_prompt(found: Provenance) -> Iterator[Line]:
    if found.prompt_override is not None:
        yield _build_field("prompt", f"of the request: {shorten(found.prompt_override, _PROMPT)}")
    elif found.agent.config is not None:
        yield _build_field("prompt", shorten(found.agent.config.get("system_prompt", ""), _PROMPT) or "none")


def _format_messages(found: Provenance) -> Iterator[Line]:
    """Format what the model received in the last call: a line for each block of the newest messages."""
    count = len(found.messages)
    yield _build_field("messages", f"{count}" + (f", the last {_MESSAGES}:" if count > _MESSAGES else ""))
    for message in found.messages[-_MESSAGES:]:
        for block in message["content"]:
            is_summary = found.compacted is not None and found.compacted.summary in str(block.get("text"))
            yield _build_field(
                f"  {message['role']}", "the summary above" if is_summary else _format_block(block)
            )


def _format_block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return shorten(text, _TEXT)
        case {"type": "tool_use", "name": str(name), "input": given}:
            return f"calls {shorten(name, 100)}({format_fields(given, _TEXT)})"
        case {"type": "tool_result", "content": str(content)}:
            return f"result {shorten(content, _TEXT)}"
        case {"type": "tool_result", "content": content}:
            return f"result {format_fields(content, _TEXT)}"
        case _:
            return str(block.get("type"))


def _format_rounds(found: Provenance) -> Iterator[Line]:
    before: tuple[str | None, str | None] | None = None
    for each in found.rounds:
        timing = f"{each.at}, {format_duration(each.seconds)}, shown {format_count(each.messages, 'message')}"
        yield _build_field(
            f"round {each.number}", f"{timing}: {each.stop_reason}, {format_tokens(each.usage)}"
        )
        if each.text:
            yield _build_field("", shorten(each.text, _TEXT))
        if before != (before := (each.prompt_sha256, each.tools_sha256)):
            yield _build_field("", f"prompt sha256 {each.prompt_sha256 or 'not recorded'}")
            yield _build_field("", f"tools  sha256 {each.tools_sha256 or 'not recorded'}")
        for call in each.calls:
            yield from format_call(call, 2)


def _build_field(name: str, value: str) -> Line:
    return Line(0, f"{name:<14}", value)
