"""The input of a response as messages of a chat completion, which say the same."""

from typing import Any

import msgspec

from contracts import wire
from contracts.http import DecisionBody
from gateway.chat.ask import Verdict
from gateway.doors.openai.messages import Call, Called, Given, Part
from gateway.http.problems import invalid

_ANSWER = "mcp_approval_response"
_TEXTS = ("input_text", "output_text", "text")
_OURS = (
    *("mcp_call", "mcp_list_tools", "mcp_approval_request", _ANSWER),
    *("reasoning", "item_reference", "compaction"),
)


class InputPart(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message, something that a tool of the client's did, or what a person says of one of ours."""

    type: str = "message"
    role: str = ""
    content: str | tuple[InputPart, ...] | None = None
    call_id: str = ""
    name: str = ""
    arguments: Any = None
    output: Any = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    input: Any = None


def verdicts_of(given: str | tuple[InputItem, ...]) -> tuple[Verdict, ...]:
    """What persons say, where that is what is new: the last of the items. Raises Refusal."""
    items = () if isinstance(given, str) else given
    new = [index for index, item in enumerate(items) if item.type != _ANSWER][-1:]
    first = new[0] + 1 if new else 0
    return tuple(_verdict(item, f"input[{index}]") for index, item in enumerate(items[first:], start=first))


def _verdict(item: InputItem, place: str) -> Verdict:
    if item.approve is None:
        raise invalid(f"{place}.approve", "This must be true or false.")
    if not isinstance(item.input, dict | None):
        raise invalid(f"{place}.input", "This must be an object.")
    decision = DecisionBody(
        decision="approved" if item.approve else "denied", input=item.input, reason=item.reason or None
    )
    return Verdict(approval_id=item.approval_request_id or "", body=decision)


def messages_of(given: str | tuple[InputItem, ...]) -> tuple[Given, ...]:
    """The same, in order. Raises Refusal."""
    if isinstance(given, str):
        return (Given(role="user", content=given),)
    read = (_message(item, f"input[{index}]") for index, item in enumerate(given))
    return tuple(message for message in read if message is not None)


def _message(item: InputItem, place: str) -> Given | None:
    """None for what is not to be read: items of ours, whose conversation has them."""
    match item.type:
        case "message":
            return Given(role=item.role, content=_content(item.content, place))
        case "function_call":
            call = Call(id=item.call_id, function=Called(name=item.name, arguments=item.arguments))
            return Given(role="assistant", tool_calls=(call,))
        case "function_call_output":
            output = item.output if isinstance(item.output, str) else wire.encode(item.output).decode()
            return Given(role="tool", tool_call_id=item.call_id, content=output)
        case _ if item.type in _OURS:
            return None
        case _:
            raise invalid(f"{place}.type", f"Items of type {item.type[:40]} cannot be read here.")


def _content(content: str | tuple[InputPart, ...] | None, place: str) -> str | tuple[Part, ...] | None:
    if not isinstance(content, tuple):
        return content
    parts = []
    for part in content:
        if part.type not in (*_TEXTS, "refusal"):
            raise invalid(f"{place}.content", f"Only text can be read here, not {part.type[:40]}.")
        kind = "refusal" if part.type == "refusal" else "text"
        parts.append(Part(type=kind, text=part.text, refusal=part.refusal))
    return tuple(parts)
