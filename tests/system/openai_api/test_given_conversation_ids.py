"""The id that an answer names in X-Conversation-Id, sent back: it goes on with that conversation."""

import pytest

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import TalkTo
from tests.system.openai_api.test_responses import ask, uuid_of

pytestmark = pytest.mark.requirement("OPENAI-API")


@pytest.fixture
async def shop(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-shop-1", shop=True)


async def test_sent_back_with_the_history_it_goes_on(talk_to: TalkTo, shop: Caller) -> None:
    talk = talk_to(shop)
    _, first = await talk.ask("Hi, my name is Ada.")
    reply, second = await talk.ask("What is my name?", **{"X-Conversation-Id": first})
    _, third = await talk.ask("Thanks", **{"X-Conversation-Id": first.upper()})
    assert first == second == third
    assert "Ada" in reply
    assert len(await talk.saved(first)) == 6


async def test_one_of_our_own_api_goes_on_with_its_history_and_without(talk_to: TalkTo, shop: Caller) -> None:
    begun = (await shop.chat("Hi, my name is Ada.")).json()
    own = begun["conversation_id"]
    talk = talk_to(shop, own)
    reply, conversation = await talk.ask("What is my name?")
    assert (conversation, "Ada" in reply) == (own, True)
    whole = talk_to(shop, own)
    for message in await shop.messages(own):
        whole.messages.append({"role": message["role"], "content": message["content"]})
    assert (await whole.ask("Thanks"))[1] == own
    answered = await ask(talk_to(shop, own), "What is my name?")
    assert (uuid_of(answered), "Ada" in answered.output_text) == (own, True)


async def test_anothers_id_is_a_name_like_any_other(talk_to: TalkTo, shop: Caller, starter: Caller) -> None:
    theirs = (await starter.chat("Hello")).json()["conversation_id"]
    talk = talk_to(shop, theirs)
    _, first = await talk.ask("Hi")
    _, second = await talk.ask("Thanks")
    assert theirs not in (first, second)
    assert first == second
