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


async def test_an_earlier_place_is_gone_on_with_in_a_fork_and_another_history_begins_a_new_one(
    talk_to: TalkTo, shop: Caller
) -> None:
    begun = (await shop.chat("Hi, my name is Ada.")).json()
    own = begun["conversation_id"]
    await shop.chat("Thanks", conversation_id=own)
    talk = talk_to(shop, own)
    talk.messages = [
        {"role": "user", "content": "Hi, my name is Ada."},
        {"role": "assistant", "content": begun["message"]["content"]},
    ]
    reply, fork = await talk.ask("What is my name?")
    assert fork != own
    assert "Ada" in reply
    other = talk_to(shop, own)
    other.messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Who is there?"}]
    _, new = await other.ask("Thanks")
    assert new not in (own, fork)
    _, again = await other.ask("Really")
    assert again == new, "it goes on with the one that began with this history"


async def test_anothers_id_is_a_name_like_any_other(talk_to: TalkTo, shop: Caller, starter: Caller) -> None:
    theirs = (await starter.chat("Hello")).json()["conversation_id"]
    talk = talk_to(shop, theirs)
    _, first = await talk.ask("Hi")
    _, second = await talk.ask("Thanks")
    assert theirs not in (first, second)
    assert first == second
