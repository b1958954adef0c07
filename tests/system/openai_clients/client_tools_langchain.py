"""LangChain's bind_tools against our API, in an environment of its own."""

import json
import os
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool  # type: ignore[untyped-decorator]  # mypy does not see that environment
def show_map(place: str) -> str:
    """Show a place on the user's screen."""
    return f"It shows Ulm, not {place}."


told = {}
for name, options in {"completions": {}, "responses": {"use_responses_api": True}}.items():
    model: Any = ChatOpenAI(model=os.environ["AGENT"], **options).bind_tools([show_map])
    messages: list[Any] = [HumanMessage(os.environ["QUESTION"])]
    called = model.invoke(messages)
    messages += [called, *(show_map.invoke(call) for call in called.tool_calls)]
    reply = model.invoke(messages)
    told[name] = {"calls": [call["name"] for call in called.tool_calls], "text": reply.text}
print(json.dumps(told))
