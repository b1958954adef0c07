"""Conversations by what their callers show of them, and those that no list shows."""

from msgspec.structs import replace

from agentchat.contracts import events, ids
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import ShownMessage, Usage
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_history import (
    ContinuedConversation,
    compute_digests,
    find_continued,
    hash_shown,
)
from agentchat.conversations.queries.unlisted_conversations import UnlistedConversation, list_unlisted
from agentchat.runtime.postgres import Pool, acquire_connection
from tests.conversations.given import (
    AT,
    begin,
    build_conversation_started,
    build_delta,
    build_run_failed,
    trace,
)
from tests.conversations.read_models import follow


def _append_reply(text: str, word: str = "a") -> events.MessageSaved:
    return events.MessageSaved(
        trace_id=trace(word),
        at=AT,
        message_id=f"reply-{word}",
        role="assistant",
        agent_id="agent-1",
        content=text,
        token_count=1,
    )


async def _store(store: ConversationStore, *more: events.Event) -> tuple[str, str]:
    """A conversation with one answered question, and what its run is found by."""
    found_by, conversation_id = make_id(), make_id()
    first = (
        build_conversation_started(),
        *begin("a", "One?", shown_sha256=found_by),
        *build_delta("1", "a"),
        _append_reply("1"),
    )
    ended = events.RunCompleted(trace_id=trace("a"), at=AT, rounds=1, usage=Usage())
    await store.append(await store.load(conversation_id), [*first, ended, *more])
    return found_by, conversation_id


async def test_a_conversation_is_found_by_its_last_reply(store: ConversationStore, pool: Pool) -> None:
    found_by, conversation_id = await _store(store)
    assert await find_continued(pool, found_by, " 1\n", "Two?") == ContinuedConversation(
        conversation_id, "reply-a"
    )
    assert await find_continued(pool, found_by, "2", "Two?") is None
    assert await find_continued(pool, make_id(), "1", "Two?") is None


async def test_interrupted_reply_that_is_shown_is_continued(store: ConversationStore, pool: Pool) -> None:
    found_by, conversation_id = make_id(), make_id()
    cut_off = replace(_append_reply("On"), interrupted=True)
    begun = begin("a", "One?", shown_sha256=found_by)
    first = (build_conversation_started(), *begun, build_delta("On", "a")[0], cut_off, build_run_failed("a"))
    await store.append(await store.load(conversation_id), first)
    found = ContinuedConversation(conversation_id, "reply-a")
    assert await find_continued(pool, found_by, "On", "Two?") == found


async def test_what_was_asked_in_vain_is_asked_again_in_its_conversation(
    store: ConversationStore, pool: Pool
) -> None:
    in_vain = [
        event
        for word in ("b", "c")
        for event in (*begin(word, "Two?", shown_sha256="other"), build_run_failed(word))
    ]
    found_by, conversation_id = await _store(store, *in_vain)
    assert await find_continued(pool, found_by, "1", "Two? ") == ContinuedConversation(
        conversation_id, "reply-a"
    )
    other = await find_continued(pool, found_by, "1", "Three?")
    assert other is not None
    assert other.has_gone_on, "the model was asked something else"


async def test_a_conversation_with_later_messages_has_continued(store: ConversationStore, pool: Pool) -> None:
    cut_off: list[events.Event] = [build_delta("Tw", "b")[0], build_run_failed("b")]
    answered: list[events.Event] = [*build_delta("2", "b"), _append_reply("2", "b")]
    for last in (cut_off, answered, []):  # the last is under way
        found_by, conversation_id = await _store(store, *begin("b", "Two?"), *last)
        found = await find_continued(pool, found_by, "1", "Two?")
        assert found == ContinuedConversation(conversation_id, "reply-a", trace("a"), has_gone_on=True)
        assert await find_continued(pool, found_by, "2", "Two?") is None


def test_digests_are_of_texts_and_of_those_before_the_last_reply() -> None:
    one, reply, two = ShownMessage("user", "1"), ShownMessage("assistant", "a"), ShownMessage("user", "2")
    known = compute_digests([one, reply, two])
    assert (known.before, known.reply) == (compute_digests([one]).messages, reply.content)
    known = compute_digests([one, two])
    assert (known.before, known.reply) == (compute_digests([one]).messages, "")
    assert compute_digests([one]).before is None
    assert compute_digests([reply, two]).before is None
    spaced = ShownMessage("user", " 1\n")
    assert compute_digests([spaced]) == compute_digests([one])
    apart = [ShownMessage("user", "1"), ShownMessage("user", "2")]
    assert compute_digests(apart) != compute_digests([ShownMessage("user", "12")])
    hashes = {
        hash_shown(*each, compute_digests([one]).messages) for each in (("a", "b", "c"), ("a", "bc", ""))
    }
    assert len(hashes) == 2


_OLD = "0192f0c1-7d11-8{}-8bbb-0000000000d2"


async def _begin(store: ConversationStore, conversation_id: str, at: str, account_id: str) -> None:
    fact = events.ConversationStarted(trace_id=trace(), at=at, account_id=account_id)
    await store.append(await store.load(conversation_id), [fact])


async def _find(pool: Pool, idle_seconds: float | None = None) -> set[UnlistedConversation]:
    return {each async for each in list_unlisted(pool, idle_seconds=idle_seconds)}


async def test_the_old_are_those_of_which_nothing_was_stored_for_long(
    store: ConversationStore, pool: Pool
) -> None:
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute("SELECT clock_timestamp()::text")).fetchone()
    assert row is not None
    now = str(row[0]).replace(" ", "T").replace("+00", "Z")
    long_ago = "2020-01-01T00:00:00.000000Z"
    old = [_OLD.format(f"{number:03x}") for number in range(120)]  # of several pages
    for conversation_id in old:
        await _begin(store, conversation_id, long_ago, "a")
    alive, new, listed = _OLD.format("fff"), ids.make_unlisted_id(), ids.make_id()
    await _begin(store, alive, now, "a")
    await _begin(store, new, now, "b")
    await _begin(store, listed, long_ago, "a")
    await follow(pool, Log(pool))
    assert await _find(pool, 60) == {UnlistedConversation(each, "a") for each in old}
    everything = {UnlistedConversation(each, "a") for each in (*old, alive)} | {
        UnlistedConversation(new, "b")
    }
    assert await _find(pool) == everything
    conversation = await store.load(new)
    erased = events.ConversationErased(trace_id=trace("z"), at=now, account_id="b")
    await store.append(conversation, [erased])
    assert await _find(pool) == everything - {UnlistedConversation(new, "b")}
