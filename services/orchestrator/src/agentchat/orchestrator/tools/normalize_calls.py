"""Make the tool calls of a reply fit to be stored, sent back to the model, and run.

A call that cannot be run is answered at once with an error for the model; it does not end the run.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.ids import make_call_id
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate.rounds import list_tool_calls

MAX_CALLS = 64
MAX_INPUT_BYTES = 64 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

Block = dict[str, Any]


def make_sendable(
    blocks: Iterable[Block], used_ids: set[str], client_tools: Collection[str] = ()
) -> tuple[Block, ...]:
    """Return the blocks with call ids that are unique in the thread and names that providers accept.

    `used_ids` are the ids that the thread has used; those of the blocks are added. A client finds the run by
    the ids of the calls of its tools, so these are unique among all calls.
    """
    kept: list[Block] = []
    for block in blocks:
        if block.get("type") == "tool_use":
            name = _sanitize_name(block["name"])
            call_id = make_call_id() if name in client_tools else _make_unique(block["id"], used_ids)
            block = block | {"id": call_id, "name": name}
            used_ids.add(block["id"])
        kept.append(block)
    return tuple(kept)


def _make_unique(call_id: str, seen: set[str]) -> str:
    if _ID.match(call_id) and call_id not in seen:
        return call_id
    number = len(seen) + 1
    while f"call_{number}" in seen:
        number += 1
    return f"call_{number}"


def _sanitize_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)[:128] or "unnamed"


def build_call_events(
    reply: events.ModelReplied,
    offered: Mapping[str, ToolSpec],
    bad_inputs: Mapping[str, str],
    held: Collection[str] = (),
    client_tools: Collection[str] = (),
) -> tuple[events.ToolCalled | events.ToolReturned, ...]:
    """Build the events of a reply's calls, with error results for those that cannot be run.

    `bad_inputs` maps a call's id to what is wrong with its input. Calls of tools in `held` need an approval,
    those of `client_tools` are for the client, unless they cannot be run.
    """
    called: list[events.ToolCalled] = []
    answered: list[events.ToolReturned] = []
    for number, call in enumerate(list_tool_calls(reply)):
        problem = bad_inputs.get(call.call_id) or _find_problem(number, call, offered)
        is_client = call.name in client_tools and not problem
        called.append(msgspec.structs.replace(call, needs_approval=call.name in held, is_client=is_client))
        if problem:
            answered.append(_build_error_result(call, problem))
    return (*called, *answered)


def _find_problem(number: int, call: events.ToolCalled, offered: Mapping[str, ToolSpec]) -> str:
    if call.name not in offered:
        return f"Unknown tool {call.name}."
    if number >= MAX_CALLS:
        return f"At most {MAX_CALLS} tools can be called at once."
    if len(wire.encode(call.input)) > MAX_INPUT_BYTES:
        return f"The input is longer than {MAX_INPUT_BYTES} bytes."
    return ""


def _build_error_result(call: events.ToolCalled, problem: str) -> events.ToolReturned:
    return events.ToolReturned(
        trace_id=call.trace_id,
        at=call.at,
        round=call.round,
        call_id=call.call_id,
        output=wire.encode_tool_error(problem),
        is_error=True,
        ms=0,
    )
