"""The service's responses in these tests."""

from typing import Any

from tests.client.server import TRACE

THREAD = "0192f0c1-0000-7000-8000-00000000000c"

MESSAGE: dict[str, Any] = {
    "id": "0192f0c1-0000-7000-8000-00000000000d",
    "conversation_id": THREAD,
    "role": "assistant",
    "content": "Grüße, Ada.",
    "token_count": 42,
    "created_at": "2026-11-21T08:00:00.000Z",
}
TOOL: dict[str, Any] = {
    "name": "get_order",
    "input": {"order_id": "ORD-1"},
    "output": '{"status":"sent"}',
    "id": "call-1",
    "is_error": False,
}
SOURCE: dict[str, Any] = {
    "index": 1,
    "id": "s1",
    "title": "Returns",
    "url": "https://shop.example/returns",
    "source_type": "web",
    "score": 0.5,
    "snippet": "Within 30 days.",
}
REPLY: dict[str, Any] = {"conversation_id": THREAD, "message": MESSAGE, "tool_calls": [TOOL]}

META = {"type": "meta", "conversation_id": THREAD, "trace_id": TRACE}
SOURCES = {"type": "sources", "sources": [SOURCE]}
START = {"type": "start", "conversation_id": THREAD}
HELLO = {"type": "delta", "content": "Grüße, "}
ADA = {"type": "delta", "content": "Ada."}
TOOL_CALL = {"type": "tool_call", "name": TOOL["name"], "input": TOOL["input"], "id": TOOL["id"]}
DONE_1 = {"type": "done", "conversation_id": THREAD, "trace_id": TRACE}
DONE_2 = {"type": "done", "message": MESSAGE, "tool_calls": [TOOL]}
FAILURE = {"type": "error", "code": "provider_error", "message": "The model provider failed."}

FORM_1 = (META, SOURCES, HELLO, ADA, DONE_1)
FORM_2 = (START, HELLO, TOOL_CALL, ADA, DONE_2)


def make_delta(content: str) -> dict[str, str]:
    return {"type": "delta", "content": content}


def make_conversation(number: int) -> dict[str, Any]:
    return {
        "conversation_id": f"thread-{number}",
        "title": None,
        "agent_id": None,
        "message_count": number,
        "created_at": MESSAGE["created_at"],
        "updated_at": MESSAGE["created_at"],
    }


def make_message(number: int) -> dict[str, Any]:
    make_message = {**MESSAGE, "id": f"message-{number}", "agent_id": "agent", "trace_id": TRACE}
    if number % 2:
        del make_message["token_count"]
        make_message["role"] = "user"
    return make_message
