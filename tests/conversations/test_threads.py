"""What readers are shown is what the fold has, at every version, in pages of any size."""

from datetime import UTC, datetime, timedelta

import pytest

from contracts.events import MessageSaved
from conversations.aggregate.conversation import Conversation, fold
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.queries import threads
from conversations.queries.time_travel import past_of
from conversations.transfer import moving
from conversations.transfer.file_format import Carried
from runtime.postgres import Pool
from tests.conversations import recorded

pytestmark = pytest.mark.requirement("CONV-PAGES")

_MANY = 1_000_000


async def stored(store: ConversationStore, pool: Pool, name: str) -> Carried:
    carried = recorded.carried(name)
    await moving.bring(store, carried, await moving.planned(pool, carried))
    return carried


def said(conversation: Conversation) -> list[tuple[str, str, str, str, str]]:
    """Role, id, text, agent and time of each message, as the fold has them."""
    found = []
    for run in conversation.runs:
        found.append(("user", run.user_message_id, run.user_text, run.agent_id, run.requested_at))
        if run.reply is not None:
            reply = run.reply
            found.append(("assistant", reply.id, reply.content, run.agent_id, reply.created_at))
    return found


def shown(message: MessageSaved) -> tuple[str, str, str, str, str]:
    return message.role, message.message_id, message.content, message.agent_id, message.at


async def test_pages_show_what_the_fold_has(store: ConversationStore, log: Log, pool: Pool) -> None:
    for name in ("shop", "cancelled", "failed", "taken_over", "first_release"):
        carried = await stored(store, pool, name)
        facts, conversation_id = recorded.facts(carried), carried.conversation_id
        thread = await threads.find_thread(pool, conversation_id)
        assert thread is not None
        assert thread.version == len(facts)
        for version in range(len(facts) + 1):
            expected = fold(conversation_id, facts[:version])
            found: list[threads.SavedMessage] = []
            more = True
            while more:
                page = await threads.messages_of(
                    pool,
                    conversation_id,
                    after=found[-1].version if found else 0,
                    until=version,
                    limit=2,
                    max_bytes=_MANY,
                )
                found += page.messages
                more = page.more
            assert [shown(each.message) for each in found] == said(expected)
            summary = await threads.summary_of(pool, conversation_id, version)
            assert (summary is None) == (not found)
            if summary is not None:
                assert summary.count == len(found)
                assert summary.started_at == expected.started_at
                assert summary.first == found[0].message
                assert summary.last == found[-1].message
                described = summary.described
                assert (described.title if described else None) == expected.title
                assert (described.metadata if described else {}) == expected.metadata


async def test_a_page_ends_with_the_message_that_reaches_its_bytes(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    conversation_id = (await stored(store, pool, "shop")).conversation_id
    whole = await threads.messages_of(pool, conversation_id, after=0, until=_MANY, limit=100, max_bytes=_MANY)
    assert whole.more is False
    assert (len(whole.messages) > 2) is True
    first = await threads.messages_of(pool, conversation_id, after=0, until=_MANY, limit=100, max_bytes=1)
    assert first.more is True
    assert first.messages == whole.messages[:1]
    rest = await threads.messages_of(
        pool,
        conversation_id,
        after=whole.messages[-2].version,
        until=_MANY,
        limit=1,
        max_bytes=1,
    )
    assert rest.more is False
    assert rest.messages == whole.messages[-1:]


async def test_a_time_is_the_version_that_the_conversation_had(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    carried = await stored(store, pool, "cancelled")
    thread = await threads.find_thread(pool, carried.conversation_id)
    assert thread is not None
    times = {datetime.fromisoformat(fact.at) for fact in recorded.facts(carried)}
    earliest, latest = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for time in {*times, min(times) - timedelta(microseconds=1), earliest, latest}:
        past = await past_of(log, carried.conversation_id, time)
        assert await threads.version_at(pool, thread, time) == past.conversation.version


async def test_what_was_erased_or_never_was_is_no_thread(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    erased = await stored(store, pool, "erased")
    assert await threads.find_thread(pool, erased.conversation_id) is None
    assert await threads.find_thread(pool, "01a2001a-0000-7000-8000-000000000000") is None
