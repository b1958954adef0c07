"""The log as readers have it: pages by position, conversations by version."""

import asyncio

import pytest

from contracts.events import Event
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.event_store.log import PAGE_BYTES, Log
from conversations.event_store.shared_log import SharedLog
from conversations.event_store.store import ConversationStore
from runtime.postgres import Pool
from tests.conversations.given import ACCOUNT, answered, asked, began, said, started, turn

pytestmark = pytest.mark.requirement("EVENT-STORE")


async def test_pages_follow_each_other_without_gap_or_repetition(store: ConversationStore, log: Log) -> None:
    start = await log.head()
    told = [Conversation(conversation_id=new_id()) for _ in range(4)]
    for conversation in told:
        await store.append(conversation, [began(), *turn("a", "Hello", "Hi")])
    seen: list[tuple[str, int]] = []
    position = start
    while page := await log.read(position, 5):
        assert len(page) <= 5
        seen += [(entry.conversation_id, entry.version) for entry in page]
        position = page[-1].position
    assert seen == [(each.conversation_id, version) for each in told for version in range(1, 8)]
    assert position == await log.head()


async def test_a_page_of_large_events_is_shorter_but_never_empty(store: ConversationStore, log: Log) -> None:
    start = await log.head()
    large = "x" * (PAGE_BYTES // 4)
    stored: list[Event] = [began(), asked("a", large), started(), *said(large + large), *answered("Hi")]
    await store.append(Conversation(conversation_id=new_id()), stored)
    sizes: list[int] = []
    while page := await log.read(start, 100):
        sizes.append(len(page))
        start = page[-1].position
    assert sum(sizes) == len(stored)
    assert len(sizes) > 1


async def test_a_conversations_events_are_read_by_version(store: ConversationStore, log: Log) -> None:
    stored = [began(), *turn("a", "Hello", "Hi")]
    told = await store.append(Conversation(conversation_id=new_id()), stored)
    assert await log.events(told.conversation_id) == stored
    assert await log.events(told.conversation_id, 2, 4) == stored[2:4]
    assert await log.events(told.conversation_id, 7) == []


async def test_the_first_event_says_whose_a_conversation_is(store: ConversationStore, log: Log) -> None:
    told = await store.append(Conversation(conversation_id=new_id()), [began(), asked()])
    unknown = new_id()
    assert await log.accounts_of([told.conversation_id, unknown]) == {told.conversation_id: ACCOUNT}


@pytest.mark.requirement("PROJECTION-FEED")
async def test_a_page_that_one_follower_has_read_is_given_to_the_next_until_something_is_appended(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    shared, start = SharedLog(pool), await log.head()
    told = await store.append(Conversation(conversation_id=new_id()), [began()])
    first, second = await asyncio.gather(shared.read(start, 10), shared.read(start, 10))
    assert first is second
    assert first[0].event is second[0].event  # decoded once
    await store.append(told, [asked()])
    shared.appended()
    assert await shared.read(start, 10) == await log.read(start, 10)
    assert await shared.read(start, 1) == first
