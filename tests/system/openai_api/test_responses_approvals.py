"""Tool calls that need approval, by OpenAI's Responses API, as its own Python SDK sees it."""

import json
from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_output_item import McpApprovalRequest

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import ORDER, TalkTo
from tests.system.openai_api.test_responses import ask, uuid_of


def request_in(response: Response) -> McpApprovalRequest:
    (found,) = [item for item in response.output if item.type == "mcp_approval_request"]
    return found


def answer(request_id: str, approve: bool = True, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve, **more}]


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
