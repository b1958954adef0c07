"""A tool that a person calls by hand: as a run would, and nothing of it in the log."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from bus import BusUnavailable, call_tool
from contracts.ids import new_id, new_trace_id
from contracts.tool_messages import (
    CallTool,
    InputRequest,
    ToolCallAnswered,
    ToolFinished,
    ToolRequested,
    UnavailableServer,
)
from contracts.values import Elicitation
from directory.agents import McpServer
from orchestrator.tools.requested import MAX_INPUT_BYTES
from tests.orchestrator.given import SECONDS, World
from tests.orchestrator.toolbox import SPECS, Toolbox, result_of

SHOP = (McpServer(name="shop", url="http://127.0.0.1:1/", require_approval="never"),)
_SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "lines": {"items": {"type": "integer"}}},
    "required": ["id"],
}


@pytest.fixture
async def tools(working: World) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox(working.bus)
    toolbox.specs = (SPECS[0], replace(SPECS[1], input_schema=_SCHEMA))
    async with toolbox.open():
        yield toolbox


async def call(world: World, agent_id: str, tool: str, **given: Any) -> ToolCallAnswered:
    """Once an orchestrator answers."""
    fields: dict[str, Any] = {"trace_id": new_trace_id(), "account_id": world.account_id, "agent_version": 1}
    fields |= {"agent_id": agent_id, "server": "shop", "tool": tool, "input": {}} | given
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(BusUnavailable):
                return await call_tool(world.bus.rpc, CallTool(**fields))
            await asyncio.sleep(0.05)


async def test_it_is_called_as_a_runs_and_its_output_comes_back(working: World, tools: Toolbox) -> None:
    agent = await working.agent(mcp_servers=SHOP)
    done = await call(working, agent, "order", input={"id": "mug-1"})
    assert (done.outcome, done.is_error, done.ms) == ("called", False, 7)
    assert done.output == '{"did":"order","with":{"id":"mug-1"}}'
    (request,) = tools.requested
    assert (request.tool, request.no_run, request.agent_version) == ("order", True, 1)
    assert request.deadline is not None, "it has the time limits of any call"


@pytest.mark.parametrize(
    ("given", "outcome", "field", "detail"),
    [
        ({"input": {}}, "invalid_input", "id", "is required"),
        ({"input": {"id": 7}}, "invalid_input", "id", 'does not satisfy "type": "string"'),
        ({"input": {"id": "a", "lines": [1, "b"]}}, "invalid_input", "lines[1]", "does not satisfy"),
        ({"input": {"id": "a" * MAX_INPUT_BYTES}}, "invalid_input", "", "longer than"),
        ({"tool": "eat"}, "not_found", "", "lists no tool eat"),
        ({"server": "bakery"}, "not_found", "", "server bakery lists no tool"),
        ({"agent_version": 9}, "not_found", "", "no such version"),
        ({"agent_id": new_id()}, "not_found", "", "no such agent"),
    ],
)
async def test_what_cannot_be_called_is_said_and_not_called(
    working: World, tools: Toolbox, given: dict[str, Any], outcome: str, field: str, detail: str
) -> None:
    agent = given.get("agent_id") or await working.agent(mcp_servers=SHOP)
    more = {name: value for name, value in given.items() if name not in ("tool", "agent_id")}
    answer = await call(working, agent, given.get("tool", "order"), **more)
    assert (answer.outcome, answer.field) == (outcome, field)
    assert detail in answer.detail
    assert tools.requested == []


async def test_a_server_that_is_away_is_said_with_its_reason(working: World, tools: Toolbox) -> None:
    tools.specs, tools.unavailable = (), (UnavailableServer(server="shop", reason="It needs authorisation."),)
    answer = await call(working, await working.agent(mcp_servers=SHOP), "order")
    assert (answer.outcome, answer.detail) == ("unavailable", "It needs authorisation.")


@pytest.mark.parametrize(
    ("tool", "policy", "destructive", "expected"),
    [
        ("find", "never", True, (False, False)),
        ("order", "never", True, (False, True)),
        ("order", "never", False, (False, False)),
        ("find", "always", True, (True, False)),
    ],
)
async def test_a_check_says_what_harm_it_may_do_and_calls_nothing(
    working: World, tools: Toolbox, tool: str, policy: Any, destructive: bool, expected: tuple[bool, bool]
) -> None:
    tools.specs = tuple(replace(each, destructive=destructive) for each in tools.specs)
    agent = await working.agent(mcp_servers=(replace(SHOP[0], require_approval=policy),))
    checked = await call(working, agent, tool, input={"id": "a"}, check_only=True)
    assert checked.outcome == "checked"
    assert (checked.needs_approval, checked.may_destroy) == expected
    assert tools.requested == []


async def test_what_a_tool_asks_of_a_person_is_shown_and_its_error_is_a_result(
    working: World, tools: Toolbox
) -> None:
    async def asks(request: ToolRequested) -> ToolFinished:
        if request.tool == "order":
            return replace(result_of(request, '{"error":"sold out"}'), is_error=True)
        asked = InputRequest(key="k", elicitation=Elicitation(message="Which size?"))
        return replace(result_of(request), input_requests=(asked,), is_error=True)

    tools.run = asks
    agent = await working.agent(mcp_servers=SHOP)
    assert (await call(working, agent, "find")).asks == ("Which size?",)
    failed = await call(working, agent, "order", input={"id": "a"})
    assert (failed.outcome, failed.is_error, failed.output) == ("called", True, '{"error":"sold out"}')
