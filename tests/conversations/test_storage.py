"""What each account has stored in the log, counted as the log is followed."""

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.event_log import sum_bytes
from agentchat.conversations.projections import conversations_table
from agentchat.conversations.projections.conversations_table import AccountStorage, sum_stored_by_account
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")

ACCOUNT, OTHER = "account-1", "account-2"
AT = "2026-11-21T10:00:00.000000Z"


ONLY = [conversations_table.PROJECTION]


async def write(storage: Storage, *texts: str, account: str = ACCOUNT) -> Conversation:
    """A conversation with these titles, one after the other."""
    began = events.ConversationStarted(trace_id=make_id(), at=AT, account_id=account)
    return await storage.store.append(
        Conversation(conversation_id=make_id()), [began, *map(set_title, texts)]
    )


def set_title(text: str) -> events.ConversationDescribed:
    return events.ConversationDescribed(trace_id=make_id(), at=AT, title=text, metadata={})


async def measure_log(storage: Storage, *conversations: Conversation) -> AccountStorage:
    """The same, from the conversations' rows."""
    rows = [row for each in conversations for row in await storage.log.read_rows(each.conversation_id)]
    return AccountStorage(conversations=len(conversations), events=len(rows), bytes=sum_bytes(rows))


async def test_events_and_bytes_are_counted_by_account_those_of_copies_too(storage: Storage) -> None:
    one, two = await write(storage, "a" * 1000, "é" * 500), await write(storage, "b")
    other = await write(storage, "c", account=OTHER)
    await storage.follow(ONLY, batch=2)
    copy = msgspec.structs.replace(set_title("d" * 300), inherited_from=make_id())
    one = await storage.store.append(one, [copy])
    await storage.follow(ONLY)
    assert await sum_stored_by_account(storage.pool, ACCOUNT) == {
        ACCOUNT: await measure_log(storage, one, two)
    }
    assert await sum_stored_by_account(storage.pool) == {
        ACCOUNT: await measure_log(storage, one, two),
        OTHER: await measure_log(storage, other),
    }
    assert await sum_stored_by_account(storage.pool, "nobody") == {}


@pytest.mark.parametrize("steps", [0, 1, 2, None])
async def test_an_erasure_frees_what_was_counted_wherever_the_count_was(
    storage: Storage, steps: int | None
) -> None:
    kept, gone = await write(storage, "kept"), await write(storage, *"abcde")
    await storage.follow(ONLY, batch=3, steps=steps)
    await storage.erase(gone)
    await storage.follow(ONLY)
    assert await sum_stored_by_account(storage.pool) == {ACCOUNT: await measure_log(storage, kept)}
