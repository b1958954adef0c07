"""Conversations by what their callers show of them."""

import pytest

from contracts import events
from contracts.ids import new_id
from contracts.values import ShownMessage, Usage
from conversations.event_store.store import ConversationStore
from conversations.queries.shown_history import Continued, digests_of, find_continued, hash_of
from runtime.postgres import Pool
from tests.conversations.given import AT, asked, began, failed, said, started, trace

pytestmark = pytest.mark.requirement("OPENAI-API")


def _replied(text: str, word: str = "a") -> events.MessageSaved:
    return events.MessageSaved(
        trace_id=trace(word),
        at=AT,
        message_id=f"reply-{word}",
        role="assistant",
        agent_id="agent-1",
        content=text,
        token_count=1,
    )


async def _stored(store: ConversationStore, *more: events.Event) -> tuple[str, str]:
    """A conversation with one answered question, and what its run is found by."""
    found_by, conversation_id = new_id(), new_id()
    first = (began(), asked("a", "One?"), started("a", shown_sha256=found_by), *said("1", "a"), _replied("1"))
    ended = events.RunCompleted(trace_id=trace("a"), at=AT, rounds=1, usage=Usage())
    await store.append(await store.load(conversation_id), [*first, ended, *more])
    return found_by, conversation_id


async def test_a_conversation_is_found_by_its_last_reply(store: ConversationStore, pool: Pool) -> None:
    found_by, conversation_id = await _stored(store)
    assert await find_continued(pool, found_by, " 1\n", "Two?") == Continued(conversation_id, "reply-a")
    assert await find_continued(pool, found_by, "2", "Two?") is None
    assert await find_continued(pool, new_id(), "1", "Two?") is None


async def test_what_was_asked_in_vain_is_asked_again_in_its_conversation(
    store: ConversationStore, pool: Pool
) -> None:
    in_vain = [
        event
        for word in ("b", "c")
        for event in (asked(word, "Two?"), started(word, shown_sha256="other"), failed(word))
    ]
    found_by, conversation_id = await _stored(store, *in_vain)
    assert await find_continued(pool, found_by, "1", "Two? ") == Continued(conversation_id, "reply-a")
    other = await find_continued(pool, found_by, "1", "Three?")
    assert other is not None
    assert other.has_gone_on, "the model was asked something else"


async def test_a_conversation_in_which_more_was_said_has_gone_on(
    store: ConversationStore, pool: Pool
) -> None:
    cut_off: list[events.Event] = [said("Tw", "b")[0], failed("b")]
    answered: list[events.Event] = [*said("2", "b"), _replied("2", "b")]
    for last in (cut_off, answered, []):  # the last is under way
        found_by, conversation_id = await _stored(store, asked("b", "Two?"), started("b"), *last)
        found = await find_continued(pool, found_by, "1", "Two?")
        assert found == Continued(conversation_id, "reply-a", trace("a"), has_gone_on=True)
        assert await find_continued(pool, found_by, "2", "Two?") is None


def test_digests_are_of_texts_and_of_those_before_the_last_reply() -> None:
    one, reply, two = ShownMessage("user", "1"), ShownMessage("assistant", "a"), ShownMessage("user", "2")
    known = digests_of([one, reply, two])
    assert (known.before, known.reply) == (digests_of([one]).messages, reply.content)
    known = digests_of([one, two])
    assert (known.before, known.reply) == (digests_of([one]).messages, "")
    assert digests_of([one]).before is None
    assert digests_of([reply, two]).before is None
    spaced = ShownMessage("user", " 1\n")
    assert digests_of([spaced]) == digests_of([one])
    apart = [ShownMessage("user", "1"), ShownMessage("user", "2")]
    assert digests_of(apart) != digests_of([ShownMessage("user", "12")])
    hashes = {hash_of(*each, digests_of([one]).messages) for each in (("a", "b", "c"), ("a", "bc", ""))}
    assert len(hashes) == 2
