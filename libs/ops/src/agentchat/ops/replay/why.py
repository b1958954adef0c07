"""`agentchat replay why`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from agentchat.ops import printing
from agentchat.ops.admin.options import AsJson
from agentchat.ops.connections import run
from agentchat.ops.output import compact, counted, one_line
from agentchat.ops.replay.provenance import AnsweringVersion, Provenance, provenance_of
from agentchat.ops.replay.replay_lines import (
    Line,
    call_lines,
    print_lines,
    source_lines,
    summary_lines,
    tokens,
)

_PROMPT = 2000
_TEXT = 400
_MESSAGES = 20


def why(
    message: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="A message's id, or a trace id.")],
    as_json: AsJson = False,
) -> None:
    """Show how a message was made: agent and configuration, model, prompt, sources, tools, tokens, workers.

    Exit code 2: there is no such message.
    """
    found = run(lambda _, pool: provenance_of(pool, message.lower()))
    if as_json:
        printing.as_json(found)
    else:
        print_lines(_lines(found))


def _lines(found: Provenance) -> Iterator[Line]:
    first, last = found.versions
    code = f" ({found.code})" if found.code else ""
    yield _field(found.role or "reply", f"message {found.message_id}" if found.message_id else "not saved")
    if found.role == "user":
        yield _field("", "written by the user: the lines below are about the reply to it")
    yield _field("conversation", f"{found.conversation_id}, versions {first:,} to {last:,}")
    yield _field("run", f"{found.state}{code}, trace {found.trace_id}, requested as {found.form}")
    yield _field("time", f"{found.requested_at} to {found.ended_at or 'now'}")
    for attempt in found.attempts:
        yield _field(f"attempt {attempt.attempt}", f"{attempt.at}  {attempt.worker or 'worker not recorded'}")
    yield from _agent_lines(found.agent)
    yield _field("model", found.model)
    yield from _prompt_lines(found)
    if found.sources is not None:
        yield _field("sources", f"{len(found.sources)}")
        yield from source_lines(found.sources, 2)
    if found.compacted is not None:
        yield from summary_lines(found.compacted)
    yield from _message_lines(found)
    yield from _round_lines(found)
    yield _field("tokens", tokens(found.usage))
    if found.lost.total:
        yield _field("", f"{tokens(found.lost)} of them for model calls that were given up")


def _agent_lines(agent: AnsweringVersion) -> Iterator[Line]:
    name = "" if agent.config is None else f" {agent.config.get('name', '')!r}"
    if agent.current is None or agent.config is None:
        yield _field("agent", f"{agent.agent_id} version {agent.version}, which does not exist (any more)")
        return
    now = "the current one" if agent.current == agent.version else f"now at version {agent.current}"
    yield _field("agent", f"{agent.agent_id}{name} version {agent.version}, {now}")
    for change in agent.changes:
        values = f"{printing.cell(change.then)} → {printing.cell(change.now)}"
        yield _field("", f"changed since: {change.field}: {values}")
    if agent.current != agent.version and not agent.changes:
        yield _field("", "unchanged since, except secrets")


def _prompt_lines(found: Provenance) -> Iterator[Line]:
    if found.prompt_override is not None:
        yield _field("prompt", f"of the request: {one_line(found.prompt_override, _PROMPT)}")
    elif found.agent.config is not None:
        yield _field("prompt", one_line(found.agent.config.get("system_prompt", ""), _PROMPT) or "none")


def _message_lines(found: Provenance) -> Iterator[Line]:
    """What the model was shown in the last call: a line for each block of the newest messages."""
    count = len(found.messages)
    yield _field("messages", f"{count}" + (f", the last {_MESSAGES}:" if count > _MESSAGES else ""))
    for message in found.messages[-_MESSAGES:]:
        for block in message["content"]:
            is_summary = found.compacted is not None and found.compacted.summary in str(block.get("text"))
            yield _field(f"  {message['role']}", "the summary above" if is_summary else _block(block))


def _block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return one_line(text, _TEXT)
        case {"type": "tool_use", "name": str(name), "input": given}:
            return f"calls {one_line(name, 100)}({compact(given, _TEXT)})"
        case {"type": "tool_result", "content": str(content)}:
            return f"result {one_line(content, _TEXT)}"
        case {"type": "tool_result", "content": content}:
            return f"result {compact(content, _TEXT)}"
        case _:
            return str(block.get("type"))


def _round_lines(found: Provenance) -> Iterator[Line]:
    before: tuple[str | None, str | None] | None = None
    for each in found.rounds:
        timing = f"{each.at}, {each.seconds:.1f} s, shown {counted(each.messages, 'message')}"
        yield _field(f"round {each.number}", f"{timing}: {each.stop_reason}, {tokens(each.usage)}")
        if each.text:
            yield _field("", one_line(each.text, _TEXT))
        if before != (before := (each.prompt_sha256, each.tools_sha256)):
            yield _field("", f"prompt sha256 {each.prompt_sha256 or 'not recorded'}")
            yield _field("", f"tools  sha256 {each.tools_sha256 or 'not recorded'}")
        for call in each.calls:
            yield from call_lines(call, 2)


def _field(name: str, value: str) -> Line:
    return Line(0, f"{name:<14}", value)
