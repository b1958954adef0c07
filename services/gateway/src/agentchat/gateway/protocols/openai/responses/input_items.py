"""Read the input of a response as messages of a chat completion, which say the same."""

import re
from typing import Any

import msgspec

from agentchat.contracts import ids, wire
from agentchat.contracts.approval_bodies import DecisionBody
from agentchat.contracts.values import ClientToolResult
from agentchat.gateway.attachments.requested_attachment import build_attachment_refusal
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.protocols.openai.completion_body import (
    OpenAiFunction,
    OpenAiMessage,
    OpenAiToolCall,
    read_tool_results,
)
from agentchat.gateway.protocols.openai.content_parts import OpenAiPart
from agentchat.gateway.runs.run_request import Reason, Verdict

_ANSWER = "mcp_approval_response"
_OURS = (
    *("mcp_call", "mcp_list_tools", "mcp_approval_request", _ANSWER),
    *("reasoning", "compaction"),
)
_REFERENCE = "item_reference"
_MESSAGE_ID = re.compile(r"(?:msg|fc)_([0-9a-f]{32}(?:_[1-9][0-9]{0,8}(?:_[1-9][0-9]?)?)?)_[1-9][0-9]{0,8}\Z")
_CALL_ID = re.compile(r"mcpr?_[!-~]{1,255}\Z")


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message, something that a tool of the client's did, or what a person says of one of ours."""

    type: str = "message"
    id: str | None = None
    role: str = ""
    content: str | tuple[OpenAiPart, ...] | None = None
    call_id: str = ""
    name: str = ""
    arguments: Any = None
    output: Any = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: Reason = None
    input: Any = None


class Reference(msgspec.Struct, frozen=True):
    """An earlier item that is named by its id: what comes after it is new.

    `response` is the id of the response that has the item; if it is empty, `approval` is the id of an
    approval of its run. `field` is the place of the item in the body.
    """

    response: str
    field: str
    approval: str = ""


def split_at_reference(
    given: str | tuple[InputItem, ...],
) -> tuple[Reference | None, int, str | tuple[InputItem, ...]]:
    """Return the last reply named by its id, the place after it, and the items after it.

    Clients name earlier items by id if responses are stored; the conversation has what is before them. An
    approval request counts if no message of the agent is named.

    Raises Refusal: 400 for an id that is not ours.
    """
    if isinstance(given, str):
        return None, 0, given
    found: Reference | None = None
    end = 0
    for index, item in enumerate(given):
        if item.type == _REFERENCE:
            field, end = f"input[{index}].id", index + 1
            message = _MESSAGE_ID.match(item.id or "")
            if message is not None:
                found = Reference(f"resp_{message[1]}", field)
            elif ids.is_uuid((item.id or "").lower()):
                if found is None or found.approval:
                    found = Reference("", field, approval=item.id or "")
            elif not _CALL_ID.match(item.id or ""):
                raise make_unknown_item(field)
    if end and found is None:
        raise make_unknown_item(f"input[{end - 1}].id")
    return found, end, given[end:]


def make_unknown_item(field: str) -> Refusal:
    """Build the refusal of an unknown item."""
    return build_field_refusal(
        field, "There is no such item: only items of this account's responses can be named."
    )


def read_verdicts(given: str | tuple[InputItem, ...]) -> tuple[Verdict, ...]:
    """Read the decisions at the end of the items, if they are what is new. Raises Refusal."""
    items = () if isinstance(given, str) else given
    new = [index for index, item in enumerate(items) if item.type != _ANSWER][-1:]
    first = new[0] + 1 if new else 0
    return tuple(
        _read_verdict(item, f"input[{index}]") for index, item in enumerate(items[first:], start=first)
    )


def _read_verdict(item: InputItem, place: str) -> Verdict:
    if item.approve is None:
        raise build_field_refusal(f"{place}.approve", "This must be true or false.")
    if not isinstance(item.input, dict | None):
        raise build_field_refusal(f"{place}.input", "This must be an object.")
    decision = DecisionBody(
        decision="approved" if item.approve else "denied", input=item.input, reason=item.reason or None
    )
    return Verdict(approval_id=item.approval_request_id or "", body=decision)


def read_function_outputs(
    given: str | tuple[InputItem, ...], output_function: str | None
) -> tuple[ClientToolResult, ...]:
    """Read the results of the client's tools at the end of the items. Raises Refusal."""
    items = () if isinstance(given, str) else given
    new = [index for index, item in enumerate(items) if item.type != "function_call_output"][-1:]
    return read_tool_results(as_messages(items[new[0] + 1 if new else 0 :]), output_function)


def check_no_outputs(given: str | tuple[InputItem, ...], first: int) -> None:
    """Raise Refusal, 400, if new items have the output of a call of ours before something else.

    The run that waits for the output would end without it.
    """
    for index, item in enumerate(() if isinstance(given, str) else given, start=first):
        if item.type == "function_call_output" and ids.find_request_id(item.call_id) is not None:
            message = "Send only the outputs of function calls, and the rest after the response to them."
            raise build_field_refusal(f"input[{index}]", message)


def as_messages(given: str | tuple[InputItem, ...], first: int = 0) -> tuple[OpenAiMessage, ...]:
    """Return the items as messages, in order; they begin in the body at place `first`. Raises Refusal."""
    if isinstance(given, str):
        return (OpenAiMessage(role="user", content=given),)
    read = (_to_message(item, f"input[{index}]") for index, item in enumerate(given, start=first))
    return tuple(message for message in read if message is not None)


def _to_message(item: InputItem, place: str) -> OpenAiMessage | None:
    """Convert an item; None for one of ours, which the conversation has."""
    match item.type:
        case "message":
            return OpenAiMessage(role=item.role, content=item.content)
        case "function_call":
            call = OpenAiToolCall(
                id=item.call_id, function=OpenAiFunction(name=item.name, arguments=item.arguments)
            )
            return OpenAiMessage(role="assistant", tool_calls=(call,))
        case "function_call_output":
            _check_no_files(item.output, f"{place}.output")
            output = item.output if isinstance(item.output, str) else wire.encode(item.output).decode()
            return OpenAiMessage(role="tool", tool_call_id=item.call_id, content=output)
        case _ if item.type in _OURS:
            return None
        case _:
            raise build_field_refusal(f"{place}.type", f"Items of type {item.type[:40]} cannot be read here.")


def _check_no_files(output: Any, path: str) -> None:
    """Raise Refusal, 400, if the output of a function is a list of parts and one of them is a file."""
    for index, part in enumerate(output if isinstance(output, list) else ()):
        if isinstance(part, dict) and part.get("type") in ("input_image", "input_file"):
            message = f"No {part['type']} can be read in the output of a function."
            raise build_attachment_refusal(f"{path}[{index}]", message)
