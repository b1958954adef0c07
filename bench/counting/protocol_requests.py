"""The smallest request of each protocol, and how its answer ends."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import msgspec

from bench.load import DONE

FORM1 = "form 1"


class ProtocolRequest(msgspec.Struct, frozen=True):
    """`path` has the agent's id in `{agent}`, `body` takes its name, `done` is in the last event."""

    path: str
    body: Callable[[str], dict[str, Any]]
    done: str
    headers: Mapping[str, str] = {}

    def headers_for(self, key: str, agent_id: str) -> dict[str, str]:
        """Build the headers; OpenAI's clients send the key in their own way, and the agent in the body."""
        if self.path.startswith("/openai/"):
            return {"Authorization": f"Bearer {key}"}
        return {"X-Api-Key": key, "X-Agent-Id": agent_id, **self.headers}


def _own(_: str) -> dict[str, Any]:
    return {"message": "Go."}


def _ai_sdk(_: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "Go."}]
    return {"id": f"{uuid4()}", "messages": [{"id": "m", "role": "user", "parts": parts}]}


def _ag_ui(_: str) -> dict[str, Any]:
    message = {"id": "m", "role": "user", "content": "Go."}
    return {"threadId": f"{uuid4()}", "runId": f"{uuid4()}", "messages": [message]}


def _completion(agent: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Go."}]
    return {"model": agent, "messages": messages, "stream": True, "user": f"{uuid4()}"}


def _response(agent: str) -> dict[str, Any]:
    return {"model": agent, "input": "Go.", "stream": True, "user": f"{uuid4()}"}


PROTOCOLS: Mapping[str, ProtocolRequest] = {
    FORM1: ProtocolRequest("/v1/chat/stream", _own, DONE, {"X-Stream-Form": "1"}),
    "form 2": ProtocolRequest("/v1/chat/stream", _own, DONE, {"X-Stream-Form": "2"}),
    "AI SDK": ProtocolRequest("/ai-sdk/v1/agents/{agent}/chat", _ai_sdk, '"type":"finish"'),
    "AG-UI": ProtocolRequest("/ag-ui/v1/agents/{agent}", _ag_ui, '"type":"RUN_FINISHED"'),
    "OpenAI chat": ProtocolRequest("/openai/v1/chat/completions", _completion, "[DONE]"),
    "OpenAI responses": ProtocolRequest("/openai/v1/responses", _response, '"type":"response.completed"'),
}
