"""OpenAI's Responses API (docs/integrate/openai-responses.md), by its own Python SDK, and on the wire."""

import json
from typing import Any

import openai
import pytest
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


async def test_a_response_that_is_read_again_names_the_model_that_was_asked(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-load?deltas=40&delay_ms=50", name="Sales/Read again")
    client = talk_to(agent).client
    begun = await client.responses.create(model="Sales/Read again", input="hi", background=True)
    assert begun.model == "Sales/Read again"
    events = await client.responses.retrieve(begun.id, stream=True)
    models = {event.response.model for event in [each async for each in events] if hasattr(event, "response")}
    done = await client.responses.retrieve(begun.id)
    assert (models, done.model, done.status) == ({"Sales/Read again"}, "Sales/Read again", "completed")


async def test_stream_has_every_event_in_order(talk_to: TalkTo, shop: Caller) -> None:
    events = await stream_events(talk_to(shop), ORDER)
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    done = events[-1].response
    whole = await talk_to(shop).client.responses.retrieve(done.id)
    assert done.output == whole.output
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == done.output_text
    told = [kind for kind in kinds if "mcp_call" in kind]
    assert told == [
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    ]
    ended = [event.item for event in events if event.type == "response.output_item.done"]
    assert ended == done.output


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


async def test_name_and_history_find_the_conversation(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    talk = talk_to(await make_agent("demo-echo"), "named-responses")
    first = await ask(talk, "one")
    items = [
        {"role": "user", "content": "one"},
        *first.model_dump()["output"],
        {"role": "user", "content": "2"},
    ]
    second = await ask(talk, items)
    assert second.conversation == first.conversation
    chat = talk_to(talk.caller, "named-responses")
    chat.messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": first.output_text},
        {"role": "user", "content": "2"},
        {"role": "assistant", "content": second.output_text},
    ]
    _, conversation = await chat.ask("three")
    assert conversation == uuid_of(first), "whichever of the two APIs it is"


async def test_what_is_not_to_be_stored_is_in_no_list(talk_to: TalkTo, make_agent: MakeAgent) -> None:
    talk = talk_to(await make_agent("demo-echo"))
    assert uuid_of(await ask(talk, "hi", store=False))[14] == "8", "which is what an unlisted one has there"
    assert uuid_of(await ask(talk, "hi"))[14] == "7"


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


async def test_responses_of_others_and_unknown_ones_are_not_found(
    talk_to: TalkTo, echo: Caller, starter: Caller
) -> None:
    mine = await ask(talk_to(echo), "hi")
    theirs = talk_to(starter, max_retries=0)
    unknown = f"resp_{'0' * 31}1"
    for talk, response_id in ((theirs, mine.id), (talk_to(echo), unknown), (talk_to(echo), "resp_")):
        for call in (talk.client.responses.retrieve, talk.client.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await call(response_id)
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(theirs, "hi", previous_response_id=mine.id)
    assert refused.value.param == "previous_response_id"
    assert mine.conversation is not None
    with pytest.raises(openai.NotFoundError):
        await ask(theirs, "hi", conversation=mine.conversation.id)
    for wrong in ({"stream": "yes"}, {"stream": "true", "starting_after": "-1"}, {"starting_after": "1"}):
        refused_query = await echo.http.get(
            f"{echo.base_url}/openai/v1/responses/{mine.id}",
            params=wrong,
            headers={"Authorization": f"Bearer {echo.headers['X-Api-Key']}"},
        )
        assert refused_query.status_code == 400


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


async def test_an_edited_message_goes_on_in_a_fork(talk_to: TalkTo, shop: Caller) -> None:
    talk, items = talk_to(shop), Items()
    first = await turn(talk, items, "Hi, my name is Ada.")
    await turn(talk, items, "Thanks")
    edited = await ask(talk, [items[0], *references(first), user("What is my name?")])
    assert uuid_of(edited) != uuid_of(first)
    assert "Ada" in edited.output_text


async def test_a_call_alone_names_no_reply(talk_to: TalkTo, shop: Caller) -> None:
    talk = talk_to(shop)
    first = await ask(talk, "Where is my order ORD-1001?")
    (call,) = [item.id for item in first.output if item.type == "mcp_call"]
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(talk, [user("Hello"), {"type": "item_reference", "id": call}, user("Thanks")])
    assert refused.value.param == "input[1].id"


async def test_anothers_reply_is_not_found(talk_to: TalkTo, shop: Caller, starter: Caller) -> None:
    first = await ask(talk_to(starter), "Hello")
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(talk_to(shop), [user("Hello"), *references(first), user("Thanks")])
    assert refused.value.param == "input[1].id"
    assert "Hello" not in str(refused.value)
