"""POST /mcp/v1: the account's agents as tools, called with the MCP SDK's client."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent

from agentchat.directory.agent_config import McpServer
from tests.system.calling import Caller, MakeAgent

Mode = Literal["legacy", "auto"]
MODES: tuple[Mode, ...] = ("legacy", "auto")
TICKET = "Open a ticket for customer CUST-001 with this subject: A zip is stuck."


@asynccontextmanager
async def open_client(caller: Caller, mode: Mode = "auto", **options: Any) -> AsyncIterator[Client]:
    """A client with the caller's key; `user` is the end user, `ask` answers questions."""
    headers = {"Authorization": f"Bearer {caller.headers['X-Api-Key']}"}
    if user := options.pop("user", None):
        headers["X-User-Id"] = user
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{caller.base_url}/mcp/v1", http_client=http)
        ask = options.pop("ask", None)
        async with (
            asyncio.timeout(40),
            Client(transport, mode=mode, read_timeout_seconds=30, elicitation_callback=ask) as client,
        ):
            yield client


@pytest.fixture
async def echo(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-echo", name=f"echo of {secrets.token_hex(4)}")


def read_reply(result: CallToolResult | InputRequiredResult) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    return dict(result.structured_content or {})


def read_error(result: CallToolResult | InputRequiredResult) -> str:
    assert isinstance(result, CallToolResult)
    assert result.is_error
    (text,) = result.content
    assert isinstance(text, TextContent)
    return text.text


async def find_tool(client: Client, caller: Caller) -> str:
    """The name of the tool that is the caller's agent: its name is unique, with a blank in it."""
    found = (await caller.get("/v1/agents")).json()["data"]
    name = next(agent["name"] for agent in found if agent["id"] == caller.agent_id)
    tool = next(tool for tool in (await client.list_tools()).tools if tool.title == name)
    assert tool.name == name.replace(" ", "_")
    return tool.name


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_called_and_keeps_its_conversation(echo: Caller, mode: Mode) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        told.append((progress, message))

    async with open_client(echo, mode) as client:
        tool = await find_tool(client, echo)
        first = await client.call_tool(tool, {"message": "Hello"}, progress_callback=note)
        reply = read_reply(first)
        again = await client.call_tool(
            tool, {"message": "And now?", "conversation_id": reply["conversation_id"]}
        )
    assert told
    assert reply["message"]["content"].startswith("".join(text or "" for _, text in told))
    assert read_reply(again)["conversation_id"] == reply["conversation_id"]
    messages = await echo.messages(reply["conversation_id"])
    assert [message["content"] for message in messages if message["role"] == "user"] == ["Hello", "And now?"]


async def test_an_approval_is_asked_of_the_client(make_agent: MakeAgent) -> None:
    agent = await make_agent(
        "demo-echo?tool=open_support_ticket", shop=True, asks=True, name=f"asks {secrets.token_hex(4)}"
    )
    asked: list[str] = []

    async def ask(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert context is not None
        asked.append(params.message)
        return ElicitResult(action="accept", content={"approved": True})

    async with open_client(agent, ask=ask) as client:
        result = await client.call_tool(await find_tool(client, agent), {"message": TICKET})
    trace_id = read_reply(result)["trace_id"]
    assert len(asked) == 1
    assert "open_support_ticket" in asked[0]
    run = (await agent.get(f"/v1/chat/{trace_id}")).json()
    assert run["tool_calls"][0]["is_error"] is False


async def test_another_users_conversation_is_not_found(echo: Caller) -> None:
    async with open_client(echo, user="ada") as client:
        tool = await find_tool(client, echo)
        mine = await client.call_tool(tool, {"message": "Hello"})
    async with open_client(echo, user="bob") as client:
        theirs = {"message": "Hi", "conversation_id": read_reply(mine)["conversation_id"]}
        result = await client.call_tool(tool, theirs)
    assert read_error(result).startswith("conversation_not_found: ")


async def test_a_call_needs_a_key_and_get_is_no_method(echo: Caller) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    refused = await echo.http.post(f"{echo.base_url}/mcp/v1", json=body)
    assert refused.status_code == 401
    assert (await echo.get("/mcp/v1")).status_code == 405


async def make_chain(make_agent: MakeAgent, inner: Caller, **draft: Any) -> Caller:
    """An agent that calls `inner` as its tool, with the message that it gets."""
    name = await read_name(inner)
    server = McpServer(name="inner", url=f"agent:{inner.agent_id}")
    tool = name.replace(" ", "_")
    return await make_agent(
        f"demo-echo?tool={tool}", servers=(server,), name=f"above {secrets.token_hex(4)}", **draft
    )


async def read_name(caller: Caller) -> str:
    found = (await caller.get("/v1/agents")).json()["data"]
    name: str = next(agent["name"] for agent in found if agent["id"] == caller.agent_id)
    return name


async def test_an_agent_calls_another_for_its_user(echo: Caller, make_agent: MakeAgent) -> None:
    outer = await make_chain(make_agent, echo)
    user = f"ada-{secrets.token_hex(4)}"
    body = {"message": "How are you?", "context": {"city": "Graz"}}
    response = await outer.http.post(
        f"{outer.base_url}/v1/chat", json=body, headers={**outer.headers, "X-User-Id": user}
    )
    assert response.status_code == 200, response.text
    (call,) = response.json()["tool_calls"]
    assert not call["is_error"], call
    (found,) = set(re.findall(r'"conversation_id": ?"([0-9a-f-]{36})"', str(call["output"])))
    inner = (await outer.get(f"/v1/conversations/{found}")).json()
    assert (inner["user_id"], inner["agent_id"]) == (user, echo.agent_id)
    listed = await outer.send("GET", "/v1/conversations", headers={"X-User-Id": user})
    assert [each["conversation_id"] for each in listed.json()["data"]] == [response.json()["conversation_id"]]


async def test_an_inner_approval_is_the_outer_ones(make_agent: MakeAgent) -> None:
    inner = await make_agent(
        "demo-echo?tool=open_support_ticket", shop=True, asks=True, name=f"inner {secrets.token_hex(4)}"
    )
    outer = await make_chain(make_agent, inner)
    waiting = await outer.chat(TICKET)
    assert waiting.status_code == 409, waiting.text
    (approval,) = waiting.json()["approvals"]
    assert "open_support_ticket" in approval["elicitation"]["message"]
    decision = {"decision": "approved", "input": {"approved": True}}
    decided = await outer.send("POST", f"/v1/approvals/{approval['id']}/decision", json=decision)
    assert decided.status_code == 200, decided.text
    trace_id = decided.json()["trace_id"]
    events = await outer.get(f"/v1/chat/{trace_id}/events")
    assert '"type":"done"' in events.text
    run = (await outer.get(f"/v1/chat/{trace_id}")).json()
    assert not run["tool_calls"][0]["is_error"], run


async def test_agents_nest_three_deep(echo: Caller, make_agent: MakeAgent) -> None:
    chain = echo
    for _ in range(3):
        chain = await make_chain(make_agent, chain)
    assert not (await call_tool(chain))["is_error"]
    deepest = await make_chain(make_agent, chain)
    assert not (await call_tool(deepest))["is_error"]


async def call_tool(caller: Caller) -> dict[str, Any]:
    response = await caller.chat("Hello")
    assert response.status_code == 200, response.text
    call: dict[str, Any] = response.json()["tool_calls"][0]
    return call
