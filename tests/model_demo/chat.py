"""Requests to the Chat Completions wire by plain HTTP, and their streams taken apart."""

import json
from typing import Any

import httpx
from openai.types.chat import ChatCompletionMessageParam

from tests.model_demo.messages import GET_ORDER

BEARER = {"authorization": "Bearer any-key"}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": GET_ORDER["name"],
        "description": GET_ORDER["description"],
        "parameters": GET_ORDER["input_schema"],
    },
}


def build_user_message(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


def build_calls(*ids: str) -> dict[str, Any]:
    """Build an assistant's message that calls get_order."""
    called = {"name": "get_order", "arguments": '{"order_id":"ORD-1001"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": called} for one in ids],
    }


def build_result(call_id: str, text: str = "{}") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


async def post(address: str, headers: dict[str, str] = BEARER, **more: Any) -> httpx.Response:
    body = {"model": "demo-echo", "messages": [build_user_message("Hello")], **more}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=20) as http:
        return await http.post("/v1/chat/completions", json=body)


def read_chunks(answer: httpx.Response) -> list[Any]:
    """Read the decoded data of a stream's events, except the last word."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.removesuffix("\n\n").split("\n\n")
    return [
        event if event == "data: [DONE]" else json.loads(event.removeprefix("data: ")) for event in events
    ]


def list_texts(chunks: list[Any]) -> list[str]:
    deltas = [choice["delta"] for chunk in chunks if isinstance(chunk, dict) for choice in chunk["choices"]]
    return [delta["content"] for delta in deltas if delta.get("content")]
