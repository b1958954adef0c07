"""Time travel: at every version and time of a recorded history it is the fold, cut short there."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from conversations.aggregate.conversation import fold
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.queries.time_travel import parse_version_or_time, past_of
from conversations.transfer import moving
from conversations.transfer.file_format import Carried
from runtime.postgres import Pool
from tests.conversations import recorded

pytestmark = pytest.mark.requirement("TIME-TRAVEL")


async def stored(store: ConversationStore, pool: Pool, name: str) -> Carried:
    carried = recorded.carried(name)
    await moving.bring(store, carried, await moving.planned(pool, carried))
    return carried


@pytest.mark.parametrize("name", ["shop", "compacted"])
async def test_at_every_version_it_is_the_fold_of_what_was_there(
    store: ConversationStore, log: Log, pool: Pool, name: str
) -> None:
    carried = await stored(store, pool, name)
    facts = recorded.facts(carried)
    for version in range(len(facts) + 1):
        past = await past_of(log, carried.conversation_id, version)
        assert past.conversation == fold(carried.conversation_id, facts[:version])
        assert past.head == len(facts)
        assert len(past.entries) == version
    now = await past_of(log, carried.conversation_id)
    stored_now = await log.conversation(carried.conversation_id)
    assert now.conversation == replace(stored_now, stored_bytes=0)
    beyond = await past_of(log, carried.conversation_id, len(facts) + 1)
    assert beyond.conversation == now.conversation
    assert beyond.head == len(facts)


async def test_at_a_time_it_has_what_was_stored_until_then(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    carried = await stored(store, pool, "cancelled")
    facts = recorded.facts(carried)
    for fact in facts:
        time = datetime.fromisoformat(fact.at)
        past = await past_of(log, carried.conversation_id, time)
        kept = past.conversation.version
        assert all(datetime.fromisoformat(each.at) <= time for each in facts[:kept])
        assert kept == len(facts) or datetime.fromisoformat(facts[kept].at) > time
        assert past.conversation == fold(carried.conversation_id, facts[:kept])
    first = datetime.fromisoformat(facts[0].at)
    before = await past_of(log, carried.conversation_id, first - timedelta(microseconds=1))
    assert before.entries == ()
    assert before.conversation.version == 0
    after = await past_of(log, carried.conversation_id, first + timedelta(days=1))
    assert after.conversation.version == len(facts)


async def test_an_erased_conversation_has_no_past(store: ConversationStore, log: Log, pool: Pool) -> None:
    carried = await stored(store, pool, "erased")
    for place in (1, 7, 8, 99, datetime(2020, 1, 1, tzinfo=UTC)):
        past = await past_of(log, carried.conversation_id, place)
        assert past.conversation.erased
        assert past.conversation.version == past.head == carried.stored[0].version


async def test_what_cannot_be_read_does_not_hide_what_was_before(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    carried = await stored(store, pool, "failed")
    count = len(carried.stored)
    await store.append_stored(
        carried.conversation_id, count, [("unheard_of.v9", b'{"type":"unheard_of.v9"}')]
    )
    past = await past_of(log, carried.conversation_id, count)
    assert past.conversation == fold(carried.conversation_id, recorded.facts(carried))
    assert past.head == count + 1


async def test_what_never_was_has_no_head(log: Log) -> None:
    past = await past_of(log, "01a2001a-0000-7000-8000-000000000000", 3)
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
