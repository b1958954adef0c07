"""OpenAI's Responses API (docs/integrate/openai-responses.md), by its own Python SDK, and on the wire."""

import json
from typing import Any

from openai.types.responses import Response

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import ORDER, Talk, TalkTo

SLOW = "demo-load?deltas=200&delay_ms=50"


async def ask(talk: Talk, text: Any, **more: Any) -> Response:
    done = await talk.client.responses.create(model=talk.model, input=text, **more)
    assert isinstance(done, Response)
    return done


async def stream_events(talk: Talk, text: str, **more: Any) -> list[Any]:
    stream = await talk.client.responses.create(model=talk.model, input=text, stream=True, **more)
    return [event async for event in stream]


def uuid_of(response: Response) -> str:
    assert response.conversation is not None
    text = response.conversation.id.removeprefix("conv_")
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


async def test_a_response_is_the_saved_reply_with_the_tools_that_ran(talk_to: TalkTo, shop: Caller) -> None:
    talk = talk_to(shop)
    done = await ask(talk, ORDER)
    assert (done.status, done.error, done.model) == ("completed", None, talk.model)
    question, reply = await shop.messages(uuid_of(done))
    assert (question["content"], reply["content"]) == (ORDER, done.output_text)
    assert done.usage is not None
    assert done.usage.total_tokens == reply["token_count"]
    (call,) = [item for item in done.output if item.type == "mcp_call"]
    assert (call.status, call.server_label) == ("completed", "agent")
    assert json.loads(call.arguments) == {"order_id": "ORD-1001"}
    assert json.loads(call.output or "")
    again = await talk.client.responses.retrieve(done.id)
    assert (again.output, again.model) == (done.output, done.model)
    assert (again.status, again.usage) == ("completed", done.usage)


async def test_what_is_new_goes_on_behind_a_response_or_in_its_conversation(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    talk = talk_to(await make_agent("demo-echo"))
    first = await ask(talk, "one")
    second = await ask(talk, "two", previous_response_id=first.id)
    assert first.conversation is not None
    third = await ask(talk, "three", conversation=first.conversation.id)
    assert first.conversation == second.conversation == third.conversation
    assert second.previous_response_id == first.id
    assert (await talk.read_saved_texts(uuid_of(first)))[::2] == ["one", "two", "three"]
    aside = await ask(talk, "two again", previous_response_id=first.id)
    assert aside.conversation != first.conversation, "it has gone on since"
    assert (await talk.read_saved_texts(uuid_of(aside)))[:3] == ["one", first.output_text, "two again"]
    row = (await talk.caller.get(f"/v1/conversations/{uuid_of(aside)}")).json()
    assert row["forked_from"]["conversation_id"] == uuid_of(first)
    onward = await ask(talk, "three again", previous_response_id=aside.id)
    assert onward.conversation == aside.conversation
    assert len(await talk.read_saved_texts(uuid_of(first))) == 6


async def test_one_in_the_background_is_asked_for_later_and_cancelled(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    talk = talk_to(await make_agent(SLOW))
    begun = await ask(talk, "hi", background=True)
    assert (begun.status, begun.background) == ("in_progress", True)
    events = await talk.client.responses.retrieve(begun.id, stream=True)
    kinds, last = [], None
    async for event in events:
        if event.type == "response.output_text.delta" and "response.output_text.delta" not in kinds:
            under_way = await talk.client.responses.retrieve(begun.id)
            assert (under_way.status, under_way.model) == ("in_progress", begun.model)
            assert under_way.output_text, "as far as it is"
            assert (await talk.client.responses.cancel(begun.id)).id == begun.id
        kinds.append(event.type)
        last = event
    assert last is not None
    assert last.type == "response.failed"
    assert last.response.status == "cancelled"
    assert "response.completed" not in kinds
    again = await talk.client.responses.cancel(begun.id)
    assert again.status == "cancelled", "what has ended stays as it is"
    assert again.output_text
    assert again.model_dump()["output"][-1]["status"] == "incomplete"


Items = list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


def references(done: Response) -> Items:
    return [{"type": "item_reference", "id": item.id} for item in done.output]


async def turn(talk: Talk, items: Items, text: str) -> Response:
    """One more turn, whose reply is then shown by its id alone."""
    items.append(user(text))
    done = await ask(talk, list(items))
    items += references(done)
    return done


async def test_each_turn_goes_on_in_the_conversation_of_the_reply_before(
    talk_to: TalkTo, shop: Caller
) -> None:
    talk, items = talk_to(shop), Items()
    first = await turn(talk, items, "Hi, my name is Ada.")
    second = await turn(talk, items, "Where is my order ORD-1001?")
    third = await turn(talk, items, "What is my name?")
    assert uuid_of(first) == uuid_of(second) == uuid_of(third)
    assert "Ada" in third.output_text
    said = [each["content"] for each in await shop.messages(uuid_of(first))]
    assert said[::2] == ["Hi, my name is Ada.", "Where is my order ORD-1001?", "What is my name?"]
