"""Tools that ask a person in the middle of a call, as callers meet them, in both versions of the protocol."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import pytest

from agentchat.directory.agent_config import McpServer
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of
from tests.system.test_approvals import chat_to_pause as waiting_to_cancel
from tests.system.test_approvals import decide, read_events, reply_of
from tests.tool_runner.eliciting import GUESTS, NAME, Restaurant, open_restaurant

VERSIONS = ["2025-11-25", "2026-07-28"]
SECONDS = 90.0


@pytest.fixture(scope="module")
async def restaurants() -> AsyncIterator[dict[str, Restaurant]]:
    """A restaurant of each version of the protocol."""
    async with AsyncExitStack() as opened:
        yield {
            version: await opened.enter_async_context(open_restaurant(newest=version == VERSIONS[1]))
            for version in VERSIONS
        }


async def make_waiter(make_agent: MakeAgent, restaurant: Restaurant, tool: str, **given: Any) -> Caller:
    """An agent that calls the tool of that restaurant whatever it is told."""
    model = f"demo-shop-1?tool={tool}&input={quote(json.dumps(given))}"
    return await make_agent(model, servers=(McpServer(name="restaurant", url=restaurant.url),))


async def restart_processes(stack: RunningStack, *kinds: str) -> None:
    """Every process of these kinds, killed and started again."""
    for name in stack.names():
        if name.rpartition("-")[0] in kinds:
            stack.kill(name, signal.SIGKILL)
    await stack.wait_all_ready(SECONDS)


async def chat_to_pause(caller: Caller) -> dict[str, Any]:
    """The problem by which a JSON call is told what is asked for."""
    response = await caller.chat("A table, please.")
    assert response.status_code == 409, response.text
    problem: dict[str, Any] = response.json()
    assert problem["code"] == "approval_required"
    return problem


async def next_of(caller: Caller, trace_id: str, behind: str = "") -> dict[str, Any]:
    """How the stream ends, once that is not with the approval `behind`."""
    async with asyncio.timeout(SECONDS):
        while True:
            *_, last = (await read_events(caller, trace_id)).strip().split(b"\n\n")
            event: dict[str, Any] = json.loads(last[last.index(b"data: ") + 6 :])
            if [each["id"] for each in event.get("approvals", ())] != [behind]:
                return event
            await asyncio.sleep(0.2)


async def until_decided(caller: Caller, conversation_id: str, count: int) -> list[dict[str, Any]]:
    """The approvals of a conversation, once the list has so many that are decided: it may be behind."""
    async with asyncio.timeout(SECONDS):
        while True:
            page = await caller.get("/v1/approvals", conversation_id=conversation_id)
            rows: list[dict[str, Any]] = page.json()["data"]
            if len(rows) == count and all(row["status"] != "pending" for row in rows):
                return rows
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_full_stream_has_the_progress_of_a_tool(
    make_agent: MakeAgent, restaurants: dict[str, Restaurant], version: str
) -> None:
    restaurant = restaurants[version]
    restaurant.served.clear()
    caller = await make_waiter(make_agent, restaurant, "cook")
    events = []
    async with caller.open_stream("Soup, please.", "full") as response:
        async for event in events_of(response):
            events.append(event)
            if event["type"] == "tool_progress":
                restaurant.served.set()
    kinds = [event["type"] for event in events]
    assert kinds[kinds.index("tool_call") + 1] == "tool_progress"
    progress = events[kinds.index("tool_progress")]
    assert (progress["id"], progress["total"]) == (events[kinds.index("tool_call")]["id"], 100)
    assert kinds[-1] == "done"


@pytest.mark.slow
async def test_approvals_outlive_the_death_of_every_service(
    stack: RunningStack, caller: Caller, make_agent: MakeAgent, restaurants: dict[str, Restaurant]
) -> None:
    """A call that waits to be allowed, and in each version of the protocol one that asks two questions."""
    cancelling = await waiting_to_cancel(caller, 1038)
    tables = [await Table.order_table(make_agent, each) for each in restaurants.values()]
    await restart_processes(stack, "tool-runner", "orchestrator", "gateway", "projector")
    assert (await decide(caller, cancelling["approvals"][0]["id"])).status_code == 200
    for table in tables:
        await table.give_guests(stack.environment.gateway_urls[1])
    await restart_processes(stack, "tool-runner")
    for table in tables:
        await table.give_name()
    read = await reply_of(caller, cancelling["trace_id"])
    assert read.count(b'"type":"tool_call"') == 1
    assert b'"type":"done"' in read


class Table:
    """A table that is booked by a tool which asks for the guests and then for a name."""

    def __init__(self, caller: Caller, restaurant: Restaurant, problem: dict[str, Any]) -> None:
        self._caller = caller
        self._restaurant = restaurant
        self._trace_id = problem["trace_id"]
        (self._guests,) = problem["approvals"]
        self._name: dict[str, Any] = {}

    @classmethod
    async def order_table(cls, make_agent: MakeAgent, restaurant: Restaurant) -> "Table":
        caller = await make_waiter(make_agent, restaurant, "book", day="Monday")
        table = cls(caller, restaurant, await chat_to_pause(caller))
        needed = table._guests
        assert (needed["tool"], needed["input"]) == ("book", {"day": "Monday"})
        assert needed["elicitation"]["message"] == GUESTS
        assert needed["elicitation"]["requested_schema"]["required"] == ["guests"]
        return table

    async def give_guests(self, gateway_url: str) -> None:
        other = self._caller.at(gateway_url)
        for wrong in ({"guests": 13}, {"guests": "four"}, {}, None):
            refused = await decide(other, self._guests["id"], input=wrong)
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
            assert refused.json()["errors"][0]["field"] == "input"
        assert (await decide(other, self._guests["id"], input={"guests": 4})).status_code == 200
        (self._name,) = (await next_of(self._caller, self._trace_id, self._guests["id"]))["approvals"]
        assert self._name["elicitation"]["message"] == NAME.format(4)

    async def give_name(self) -> None:
        """Book it: once, with each answer in the list of approvals until the conversation is deleted."""
        caller, approval_id = self._caller, self._name["id"]
        assert (await decide(caller, approval_id, input={"name": "Ada"})).status_code == 200
        done = await next_of(caller, self._trace_id, approval_id)
        assert done["type"] == "done", done
        (call,) = done["tool_calls"]
        assert json.loads(call["output"]) == {"result": "Booked: Monday, 4, Ada."}
        assert self._restaurant.booked == ["Monday, 4, Ada"]
        conversation_id = done["message"]["conversation_id"]
        rows = await until_decided(caller, conversation_id, 2)
        assert [row["decision"]["input"] for row in rows] == [{"name": "Ada"}, {"guests": 4}]
        assert [row["elicitation"]["message"] for row in rows] == [NAME.format(4), GUESTS]
        assert rows[0] == (await caller.get(f"/v1/approvals/{approval_id}")).json()
        assert (await caller.delete(conversation_id)).status_code == 204
        assert (await caller.get(f"/v1/approvals/{approval_id}")).status_code == 404


async def test_the_demos_shop_asks_for_a_country_that_nobody_has_said(caller: Caller) -> None:
    response = await caller.chat("Change the address of ORD-1030 to Seeweg 14, 6020 Innsbruck")
    assert response.status_code == 409, response.text
    problem = response.json()
    (needed,) = problem["approvals"]
    assert needed["elicitation"]["message"] == "Change the shipping address: country?"
    assert (await decide(caller, needed["id"], input={"country": "AT"})).status_code == 200
    done = await next_of(caller, problem["trace_id"], needed["id"])
    (call,) = done["tool_calls"]
    assert json.loads(call["output"])["shipping_address"]["country"] == "AT"
