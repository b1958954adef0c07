"""Tool calls that need approval, by OpenAI's Responses API, as its own Python SDK sees it."""

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from openai.types.responses.response_output_item import McpApprovalRequest

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import ORDER, Talk, TalkTo
from tests.system.openai_api.test_responses import ask, uuid_of


def request_in(response: Response) -> McpApprovalRequest:
    (found,) = [item for item in response.output if item.type == "mcp_approval_request"]
    return found


def answer(request_id: str, approve: bool = True, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve, **more}]


async def refused(talk: Talk, given: list[dict[str, Any]]) -> tuple[int, str | None]:
    with pytest.raises(openai.APIStatusError) as error:
        await ask(talk, given)
    return error.value.status_code, error.value.code


@pytest.fixture
async def asking(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-shop-1", shop=True, asks=True)


async def test_a_response_asks_and_the_next_one_has_what_came_of_it(talk_to: TalkTo, asking: Caller) -> None:
    talk = talk_to(asking)
    first = await ask(talk, ORDER)
    request = request_in(first)
    assert (first.status, request.name, request.server_label) == ("completed", "track_shipment", "agent")
    assert json.loads(request.arguments) == {"order_id": "ORD-1001"}
    assert (await talk.client.responses.retrieve(first.id)).output == first.output
    second = await ask(talk, answer(request.id), previous_response_id=first.id)
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    call, _ = second.output
    assert call.type == "mcp_call"
    assert (call.status, call.approval_request_id) == ("completed", request.id)
    _, reply = await asking.messages(uuid_of(second))
    assert reply["content"] == first.output_text + second.output_text
    again = await talk.client.responses.retrieve(second.id)
    assert (again.output, again.usage) == (second.output, second.usage)
    third = await ask(talk, "Thanks!", previous_response_id=second.id)
    assert third.conversation == first.conversation


async def test_a_stream_asks_and_the_next_one_goes_on(talk_to: TalkTo, asking: Caller) -> None:
    talk = talk_to(asking)
    async with talk.client.responses.stream(model=talk.model, input=ORDER) as stream:
        first = await stream.get_final_response()
    request = request_in(first)
    given: Any = answer(request.id, approve=False, reason="It is a secret.")
    async with talk.client.responses.stream(
        model=talk.model, input=given, previous_response_id=first.id
    ) as stream:
        kinds = [event.type async for event in stream]
        second = await stream.get_final_response()
    assert kinds[0] == "response.created"
    (call,) = [item for item in second.output if item.type == "mcp_call"]
    assert call.status == "failed"
    assert "It is a secret." in str(call.error)
    rest = await talk.client.responses.retrieve(second.id, stream=True, starting_after=1)
    told = [event.type async for event in rest]
    assert (told[0], told[-1]) == (kinds[2], "response.completed")


async def test_a_client_that_shows_all_items_answers_with_the_last(talk_to: TalkTo, asking: Caller) -> None:
    talk = talk_to(asking)
    first = await ask(talk, ORDER, store=False)
    shown = [{"role": "user", "content": ORDER}, *(item.to_dict() for item in first.output)]
    given = [*shown, *answer(request_in(first).id)]
    assert (await ask(talk, given, store=False)).conversation == first.conversation


async def test_one_in_the_background_is_asked_for_later(talk_to: TalkTo, asking: Caller) -> None:
    talk = talk_to(asking)

    async def until_done(begun: Response) -> Response:
        async with asyncio.timeout(60):
            while (now := await talk.client.responses.retrieve(begun.id)).status == "in_progress":  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.1)
            return now

    first = await until_done(await ask(talk, ORDER, background=True))
    begun = await ask(talk, answer(request_in(first).id), background=True)
    second = await until_done(begun)
    assert (second.id, second.status) == (begun.id, "completed")
    assert second.output_text


async def test_what_cannot_be_decided_is_refused(
    talk_to: TalkTo, make_agent: MakeAgent, asking: Caller, starter: Caller
) -> None:
    talk = talk_to(asking)
    first = await ask(talk, ORDER)
    request = request_in(first)
    other = talk_to(await make_agent("demo-shop-1", shop=True, asks=True))
    for wrong in (talk_to(starter), other):
        assert await refused(wrong, answer(request.id)) == (404, "not_found")
    assert await refused(talk, answer("mcpr_unknown")) == (404, "not_found")
    half = [{"type": "mcp_approval_response", "approval_request_id": request.id}]
    assert await refused(talk, half) == (400, "invalid_request")
    with pytest.raises(openai.ConflictError) as pending:
        await ask(talk, "Hello?", previous_response_id=first.id)
    assert pending.value.code == "approval_pending"
    with pytest.raises(openai.NotFoundError):
        await talk.client.responses.retrieve(f"{first.id}_9")
    one, same = await asyncio.gather(*(ask(talk, answer(request.id)) for _ in range(2)))
    assert one.output == same.output
    assert await refused(talk, answer(request.id, approve=False)) == (409, "approval_decided")
    operators = talk_to(await make_agent("demo-shop-1", shop=True, asks=True, approvers="operator"))
    theirs = request_in(await ask(operators, ORDER))
    assert await refused(operators, answer(theirs.id)) == (403, "approval_forbidden")
