"""What readers are shown, and the past: at each version and time they are the fold, cut short there."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from agentchat.contracts.events import MessageSaved
from agentchat.conversations.aggregate.conversation import Conversation, fold
from agentchat.conversations.eventsourcing_application import DATABASE_URL, ConversationLog, PastConversation
from agentchat.conversations.queries import read_thread
from agentchat.conversations.queries.time_travel import VersionOrTime, parse_version_or_time
from tests.conversations import recorded
from tests.conversations.read_models import Storage

_MANY = 1_000_000


def list_said(conversation: Conversation) -> list[tuple[str, str, str, str, str]]:
    """Role, id, text, agent and time of each message, as the fold has them."""
    found = []
    for run in conversation.runs:
        found.append(("user", run.user_message_id, run.user_text, run.agent_id, run.requested_at))
        if run.reply is not None:
            reply = run.reply
            found.append(("assistant", reply.id, reply.content, run.agent_id, reply.created_at))
    return found


def show(message: MessageSaved) -> tuple[str, str, str, str, str]:
    return message.role, message.message_id, message.content, message.agent_id, message.at


async def load_past_of(
    storage: Storage, conversation_id: str, place: VersionOrTime | None = None
) -> PastConversation:
    def load() -> PastConversation:
        with ConversationLog({DATABASE_URL: storage.url}) as log:
            return log.load_past(conversation_id, place)

    return await asyncio.to_thread(load)


async def test_pages_show_what_the_fold_has(storage: Storage) -> None:
    for name in ("shop", "cancelled", "failed", "taken_over", "first_release"):
        carried = await recorded.ensure_stored(storage.store, name)
        facts, conversation_id = recorded.build_facts(carried), carried.conversation_id
        thread = await read_thread.find_thread(storage.pool, conversation_id)
        assert thread is not None
        assert thread.version == len(facts)
        for version in range(len(facts) + 1):
            expected = fold(conversation_id, facts[:version])
            found: list[read_thread.SavedMessage] = []
            more = True
            while more:
                page = await read_thread.list_messages(
                    storage.pool,
                    conversation_id,
                    after=found[-1].version if found else 0,
                    until=version,
                    limit=2,
                    max_bytes=_MANY,
                )
                found += page.messages
                more = page.more
            assert [show(each.message) for each in found] == list_said(expected)
            summary = await read_thread.load_summary(storage.pool, conversation_id, version)
            assert (summary is None) == (not found)
            if summary is not None:
                assert (summary.count, summary.started.at) == (len(found), expected.started_at)
                assert (summary.first, summary.last) == (found[0].message, found[-1].message)
                described = summary.described
                assert (described.title if described else None) == expected.title
                assert (described.metadata if described else {}) == expected.metadata


async def test_a_page_ends_with_the_message_that_reaches_its_bytes(storage: Storage) -> None:
    conversation_id = (await recorded.ensure_stored(storage.store, "shop")).conversation_id
    whole = await read_thread.list_messages(
        storage.pool, conversation_id, after=0, until=_MANY, limit=100, max_bytes=_MANY
    )
    assert whole.more is False
    assert (len(whole.messages) > 2) is True
    first = await read_thread.list_messages(
        storage.pool, conversation_id, after=0, until=_MANY, limit=100, max_bytes=1
    )
    assert (first.more, first.messages) == (True, whole.messages[:1])
    rest = await read_thread.list_messages(
        storage.pool, conversation_id, after=whole.messages[-2].version, until=_MANY, limit=1, max_bytes=1
    )
    assert (rest.more, rest.messages) == (False, whole.messages[-1:])


async def test_a_time_is_the_version_that_the_conversation_had(storage: Storage) -> None:
    carried = await recorded.ensure_stored(storage.store, "cancelled")
    thread = await read_thread.find_thread(storage.pool, carried.conversation_id)
    assert thread is not None
    times = {datetime.fromisoformat(fact.at) for fact in recorded.build_facts(carried)}
    earliest, latest = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for time in {*times, min(times) - timedelta(microseconds=1), earliest, latest}:
        past = await load_past_of(storage, carried.conversation_id, time)
        assert await read_thread.find_version_at(storage.pool, thread, time) == past.conversation.version


async def test_what_was_erased_or_never_was_is_no_thread(storage: Storage) -> None:
    erased = await recorded.ensure_stored(storage.store, "erased")
    assert await read_thread.find_thread(storage.pool, erased.conversation_id) is None
    assert await read_thread.find_thread(storage.pool, "01a2001a-0000-7000-8000-000000000000") is None


@pytest.mark.parametrize("name", ["shop", "compacted"])
async def test_at_every_version_it_is_the_fold_of_what_was_there(storage: Storage, name: str) -> None:
    carried = await recorded.ensure_stored(storage.store, name)
    facts = recorded.build_facts(carried)
    for version in range(len(facts) + 1):
        past = await load_past_of(storage, carried.conversation_id, version)
        assert past.conversation == fold(carried.conversation_id, facts[:version])
        assert past.head == len(facts)
        assert len(past.entries) == version
    now = await load_past_of(storage, carried.conversation_id)
    stored_now = await storage.log.load_conversation(carried.conversation_id)
    assert now.conversation == replace(stored_now, stored_bytes=0)
    beyond = await load_past_of(storage, carried.conversation_id, len(facts) + 1)
    assert (beyond.conversation, beyond.head) == (now.conversation, len(facts))


async def test_at_a_time_it_has_what_was_stored_until_then(storage: Storage) -> None:
    carried = await recorded.ensure_stored(storage.store, "cancelled")
    facts = recorded.build_facts(carried)
    for fact in facts:
        time = datetime.fromisoformat(fact.at)
        past = await load_past_of(storage, carried.conversation_id, time)
        kept = past.conversation.version
        assert all(datetime.fromisoformat(each.at) <= time for each in facts[:kept])
        assert kept == len(facts) or datetime.fromisoformat(facts[kept].at) > time
        assert past.conversation == fold(carried.conversation_id, facts[:kept])
    first = datetime.fromisoformat(facts[0].at)
    before = await load_past_of(storage, carried.conversation_id, first - timedelta(microseconds=1))
    assert before.entries == ()
    assert before.conversation.version == 0
    after = await load_past_of(storage, carried.conversation_id, first + timedelta(days=1))
    assert after.conversation.version == len(facts)


async def test_an_erased_conversation_has_no_past(storage: Storage) -> None:
    carried = await recorded.ensure_stored(storage.store, "erased")
    for place in (1, 7, 8, 99, datetime(2020, 1, 1, tzinfo=UTC)):
        past = await load_past_of(storage, carried.conversation_id, place)
        assert past.conversation.erased
        assert past.conversation.version == past.head == carried.stored[0].version


async def test_what_cannot_be_read_does_not_hide_what_was_before(storage: Storage) -> None:
    carried = await recorded.ensure_stored(storage.store, "failed")
    count = len(carried.stored)
    await storage.store.append_stored(
        carried.conversation_id, count, [("unheard_of.v9", b'{"type":"unheard_of.v9"}')]
    )
    past = await load_past_of(storage, carried.conversation_id, count)
    assert past.conversation == fold(carried.conversation_id, recorded.build_facts(carried))
    assert past.head == count + 1


async def test_what_never_was_has_no_head(storage: Storage) -> None:
    past = await load_past_of(storage, "01a2001a-0000-7000-8000-000000000000", 3)
    assert past.head == 0
    assert past.entries == (())


def test_places_are_versions_and_times() -> None:
    assert parse_version_or_time("12") == 12
    nine = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    for text in (
        "2026-11-21T09:30:00Z",
        "2026-11-21T09:30",
        "2026-11-21 09:30:00",
        "2026-11-21T10:30:00+01:00",
    ):
        assert parse_version_or_time(text) == nine
    for text in ("", "-1", "1.5", "now", "9" * 19, "١٢", "2026-13-01", "2026-11-21T09:30:00 01:00", "\x00"):
        with pytest.raises(ValueError, match="must be a version, such as 12, or a time in ISO 8601"):
            parse_version_or_time(text)
