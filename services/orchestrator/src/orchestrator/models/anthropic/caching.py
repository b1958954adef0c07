"""Prompt caching: where the provider is to keep what it has read (Messages API, prompt caching).

An entry is made at a breakpoint only, and found again only where all before it is the same. A request may
have four. We set three: at the end of what all threads of an agent share; at the end of what later runs of
the thread begin with; and at the tail, for the next round of this run and for the run after it. An order to
go on after a cut reply is sent once, and stands after the tail.
"""

from typing import Any

from orchestrator.models.port import ModelCall

_DEFAULT = {"type": "ephemeral"}
_OFF = "off"
_UNMARKED = frozenset({"thinking", "redacted_thinking"})  # a breakpoint on them is refused


def mark(body: dict[str, Any], call: ModelCall) -> None:
    """Mark the breakpoints in the call's body, as its agent's `cache_control` says."""
    control = body.pop("cache_control", None) or _DEFAULT
    if control["type"] == _OFF:
        return
    shared = body.get("system") or body.get("tools") or []
    _mark_block(shared, len(shared), control)
    tail = sum(len(message["content"]) for message in call.messages)
    for number in {call.earlier, tail}:
        _mark_block_of(body["messages"], number, control)


def _mark_block_of(messages: list[dict[str, Any]], number: int, control: dict[str, Any]) -> None:
    """Mark the last of the first `number` blocks, in a copy: messages are kept for other calls."""
    for place, message in enumerate(messages):
        content = message["content"]
        if number <= len(content):
            messages[place] = message | {"content": [*content]}
            _mark_block(messages[place]["content"], number, control)
            return
        number -= len(content)


def _mark_block(blocks: list[dict[str, Any]], number: int, control: dict[str, Any]) -> None:
    if number and blocks[number - 1].get("type") not in _UNMARKED:
        blocks[number - 1] = blocks[number - 1] | {"cache_control": control}
