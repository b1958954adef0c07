"""Requests to the Chat Completions wire by plain HTTP, and their streams taken apart."""

from typing import Any

from openai.types.chat import ChatCompletionMessageParam

from tests.model_demo.messages import GET_ORDER

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
