"""`agentchat replay why`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from conversations.aggregate.history import Message
from ops.admin import show as printing
from ops.admin.options import AsJson
from ops.chat.safe import clean, compact, one_line
from ops.output import counted
from ops.replay.database import run
from ops.replay.drawing import draw_call, draw_sources, draw_summary, tokens
from ops.replay.provenance import Configured, Made, made

_PROMPT = 2000
_TEXT = 400
_MESSAGES = 20


def why(
    message: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="A message's id, or a trace id.")],
    as_json: AsJson = False,
) -> None:
    """Tell what made a message: agent and configuration, model, prompt, sources, tools, tokens, workers.

    Exit code 2: there is no such message.
    """
    found = run(lambda _, pool: made(pool, message.lower()))
    if as_json:
        printing.as_json(found)
    else:
        _draw(printing.console(), found)


def _draw(console: Console, found: Made) -> None:
    first, last = found.versions
    what = f"message {found.message_id}" if found.message_id else "no reply was saved"
    code = f" ({found.code})" if found.code else ""
    _field(console, found.role or "reply", what)
    if found.role == "user":
        _field(console, "", "its own words: what follows made the reply to it")
    _field(console, "conversation", f"{found.conversation_id}, versions {first:,} to {last:,}")
    _field(console, "run", f"{found.state}{code}, trace {found.trace_id}, asked for as {found.form}")
    _field(console, "time", f"{found.requested_at} to {found.ended_at or 'now'}")
    for attempt in found.attempts:
        worker = attempt.worker or "a worker that was not recorded"
        _field(console, f"attempt {attempt.attempt}", f"{attempt.at}  {worker}")
    _draw_agent(console, found.agent)
    _field(console, "model", found.model)
    _draw_prompt(console, found)
    if found.sources is not None:
        _field(console, "sources", f"{len(found.sources)}")
        draw_sources(console, found.sources, indent=2)
    if found.compacted is not None:
        draw_summary(console, found.compacted)
    _draw_messages(console, found.messages, found.compacted.summary if found.compacted else None)
    _draw_rounds(console, found)
    _field(console, "tokens", tokens(found.usage))
    if found.lost.total:
        _field(console, "", f"{tokens(found.lost)} of them for model calls that were given up")


def _draw_agent(console: Console, agent: Configured) -> None:
    name = "" if agent.config is None else f" {agent.config.get('name', '')!r}"
    if agent.current is None or agent.config is None:
        gone = "which is not here: it was deleted, or never was"
        _field(console, "agent", f"{agent.agent_id} version {agent.version}, {gone}")
        return
    now = "the current one" if agent.current == agent.version else f"now at version {agent.current}"
    _field(console, "agent", f"{agent.agent_id}{name} version {agent.version}, {now}")
    for change in agent.changes:
        _field(
            console,
            "",
            f"changed since: {change.field}: {printing.cell(change.then)} → {printing.cell(change.now)}",
        )
    if agent.current != agent.version and not agent.changes:
        _field(console, "", "nothing but secrets has changed since, if anything")


def _draw_prompt(console: Console, found: Made) -> None:
    if found.prompt_override is not None:
        _field(console, "prompt", f"the request's own: {one_line(found.prompt_override, _PROMPT)}")
    elif found.agent.config is not None:
        prompt: Any = found.agent.config.get("system_prompt", "")
        _field(console, "prompt", one_line(prompt, _PROMPT) or "none")


def _draw_messages(console: Console, messages: Sequence[Message], summary: str | None) -> None:
    """What the model was shown in the last call: a line for each block of the newest messages."""
    earlier = len(messages) - _MESSAGES
    _field(console, "messages", f"{len(messages)}" + (f", the last {_MESSAGES}:" if earlier > 0 else ""))
    for message in messages[-_MESSAGES:]:
        for block in message["content"]:
            is_summary = summary is not None and summary in str(block.get("text"))
            text = "the summary above" if is_summary else _block(block)
            _field(console, f"  {message['role']}", text)


def _block(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(said)}:
            return one_line(said, _TEXT)
        case {"type": "tool_use", "name": str(name), "input": given}:
            return f"calls {one_line(name, 100)}({compact(given, _TEXT)})"
        case {"type": "tool_result", "content": content}:
            return (
                f"result {one_line(content if isinstance(content, str) else compact(content, _TEXT), _TEXT)}"
            )
        case _:
            return str(block.get("type"))


def _draw_rounds(console: Console, found: Made) -> None:
    before: tuple[str | None, str | None] | None = None
    for each in found.rounds:
        took = f"{each.at}, {each.seconds:.1f} s, shown {counted(each.messages, 'message')}"
        _field(console, f"round {each.number}", f"{took}: {each.stop_reason}, {tokens(each.usage)}")
        if each.text:
            _field(console, "", one_line(each.text, _TEXT))
        prefix = (each.prompt_sha256, each.tools_sha256)
        if prefix != before:
            _field(console, "", f"prompt sha256 {each.prompt_sha256 or 'not recorded'}")
            _field(console, "", f"tools  sha256 {each.tools_sha256 or 'not recorded'}")
        before = prefix
        for call in each.calls:
            draw_call(console, call, indent=2)


def _field(console: Console, name: str, value: str) -> None:
    console.print(Text.assemble((f"{name:<14}", "bold"), clean(value)), soft_wrap=True)
