"""Earlier replies named by the ids of their items, as the AI SDK's OpenAI provider does by default."""

from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import Talk, TalkTo
from tests.system.openai_api.test_responses import ask, uuid_of

pytestmark = pytest.mark.requirement("OPENAI-RESPONSES")

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


@pytest.fixture
async def shop(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-shop-1", shop=True)


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
