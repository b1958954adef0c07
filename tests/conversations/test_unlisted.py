"""What no list shows, found in the log by its ids."""

import pytest

from contracts import events, ids
from conversations.event_store.store import ConversationStore
from conversations.queries.unlisted import Unlisted, unlisted
from runtime.postgres import Pool, connection
from tests.conversations.given import trace

pytestmark = pytest.mark.requirement("OPENAI-API")

_OLD = "0192f0c1-7d11-8{}-8bbb-0000000000d2"


async def _begin(store: ConversationStore, conversation_id: str, at: str, account_id: str) -> None:
    fact = events.ConversationStarted(trace_id=trace(), at=at, account_id=account_id)
    await store.append(await store.load(conversation_id), [fact])


async def _found(pool: Pool, idle_seconds: float | None = None) -> set[Unlisted]:
    return {each async for each in unlisted(pool, idle_seconds=idle_seconds)}


async def test_the_old_are_those_of_which_nothing_was_stored_for_long(
    store: ConversationStore, pool: Pool
) -> None:
    async with connection(pool) as conn:
        row = await (await conn.execute("SELECT clock_timestamp()::text")).fetchone()
    assert row is not None
    now = str(row[0]).replace(" ", "T").replace("+00", "Z")
    long_ago = "2020-01-01T00:00:00.000000Z"
    old = [_OLD.format(f"{number:03x}") for number in range(120)]  # of several pages
    for conversation_id in old:
        await _begin(store, conversation_id, long_ago, "a")
    alive, new, listed = _OLD.format("fff"), ids.new_unlisted_id(), ids.new_id()
    await _begin(store, alive, now, "a")
    await _begin(store, new, long_ago, "b")
    await _begin(store, listed, long_ago, "a")
    assert await _found(pool, 60) == {Unlisted(each, "a") for each in old}
    everything = {Unlisted(each, "a") for each in (*old, alive)} | {Unlisted(new, "b")}
    assert await _found(pool) == everything
    conversation = await store.load(new)
    erased = events.ConversationErased(trace_id=trace("z"), at=now, account_id="b")
    await store.append(conversation, [erased])
    assert await _found(pool) == everything - {Unlisted(new, "b")}
