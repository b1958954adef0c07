"""The checks of `python -m tests.smoke`: each asks an agent of one provider; AssertionError if it fails."""

# ruff: noqa: PT017 - they are no tests of pytest

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec

from agentchat.client import AgentChat, AgentChatError, ChatError, Delta, Reply, ToolCall

_LONG_PROMPT = "You are a careful assistant. " + "Answer in one short sentence. " * 400
"""Longer than the 1,024 tokens from which on providers cache."""
_COLOUR_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
    "additionalProperties": False,
}
_COUNT = "Count from 1 to 60 in words, a line each."
_THINKING: dict[str, dict[str, Any]] = {
    "anthropic": {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    "openai": {"reasoning_effort": "low"},
}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider whose key is set. `name` is the one that agents have."""

    name: str
    model: str


class Smoke:
    """Makes agents of one provider, and talks with them."""

    def __init__(
        self,
        provider: Provider,
        base_url: str,
        api_key: str,
        account_id: str,
        admin: httpx.Client,
        mcp_url: str,
    ) -> None:
        self._provider = provider
        self._base_url = base_url
        self._api_key = api_key
        self._account_id = account_id
        self._admin = admin
        self._mcp_url = mcp_url

    def checks(self) -> dict[str, Callable[[], str]]:
        """Return each check by its name; it returns a few words for the report."""
        return {
            "complete reply": self._reply,
            "stream": self._stream,
            "thread remembers": self._memory,
            "tool call": self._tool_call,
            "approval": self._approval,
            "structured output": self._structured_output,
            "thinking": self._check_thinking,
            "prompt cache": self._cache,
            "cancel": self._cancel,
            "long reply": self._long_reply,
            "unknown model": self._unknown_model,
            "wrong key": self._wrong_key,
        }

    def _reply(self) -> str:
        reply = self._chat(self._agent(), "Answer with the one word: ready")
        assert "ready" in reply.message.content.lower(), reply.message.content
        return f"{reply.message.token_count} tokens"

    def _stream(self) -> str:
        began, pieces, first = time.monotonic(), 0, 0.0
        with self._client(self._agent()) as client, client.stream(_COUNT) as stream:
            for event in stream:
                if isinstance(event, Delta):
                    first = first or time.monotonic() - began
                    pieces += 1
        assert pieces > 1, "the reply came in one piece"
        return f"first text after {first:.2f} s, {pieces} pieces"

    def _memory(self) -> str:
        with self._client(self._agent()) as client:
            thread = client.chat("My name is Ada. Answer: hello").conversation_id
            reply = client.chat("What is my name?", thread)
        assert "ada" in reply.message.content.lower(), reply.message.content
        return "the name of the turn before"

    def _tool_call(self) -> str:
        reply = self._chat(self._agent(**self._shop()), "Where is order ORD-1006? Use your tools.")
        assert reply.tool_calls, "no tool was called"
        return ", ".join(dict.fromkeys(call.name for call in reply.tool_calls))

    def _approval(self) -> str:
        with self._client(self._agent(**self._shop(require_approval="always"))) as client:
            try:
                with client.stream("Where is order ORD-1006? Use your tools.", form=2) as stream:
                    events = list(stream)
            except ChatError as error:
                assert error.approvals, error
                assert error.trace_id is not None
                for approval in error.approvals:
                    client.decide(approval.id, "approved")
                with client.events(error.trace_id, form=2) as stream:
                    events = list(stream)
                assert any(isinstance(event, ToolCall) for event in events)
                return "approved, and the reply went on"
        raise AssertionError(f"nothing waited for approval: {len(events)} events")

    def _structured_output(self) -> str:
        agent = self._agent(output_type="json", output_schema=_COLOUR_SCHEMA)
        reply = self._chat(agent, "Which colour has the sky on a clear day?")
        assert set(json.loads(reply.message.content)) == {"colour"}, reply.message.content
        return reply.message.content.strip()[:60]

    def _check_thinking(self) -> str:
        reply = self._chat(
            self._agent(parameters=_THINKING[self._provider.name]),
            "What is 17 times 23?",
        )
        assert "391" in reply.message.content, reply.message.content
        return f"{reply.message.token_count} tokens"

    def _cache(self) -> str:
        agent = self._agent(system_prompt=_LONG_PROMPT)
        with self._client(agent) as client:
            thread = client.chat("Say one").conversation_id
            client.chat("Say two", thread)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            usage = self._admin.get(f"/accounts/{self._account_id}/usage").raise_for_status().json()
            lines = [line for line in usage["lines"] if line["agent_id"] == agent and line["runs"] == 2]
            if lines:
                read = sum(line["cache_read_tokens"] for line in lines)
                assert read > 0, "no token was read from the cache"
                return f"{read:,} tokens read from the cache"
            time.sleep(0.5)
        raise AssertionError("the usage is not counted after 30 s")

    def _cancel(self) -> str:
        with self._client(self._agent()) as client, client.stream(_COUNT) as stream:
            try:
                for event in stream:
                    if isinstance(event, Delta):
                        stream.cancel()
            except ChatError as error:
                assert error.code == "cancelled", error
                return "cancelled"
        raise AssertionError("the reply was complete before it was cancelled")

    def _long_reply(self) -> str:
        reply = self._chat(self._agent(), _COUNT)
        assert "sixty" in reply.message.content.lower(), reply.message.content[-100:]
        return f"{len(reply.message.content):,} characters"

    def _unknown_model(self) -> str:
        return self._error(self._agent(model="no-such-model-0"))

    def _wrong_key(self) -> str:
        return self._error(self._agent(provider_key="sk-wrong-key"))

    def _error(self, agent: str) -> str:
        """Return how a failed call is reported to the caller."""
        try:
            self._chat(agent, "Hello")
        except AgentChatError as error:
            assert "sk-wrong" not in str(error), "the error shows the key"
            return str(error)[:160]
        raise AssertionError("it was answered")

    def _chat(self, agent: str, message: str) -> Reply:
        with self._client(agent) as client:
            return client.chat(message)

    @contextlib.contextmanager
    def _client(self, agent: str) -> Iterator[AgentChat]:
        with AgentChat(self._api_key, base_url=self._base_url, agent_id=agent, max_retries=0) as client:
            yield client

    def _shop(self, require_approval: str = "never") -> dict[str, Any]:
        return {
            "mcp_servers": [
                {
                    "name": "shop",
                    "url": self._mcp_url,
                    "allowed_tools": ["get_order"],
                    "require_approval": require_approval,
                }
            ]
        }

    def _agent(self, **changes: Any) -> str:
        draft = {
            "account_id": self._account_id,
            "name": "Smoke",
            "provider": self._provider.name,
            "model": self._provider.model,
            "system_prompt": "You answer briefly.",
        }
        made = self._admin.post("/agents", json=draft | changes).raise_for_status().json()
        return str(made["id"])
