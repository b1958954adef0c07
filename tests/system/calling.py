"""How the system tests call the service: the specification's client, and nothing that it does not say."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from tests.harness import RunningStack

Event = dict[str, Any]
QUESTION = "Where is my order ORD-1001?"


class Caller:
    """One account's key with one agent, and the ways to ask."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, api_key: str, agent_id: str) -> None:
        self.http = http
        self.base_url = base_url
        self.headers = {"X-Api-Key": api_key, "X-Agent-Id": agent_id}

    @property
    def agent_id(self) -> str:
        return self.headers["X-Agent-Id"]

    @property
    def environ(self) -> dict[str, str]:
        """As the scripts of other clients read it."""
        return {
            "BASE_URL": self.base_url,
            "API_KEY": self.headers["X-Api-Key"],
            "AGENT": self.agent_id,
        }

    def at(self, base_url: str) -> "Caller":
        """The same caller at another gateway."""
        return Caller(self.http, base_url, self.headers["X-Api-Key"], self.headers["X-Agent-Id"])

    async def chat(self, message: str, **body: Any) -> httpx.Response:
        return await self.http.post(
            f"{self.base_url}/v1/chat", json={"message": message, **body}, headers=self.headers
        )

    @asynccontextmanager
    async def open_stream(
        self, message: str, form: int | str = 1, **body: Any
    ) -> AsyncIterator[httpx.Response]:
        async with self.http.stream(
            "POST",
            f"{self.base_url}/v1/chat/stream",
            json={"message": message, **body},
            headers={**self.headers, "X-Stream-Form": str(form)},
        ) as response:
            yield response

    async def stream(self, message: str, form: int | str = 1, **body: Any) -> list[Event]:
        async with self.open_stream(message, form, **body) as response:
            assert response.status_code == 200, await response.aread()
            return [event async for event in events_of(response)]

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.send("GET", path, params=query)

    async def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """A request with nothing but the key, and what is given."""
        headers = {"X-Api-Key": self.headers["X-Api-Key"], **given.pop("headers", {})}
        return await self.http.request(method, f"{self.base_url}{path}", headers=headers, **given)

    async def cancel(self, trace_id: str) -> httpx.Response:
        return await self.send("POST", f"/v1/chat/{trace_id}/cancel")

    async def delete(self, conversation_id: str) -> httpx.Response:
        return await self.send("DELETE", f"/v1/conversations/{conversation_id}")

    async def messages(self, conversation_id: str) -> list[dict[str, Any]]:
        response = await self.get(f"/v1/conversations/{conversation_id}/messages", limit=100)
        assert response.status_code == 200, response.text
        data: list[dict[str, Any]] = response.json()["data"]
        return data


def pro(stack: RunningStack, http: httpx.AsyncClient, agent_id: str | None = None) -> Caller:
    """The Pro account of a stack's demo, with the demo agent unless another is named."""
    found = stack.environment
    return Caller(http, found.base_url, found.api_key, agent_id or found.agent_id)


MakeAgent = Callable[..., Awaitable[Caller]]


async def make_client_agents(make_agent: MakeAgent) -> tuple[Caller, dict[str, str]]:
    """The shop's agent, and what scripts of clients read: it, a slow, a failing and a thinking agent."""
    shop = await make_agent("demo-shop-1", shop=True)
    slow = await make_agent("demo-load?deltas=200&delay_ms=50")
    failing = await make_agent("demo-echo?fail=400")
    thinking = await make_agent("demo-shop-1?think=1", reasoning="summary")
    return shop, {
        **shop.environ,
        "SLOW_AGENT": slow.agent_id,
        "FAILING_AGENT": failing.agent_id,
        "THINKING_AGENT": thinking.agent_id,
        "QUESTION": QUESTION,
    }


class AccountCallers(NamedTuple):
    """An account of a test's own, and a caller of each of its agents."""

    account_id: str
    callers: tuple[Caller, ...]


MakeAccount = Callable[..., Awaitable[AccountCallers]]


async def events_of(response: httpx.Response) -> AsyncIterator[Event]:
    """The client read rule: line by line, those that begin with `data: `, the rest parsed as JSON."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line[len("data: ") :])


def text_of(events: list[Event]) -> str:
    return "".join(event["content"] for event in events if event["type"] == "delta")
