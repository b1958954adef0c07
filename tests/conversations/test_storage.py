"""What each account has stored in the log, counted as the log is followed."""

from functools import partial

import msgspec
import pytest

from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.erased_rows import FIRST_PIECE, erase_piece
from conversations.event_store.log import Log, bytes_of
from conversations.event_store.store import ConversationStore
from conversations.projections import storage_table
from conversations.projections.storage_table import NOTHING, AccountStorage, stored_by_account, stored_of
from runtime.postgres import Pool
from tests.conversations import read_models
from tests.conversations.read_models import erase

pytestmark = [pytest.mark.requirement("LIMIT-STORAGE"), pytest.mark.usefixtures("emptied")]

ACCOUNT, OTHER = "account-1", "account-2"
AT = "2026-11-21T10:00:00.000000Z"


follow = partial(read_models.follow, projections=[storage_table.PROJECTION])


async def written(store: ConversationStore, *texts: str, account: str = ACCOUNT) -> Conversation:
    """A conversation with these titles, one after the other."""
    began = events.ConversationStarted(trace_id=new_id(), at=AT, account_id=account)
    return await store.append(Conversation(conversation_id=new_id()), [began, *map(titled, texts)])


def titled(text: str) -> events.ConversationDescribed:
    return events.ConversationDescribed(trace_id=new_id(), at=AT, title=text, metadata={})


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
