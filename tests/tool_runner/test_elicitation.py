"""Tools that ask a person in the middle of a call, in both versions of the protocol that know that."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import httpx2
import pytest
from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult

from agentchat.contracts.tool_messages import InputResponse
from agentchat.contracts.values import Elicitation
from agentchat.directory.agent_config import McpServer
from agentchat.net_guard import Guard, Resolver
from agentchat.tool_runner.calls.call_output import render_result
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.servers.elicitation import (
    FIRST_CALL_ATTEMPT,
    CallAttempt,
    ElicitationReader,
    InputRequired,
)
from agentchat.tool_runner.servers.tool_servers import ServerPool, ToolServer
from tests.tool_runner.conftest import ACCOUNT, Connect
from tests.tool_runner.eliciting import GUESTS, LINK, NAME, Restaurant, open_restaurant
from tests.tool_runner.scripted import Call, serve_script

LINKED = "https://pay.example.com/allow"


class Table:
    """A caller at a restaurant's server, who answers what he is asked and has the call made again."""

    def __init__(self, restaurant: Restaurant, *, asks: bool = True) -> None:
        self.restaurant = restaurant
        guard = Guard([f"127.0.0.1:{restaurant.port}"], Resolver())
        self.servers = ServerPool(guard, httpx2.create_ssl_context())
        config = McpServer(name="restaurant", url=restaurant.url, elicitation=asks)
        self.server: ToolServer = self.servers.get(ACCOUNT, config)

    async def call(
        self, name: str, attempt: CallAttempt = FIRST_CALL_ATTEMPT, **arguments: Any
    ) -> str | InputRequired:
        tools = await self.server.get_tools()
        until = asyncio.get_running_loop().time() + 20
        outcome = await self.server.call(tools[name], arguments, until, attempt)
        return outcome if isinstance(outcome, InputRequired) else render_result(outcome)

    async def ask(
        self, name: str, attempt: CallAttempt = FIRST_CALL_ATTEMPT, **arguments: Any
    ) -> InputRequired:
        outcome = await self.call(name, attempt, **arguments)
        assert isinstance(outcome, InputRequired), outcome
        return outcome


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
async def table(request: pytest.FixtureRequest) -> AsyncIterator[Table]:
    async with open_restaurant(newest=request.param == "2026-07-28") as restaurant:
        table = Table(restaurant)
        yield table
        assert table.server.protocol_version == request.param
        await table.servers.close(5.0)


Said = dict[str, Any] | Literal["decline", "cancel"] | None


def build_next_attempt(attempt: CallAttempt, required: InputRequired, *answers: Said) -> CallAttempt:
    """Build the next attempt: each answer is the content of an acceptance, or another action."""
    responses = tuple(
        InputResponse(
            key=each.key,
            elicitation=each.elicitation,
            leg=attempt.number,
            action=answer if isinstance(answer, str) else "accept",
            content=None if isinstance(answer, str) else answer,
        )
        for each, answer in zip(required.requests, answers, strict=True)
    )
    return CallAttempt(attempt.number + 1, (*attempt.responses, *responses), required.request_state)


def list_messages(required: InputRequired) -> list[str]:
    return [each.elicitation.message for each in required.requests]


async def test_questions_are_answered_leg_by_leg_and_call_runs_once(table: Table) -> None:
    first = await table.ask("book", day="Monday")
    (asked,) = first.requests
    assert (asked.elicitation.message, asked.elicitation.mode) == (GUESTS, "form")
    assert asked.elicitation.requested_schema is not None
    assert asked.elicitation.requested_schema["properties"]["guests"]["maximum"] == 12
    one = build_next_attempt(FIRST_CALL_ATTEMPT, first, {"guests": 4})
    second = await table.ask("book", one, day="Monday")
    assert list_messages(second) == [NAME.format(4)]
    two = build_next_attempt(one, second, {"name": "Ada"})
    assert await table.call("book", two, day="Monday") == '{"result":"Booked: Monday, 4, Ada."}'
    assert table.restaurant.booked == ["Monday, 4, Ada"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_reaches_the_tool_which_then_does_nothing(
    table: Table, action: Literal["decline", "cancel"]
) -> None:
    first = await table.ask("book", day="Monday")
    outcome = await table.call("book", build_next_attempt(FIRST_CALL_ATTEMPT, first, action), day="Monday")
    assert isinstance(outcome, str)
    assert action in outcome
    assert table.restaurant.booked == []


async def test_two_things_asked_for_are_both_answered(table: Table) -> None:
    """The newest protocol asks for both in one attempt; the older one asks while the call is open."""
    attempt, attempts = FIRST_CALL_ATTEMPT, 0
    said: dict[str, Said] = {GUESTS: {"guests": 2}, NAME.format("all"): {"name": "Ada"}}
    while isinstance(outcome := await table.call("book_at_once", attempt, day="Friday"), InputRequired):
        attempt = build_next_attempt(attempt, outcome, *(said[message] for message in list_messages(outcome)))
        attempts += 1
    assert attempts == (1 if table.server.protocol_version == "2026-07-28" else 2)
    assert table.restaurant.booked == ["Friday, 2, Ada"]


async def test_calls_that_ask_at_one_time_are_not_mixed_up(table: Table) -> None:
    days = [f"day {number}" for number in range(8)]

    async def book(day: str) -> str | InputRequired:
        first = await table.ask("book", day=day)
        one = build_next_attempt(FIRST_CALL_ATTEMPT, first, {"guests": int(day[4:]) + 1})
        second = await table.ask("book", one, day=day)
        assert list_messages(second) == [NAME.format(int(day[4:]) + 1)]
        return await table.call("book", build_next_attempt(one, second, {"name": day}), day=day)

    await asyncio.gather(*map(book, days))
    assert sorted(table.restaurant.booked) == [
        f"{day}, {number + 1}, {day}" for number, day in enumerate(days)
    ]


async def test_call_is_made_again_after_link_was_opened(table: Table) -> None:
    first = await table.ask("pay")
    shown = Elicitation(message=LINK, mode="url", url=LINKED)
    assert [each.elicitation for each in first.requests] == [shown]
    table.restaurant.paid = True
    assert (
        await table.call("pay", build_next_attempt(FIRST_CALL_ATTEMPT, first, None)) == '{"result":"Paid."}'
    )


async def test_a_link_that_was_refused_is_not_asked_for_again(table: Table) -> None:
    first = await table.ask("pay")
    declined = build_next_attempt(FIRST_CALL_ATTEMPT, first, "decline")
    if table.server.protocol_version == "2026-07-28":
        assert await table.call("pay", declined) == '{"result":"You said decline."}'
    else:
        with pytest.raises(ToolFailed) as failed:
            await table.call("pay", declined)
        assert failed.value.fault.kind == "refused"


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    "link",
    [
        "http://pay.example.com/",
        "https://user:word@pay.example.com/",
        "https://10.0.0.1/",
        "https://localhost/",
        "https://127.0.0.%31/",
        "https://pay.example.com%2eevil.example/",
        "https://evil.example\\.pay.example.com/",
        "https://\uff10x7f.1/",
        "https://134744072/",
        "javascript:alert(1)",
        "https://pay.example.com/\u202e",
        f"https://pay.example.com/{'x' * 2048}",
    ],
)
async def test_an_unsafe_link_is_given_to_nobody(newest: bool, link: str) -> None:
    async with open_restaurant(newest=newest, link=link) as restaurant:
        table = Table(restaurant)
        with pytest.raises(ToolFailed) as failed:
            await table.call("pay")
        assert failed.value.fault.kind == "input"
        await table.servers.close(5.0)


@pytest.mark.parametrize("newest", [True, False])
async def test_a_server_learns_that_it_may_not_ask(newest: bool) -> None:
    """The SDK's server then refuses the call itself: the client has not declared that it can be asked."""
    async with open_restaurant(newest=newest) as restaurant:
        table = Table(restaurant, asks=False)
        with pytest.raises(ToolFailed, match="refused"):
            await table.call("book", day="Monday")
        assert restaurant.booked == []
        await table.servers.close(5.0)


def build_question(
    message: str = "Pay.", url: str = LINKED, key: str = "a", state: str = "s"
) -> InputRequiredResult:
    request = ElicitRequest(params=ElicitRequestURLParams(message=message, url=url))
    return InputRequiredResult(input_requests={key: request}, request_state=state)


READER = ElicitationReader(lambda _: None)


@pytest.mark.parametrize(
    "result",
    [
        build_question(state="x[hidden]"),
        build_question(key="[hidden]"),
        build_question(url=f"{LINKED}?t=[hidden]"),
    ],
    ids=["state", "key", "link"],
)
def test_nobody_is_asked_with_a_credential_in_what_goes_back_as_it_is(result: InputRequiredResult) -> None:
    with pytest.raises(ToolFailed, match="holds a credential"):
        READER.read_required(result)


@pytest.mark.parametrize(
    "result", [build_question(state="a\0b"), build_question(key="a\0b")], ids=["state", "key"]
)
def test_what_goes_back_as_it_is_can_be_stored_until_then(result: InputRequiredResult) -> None:
    with pytest.raises(ToolFailed, match="no text"):
        READER.read_required(result)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_server_by_hand_is_answered_on_the_session_of_the_call(
    version: str, connect: Connect
) -> None:
    """The first version with elicitations has no mode."""
    answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def hear(call: Call) -> bool:
        if call.rpc == "" and "result" in call.message:
            answers.put_nowait(call.message)
            await call.reply(202)
            return True
        return False

    async def ask(call: Call) -> None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who?", "requestedSchema": schema}
        request = {"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": params}
        await call.begin_events()
        await call.send_raw(f"event: message\ndata: {json.dumps(request)}\n\n".encode())
        answer = await answers.get()
        text = json.dumps(answer["result"], sort_keys=True)
        result = {"content": [{"type": "text", "text": text}]}
        done = {"jsonrpc": "2.0", "id": call.message["id"], "result": result}
        await call.send_raw(f"event: message\ndata: {json.dumps(done)}\n\n".encode())
        call.writer.close()

    async with serve_script(ask, version=version, on_any=hear) as scripted:
        server = connect(scripted)
        tool = (await server.get_tools())["echo"]
        until = asyncio.get_running_loop().time() + 20
        first = await server.call(tool, {}, until)
        assert isinstance(first, InputRequired)
        assert list_messages(first) == ["Who?"]
        outcome = await server.call(
            tool, {}, until, build_next_attempt(FIRST_CALL_ATTEMPT, first, {"name": "Ada"})
        )
        assert not isinstance(outcome, InputRequired)
        assert json.loads(render_result(outcome)) == {"action": "accept", "content": {"name": "Ada"}}
        capabilities = scripted.list_calls("initialize")[0].message["params"]["capabilities"]
        assert capabilities["elicitation"] == {"form": {}, "url": {}}
