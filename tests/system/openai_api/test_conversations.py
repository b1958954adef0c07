"""Which conversation a request goes on with, and what its agent is shown."""

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import TalkTo


async def test_under_a_key_what_is_shown_goes_on_where_it_was(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "goes-on")
    _, first = await talk.ask("one")
    _, second = await talk.ask("two")
    _, third = await talk.ask("three")
    assert first == second == third
    assert (await talk.read_saved_texts(first))[::2] == ["one", "two", "three"]


async def test_what_does_not_match_begins_a_conversation_with_what_is_shown(
    talk_to: TalkTo, echo: Caller
) -> None:
    talk = talk_to(echo, "another")
    _, first = await talk.ask("one")
    title = talk_to(echo, "another")
    _, aside = await title.ask("### Task: a title for: one")
    _, second = await talk.ask("two")
    assert first == second != aside, "what a client asks aside stays aside"
    talk.messages[1] = {"role": "assistant", "content": "I never said that."}
    _, edited = await talk.ask("three")
    assert edited not in (first, aside)
    assert (await talk.read_saved_texts(edited))[0] == "three", "what was shown before is not ours"
    again = talk_to(echo, "another")
    again.messages = talk.messages[:]
    _, onward = await again.ask("four")
    assert onward == edited


async def test_a_reply_made_again_is_in_a_fork_which_goes_on(talk_to: TalkTo, echo: Caller) -> None:
    talk = talk_to(echo, "fresh")
    one, first = await talk.ask("one")
    await talk.ask("two")
    del talk.messages[2:]
    _, forked = await talk.ask("two")
    assert forked != first
    assert len(await talk.read_saved_texts(first)) == 4
    _, onward = await talk.ask("three")
    assert onward == forked
    assert (await talk.read_saved_texts(forked))[:3] == ["one", one, "two"]
    assert len(await talk.read_saved_texts(forked)) == 6
    row = (await echo.get(f"/v1/conversations/{forked}")).json()
    assert row["forked_from"]["conversation_id"] == first
    assert echo.headers["X-Agent-Id"] == row["agent_id"]
    assert (await echo.delete(first)).status_code == 204
    del talk.messages[2:]
    _, fresh = await talk.ask("once more")
    assert fresh not in (first, forked), "what it would be a fork of was deleted"


async def test_another_key_account_or_agent_never_finds_a_conversation(
    talk_to: TalkTo, echo: Caller, make_agent: MakeAgent
) -> None:
    talk = talk_to(echo, "mine")
    _, mine = await talk.ask("hi")
    other_agent = await make_agent("demo-echo")
    for caller, key in ((echo, "other"), (echo, None), (other_agent, "mine")):
        other = talk_to(caller, key)
        other.messages = talk.messages[:]
        _, theirs = await other.ask("and?")
        assert theirs != mine


async def test_without_a_key_a_conversation_is_in_no_list(talk_to: TalkTo, echo: Caller) -> None:
    _, unlisted = await talk_to(echo).ask("secretly")
    _, listed = await talk_to(echo, "listed").ask("openly")
    rows: list[str] = []
    while listed not in rows:  # the list may be behind by a second
        response = await echo.get("/v1/conversations", limit=100)
        rows = [row["conversation_id"] for row in response.json()["data"]]
    assert unlisted not in rows
    assert (await talk_to(echo).read_saved_texts(unlisted))[0] == "secretly"


async def test_anothers_id_is_a_name_like_any_other(talk_to: TalkTo, shop: Caller, starter: Caller) -> None:
    theirs = (await starter.chat("Hello")).json()["conversation_id"]
    talk = talk_to(shop, theirs)
    _, first = await talk.ask("Hi")
    _, second = await talk.ask("Thanks")
    assert theirs not in (first, second)
    assert first == second
