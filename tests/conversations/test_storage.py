"""What each account has stored in the log, counted as the log is followed."""

import msgspec
import pytest

from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.erased_rows import FIRST_PIECE, erase_piece
from conversations.event_store.log import Log, bytes_of
from conversations.event_store.store import ConversationStore
from conversations.projections import storage_table
from conversations.projections.follower import Follower
from conversations.projections.rebuilding import rebuild
from conversations.projections.storage_table import NOTHING, AccountStorage, stored_by_account, stored_of
from conversations.projections.verifying import verify
from runtime.postgres import Pool
from tests.conversations.read_models import empty

pytestmark = pytest.mark.requirement("LIMIT-STORAGE")

ACCOUNT, OTHER = "account-1", "account-2"
AT = "2026-11-21T10:00:00.000000Z"


@pytest.fixture(autouse=True)
async def emptied(migrated_database_url: str) -> None:
    await empty(migrated_database_url)


async def follow(pool: Pool, log: Log, *, batch: int = 500, steps: int | None = None) -> None:
    follower = Follower(pool, log, [storage_table.PROJECTION], batch=batch)
    while steps != 0 and await follower.step():
        steps = None if steps is None else steps - 1


async def written(store: ConversationStore, *texts: str, account: str = ACCOUNT) -> Conversation:
    """A conversation with these titles, one after the other."""
    began = events.ConversationStarted(trace_id=new_id(), at=AT, account_id=account)
    return await store.append(Conversation(conversation_id=new_id()), [began, *map(titled, texts)])


def titled(text: str) -> events.ConversationDescribed:
    return events.ConversationDescribed(trace_id=new_id(), at=AT, title=text, metadata={})


async def erase(store: ConversationStore, conversation: Conversation) -> None:
    gone = events.ConversationErased(trace_id=new_id(), at=AT, account_id=ACCOUNT)
    await store.append(conversation, [gone])


async def in_log(log: Log, *conversations: Conversation) -> AccountStorage:
    """The same, from the conversations' rows."""
    rows = [row for each in conversations for row in await log.rows(each.conversation_id)]
    return AccountStorage(conversations=len(conversations), events=len(rows), bytes=bytes_of(rows))


async def test_events_and_bytes_are_counted_by_account_those_of_copies_too(
    store: ConversationStore, pool: Pool, log: Log
) -> None:
    one, two = await written(store, "a" * 1000, "é" * 500), await written(store, "b")
    other = await written(store, "c", account=OTHER)
    await follow(pool, log, batch=2)
    copy = msgspec.structs.replace(titled("d" * 300), inherited_from=new_id())
    one = await store.append(one, [copy])
    await follow(pool, log)
    assert await stored_of(pool, ACCOUNT) == await in_log(log, one, two)
    assert await stored_by_account(pool) == {
        ACCOUNT: await in_log(log, one, two),
        OTHER: await in_log(log, other),
    }
    assert await stored_of(pool, "nobody") == NOTHING


@pytest.mark.parametrize("steps", [0, 1, 2, None])
async def test_an_erasure_frees_what_was_counted_wherever_the_count_was(
    store: ConversationStore, pool: Pool, log: Log, steps: int | None
) -> None:
    kept, gone = await written(store, "kept"), await written(store, *"abcde")
    await follow(pool, log, batch=3, steps=steps)
    await erase(store, gone)
    await follow(pool, log)
    assert await stored_of(pool, ACCOUNT) == await in_log(log, kept)


async def test_a_long_conversation_is_free_at_its_erasure_though_its_rows_go_later(
    store: ConversationStore, pool: Pool, log: Log
) -> None:
    gone = await written(store, *(["x"] * (2 * FIRST_PIECE + 100)))
    await follow(pool, log)
    await erase(store, gone)
    await follow(pool, log)
    assert await stored_of(pool, ACCOUNT) == NOTHING
    while await erase_piece(pool):
        pass


async def test_a_rebuild_and_a_verification_find_the_same(
    store: ConversationStore, pool: Pool, log: Log
) -> None:
    kept, gone = await written(store, "kept", "é"), await written(store, "gone")
    await follow(pool, log)
    await erase(store, gone)  # after the live position: neither side has it
    (found,) = await verify(pool, log, [storage_table.PROJECTION])
    assert found.ok
    assert found.rows == 1
    await rebuild(pool, log, [storage_table.PROJECTION])
    assert await stored_of(pool, ACCOUNT) == await in_log(log, kept)
