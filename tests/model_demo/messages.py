"""Helpers for tests of the Messages wire: requests, a tool, and the parts of a message."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Ask = Callable[..., Awaitable[dict[str, Any]]]
Events = Callable[..., AsyncIterator[tuple[str, dict[str, Any]]]]
Tools = list[dict[str, Any]]

GET_ORDER: dict[str, Any] = {
    "name": "get_order",
    "description": "Show an order.",
    "input_schema": {
        "type": "object",
        "properties": {"order_id": {"type": "string", "pattern": "^ORD-[0-9]{4}$"}},
        "required": ["order_id"],
    },
}


def list_calls(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Names and inputs of the tools that a message calls."""
    return [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]


def get_text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")
