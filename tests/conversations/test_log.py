"""The log as readers have it: pages by position, conversations by version."""

import pytest

from contracts.events import Event
from contracts.ids import new_id
from conversations.conversation import Conversation
from conversations.log import PAGE_BYTES, Log
from conversations.store import ConversationStore
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
