"""The chain of hashes: whatever is done to a stored event is found, at its place."""

import asyncio
from datetime import UTC, date, datetime
from typing import Any

import psycopg
import pytest

from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.chain.auditing import Audit, Scope, audit
from conversations.chain.day_heads import compare, head_of
from conversations.chain.links import ERASED as ERASED_TOPIC
from conversations.chain.links import LINK_BYTES, link_of, seal_of
from conversations.errors import VersionConflict
from conversations.event_store.feed_reader import fed_before
from conversations.event_store.log import Log
from conversations.event_store.mapper import stored
from conversations.event_store.store import ConversationStore, open_store
from ops import table_rights
from runtime.postgres import Pool, acting_as
from tests.conversations.given import ERASED, LATER, asked, began, started, turn

_INSERT = "INSERT INTO conversation_events (originator_id, originator_version, topic, state) VALUES "
_PUT_IN = (
    "INSERT INTO conversation_events (originator_id, originator_version, topic, state, notification_id, hash)"
    " VALUES "
)
_NEXT = "nextval('conversation_events_notification_id_seq')"


class Database:
    """As whoever owns it, and may do everything."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, *statements: str, **named: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as owner:
            for each in statements:
                cursor = owner.execute(each.encode(), named)
            return cursor.fetchall() if cursor.description else []

    def tamper(self, conversation_id: str, *statements: str) -> None:
        """With no trigger in the way."""
        off = "ALTER TABLE conversation_events DISABLE TRIGGER ALL"
        on = "ALTER TABLE conversation_events ENABLE TRIGGER ALL"
        with psycopg.connect(self._url) as owner:
            for each in (off, *statements, on):
                owner.execute(each.replace("THREAD", conversation_id).encode())


@pytest.fixture
async def orchestrator(migrated_database_url: str) -> Database:
    """As a login of orchestrators."""
    await table_rights.grant(migrated_database_url)
    return Database(acting_as(migrated_database_url, "orchestrator"))


@pytest.fixture
def database(migrated_database_url: str) -> Database:
    return Database(migrated_database_url)


async def thread_of(store: ConversationStore, *words: str) -> str:
    """One of 1 + 6 events a word."""
    thread = await store.append(Conversation(conversation_id=new_id()), [began()])
    for word in words:
        thread = await store.append(thread, turn(word, "Hello", "Hi"))
    return thread.conversation_id


async def audited(pool: Pool, log: Log, *conversations: str) -> Audit:
    return await audit(pool, log, Scope(last=await log.head(), conversations=conversations))


async def test_every_event_carries_a_hash_over_its_content_and_its_predecessors(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store, "a", "b")
    rows = database(
        "SELECT hash, originator_id, originator_version, notification_id, topic, state"
        " FROM conversation_events WHERE originator_id = %(id)s ORDER BY originator_version",
        id=thread,
    )
    salt, link = rows[0][0][:LINK_BYTES], rows[0][0][LINK_BYTES:]
    assert link == link_of(salt, *rows[0][1:])
    for row in rows[1:]:
        assert row[0] == link_of(link, *row[1:])
        link = row[0]
    found = await audited(pool, log, thread)
    assert (found.events, found.broken) == (len(rows), [])


@pytest.mark.parametrize(
    ("tampering", "version", "reason"),
    [
        (["UPDATE conversation_events SET state = '{{}}' WHERE {at} = 4"], 4, "not what was stored"),
        (["UPDATE conversation_events SET topic = 'a.v1' WHERE {at} = 4"], 4, "not what was stored"),
        (
            ["UPDATE conversation_events SET notification_id = -notification_id WHERE {at} = 4"],
            4,
            "not what was stored",
        ),
        (["DELETE FROM conversation_events WHERE {at} = 3"], 4, "version 3, is missing"),
        (["DELETE FROM conversation_events WHERE {at} = 1"], 2, "version 1, is missing"),
        (["UPDATE conversation_events SET hash = NULL WHERE {at} = 5"], 5, "its hash is missing"),
        (["UPDATE conversation_events SET hash = '\\x00' WHERE {at} = 5"], 5, "its hash is none"),
        (["UPDATE conversation_events SET hash = hash || hash WHERE {at} = 5"], 5, "a chain of its own"),
        (
            [  # two change places
                "UPDATE conversation_events SET originator_version = -3 WHERE {at} = 3",
                "UPDATE conversation_events SET originator_version = 3 WHERE {at} = 4",
                "UPDATE conversation_events SET originator_version = 4 WHERE {at} = -3",
            ],
            3,
            "not what was stored",
        ),
        (
            [  # one is put in, and those after it move
                "UPDATE conversation_events SET originator_version = -1 - originator_version WHERE {at} > 3",
                "UPDATE conversation_events SET originator_version = -originator_version WHERE {at} < 0",
                f"{_PUT_IN} ('THREAD', 4, 'message_saved.v1', '{{{{}}}}', {_NEXT}, NULL)",
            ],
            4,
            "its hash is missing",
        ),
    ],
)
async def test_the_first_broken_place_is_named(
    store: ConversationStore,
    log: Log,
    pool: Pool,
    database: Database,
    tampering: list[str],
    version: int,
    reason: str,
) -> None:
    other, thread = await thread_of(store, "a"), await thread_of(store, "b", "c")
    at = "originator_id = 'THREAD' AND originator_version"
    database.tamper(thread, *(each.format(at=at) for each in tampering))
    found = await audited(pool, log, other, thread)
    broken = {each.conversation_id: each for each in found.broken}
    assert set(broken) == {thread}
    assert broken[thread].version == version
    assert reason in broken[thread].reason


async def test_only_the_first_place_of_a_conversation_is_told(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store, "a")
    where = "WHERE originator_id = 'THREAD' AND originator_version IN (3, 5)"
    database.tamper(thread, f"UPDATE conversation_events SET state = '{{}}' {where}")
    found = await audited(pool, log, thread)
    assert [(each.conversation_id, each.version) for each in found.broken] == [(thread, 3)]


async def test_the_orchestrators_login_cannot_choose_a_position(
    store: ConversationStore, log: Log, pool: Pool, database: Database, orchestrator: Database
) -> None:
    thread = await thread_of(store)
    before = await log.head()
    orchestrator(f"{_PUT_IN} (%(id)s, 2, 'a.v1', '{{}}', -7, '\\x00')", id=thread)
    rows = database(
        "SELECT notification_id FROM conversation_events WHERE originator_id = %(id)s"
        " AND originator_version = 2",
        id=thread,
    )
    assert rows == [(before + 1,)]
    assert (await audited(pool, log, thread)).broken == []


async def test_a_writer_next_to_append_events_is_waited_for_by_its_conversation_and_by_readers(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> None:
    """Otherwise its position could be lower than that of a commit that readers of the log have passed."""
    thread, other = await thread_of(store), await thread_of(store)
    position = await log.head()
    with psycopg.connect(migrated_database_url) as writer:
        writer.execute(f"{_INSERT} (%(id)s, 2, 'a.v1', '{{}}')".encode(), {"id": thread})
        await store.append(await store.load(other), [asked("b"), started("b")])
        assert await log.read(position, 3) == []
        late = [("late.v1", b"{}")]
        appending = asyncio.create_task(store.append_stored(thread, 1, late))
        with psycopg.connect(migrated_database_url, autocommit=True) as watching:
            async with asyncio.timeout(20):
                while watching.execute(_WAITING).fetchall() == []:  # noqa: ASYNC110 - a view has no event
                    await asyncio.sleep(0.01)
        writer.commit()
    with pytest.raises(VersionConflict):
        await appending
    assert [entry.conversation_id for entry in await log.read(position, 5)] == [
        thread,
        other,
        other,
    ]


@pytest.mark.parametrize(
    ("version", "topic"),
    [(1, ERASED_TOPIC), (7, ERASED_TOPIC), (3, "message_saved.v1"), (0, "message_saved.v1")],
)
async def test_the_orchestrators_login_cannot_put_in_what_follows_nothing(
    store: ConversationStore, database: Database, orchestrator: Database, version: int, topic: str
) -> None:
    thread = await thread_of(store) if topic != ERASED_TOPIC else new_id()
    with pytest.raises(psycopg.errors.CheckViolation, match="follows none"):
        orchestrator(f"{_INSERT} (%(id)s, {version}, %(topic)s, '{{}}')", id=thread, topic=topic)


async def test_an_erasure_that_erased_nothing_here_is_reported_as_such(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    thread, imported = await thread_of(store), new_id()
    await store.append(await store.load(thread), [ERASED])
    await store.append_stored(imported, 6, stored([ERASED]))
    found = await audited(pool, log, thread, imported)
    assert [(each.conversation_id, each.proved) for each in found.erased] == [
        (thread, True),
        (imported, False),
    ]
    assert found.broken == []


async def test_an_erasure_that_is_a_conversations_first_event_was_made_up(
    log: Log, pool: Pool, database: Database
) -> None:
    thread = new_id()
    state = stored([ERASED])[0][1].decode()
    database.tamper(thread, f"{_PUT_IN} ('THREAD', 1, '{ERASED_TOPIC}', '{state}', {_NEXT}, NULL)")
    (broken,) = (await audited(pool, log, thread)).broken
    assert broken.reason == "the erasure erased nothing"


async def test_a_chain_that_was_written_again_is_found_by_the_head_of_its_day(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store, "a")
    head, leaves = await head_of(pool, log, datetime.now(UTC).date())
    await thread_of(store, "later")
    assert await compare(pool, log, head, leaves) is None
    _rewrite(database, thread, version=3)
    assert (await audited(pool, log, thread)).broken == []
    difference = await compare(pool, log, head, leaves)
    assert difference is not None
    assert difference.conversations == (thread,)
    without = await compare(pool, log, head, ())
    assert without is not None
    assert without.conversations == ()


@pytest.mark.parametrize("kept", [0, 4])
async def test_events_that_were_cut_off_are_found_by_the_head_of_their_day(
    store: ConversationStore, log: Log, pool: Pool, database: Database, kept: int
) -> None:
    thread = await thread_of(store, "a")
    await thread_of(store, "b")
    head, leaves = await head_of(pool, log, datetime.now(UTC).date())
    where = f"WHERE originator_id = 'THREAD' AND originator_version > {kept}"
    database.tamper(thread, f"DELETE FROM conversation_events {where}")
    assert (await audited(pool, log, thread)).broken == []
    difference = await compare(pool, log, head, leaves)
    assert difference is not None
    assert difference.conversations == (thread,)


async def test_a_log_that_was_cut_off_is_found_by_the_head_of_its_day(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store, "a")
    head, leaves = await head_of(pool, log, datetime.now(UTC).date())
    database.tamper(thread, "DELETE FROM conversation_events WHERE originator_id = 'THREAD'")
    difference = await compare(pool, log, head, leaves)
    assert difference is not None
    assert f"came to {head.through:,}" in difference.reason


async def test_an_erased_conversation_proves_its_erasure_and_breaks_no_head(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store, "a", "b")
    links = [row[0] for row in database(_HASHES, id=thread)]
    head, leaves = await head_of(pool, log, datetime.now(UTC).date())
    await store.append(await store.load(thread), [ERASED])
    found = await audited(pool, log, thread)
    assert found.broken == []
    (erased,) = found.erased
    assert (erased.conversation_id, erased.version, erased.at) == (thread, len(links) + 1, LATER)
    assert erased.trace_id == ERASED.trace_id
    assert await compare(pool, log, head, leaves) is None
    after, _ = await head_of(pool, log, datetime.now(UTC).date())
    assert after.sha256 != head.sha256
    # The last link and seals are left: neither salt nor link after which a content could be tried.
    ((tombstone,),) = database(_HASHES, id=thread)
    assert tombstone[:LINK_BYTES] == links[-1]
    ((seals,),) = database("SELECT seals FROM erased_links WHERE conversation_id = %(id)s", id=thread)
    assert seals == [seal_of(each[-LINK_BYTES:]) for each in links]


@pytest.mark.parametrize(
    ("tampering", "reason"),
    [
        (f"{_PUT_IN} ('THREAD', 1, 'a.v1', '{{}}', {_NEXT}, NULL)", "its hash is missing"),
        ("UPDATE erased_links SET seals[cardinality(seals)] = '\\x00'", "does not follow what was erased"),
        (
            "UPDATE conversation_events SET state = replace(state::text, '1', '2')::bytea",
            "not what was stored",
        ),
    ],
)
async def test_an_erasure_that_was_changed_is_found(
    store: ConversationStore, log: Log, pool: Pool, database: Database, tampering: str, reason: str
) -> None:
    thread = await thread_of(store)
    await store.append(await store.load(thread), [ERASED])
    column = "conversation_id" if "erased_links" in tampering else "originator_id"
    where = f" WHERE {column} = 'THREAD'" if tampering.startswith("UPDATE") else ""
    database.tamper(thread, tampering + where)
    assert reason in (await audited(pool, log, thread)).broken[-1].reason


async def test_an_event_that_is_put_before_an_erasure_is_found(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    thread = await thread_of(store)
    await store.append(await store.load(thread), [ERASED])
    ((position,),) = database(
        "SELECT positions[1] FROM erased_links WHERE conversation_id = %(id)s", id=thread
    )
    _put_in(database, thread, 1, position, previous=bytes(LINK_BYTES), salted=True)
    (broken,) = (await audited(pool, log, thread)).broken
    assert (broken.version, broken.reason) == (2, "an event before the erasure is there")


@pytest.mark.parametrize(
    ("erased", "version", "position", "reason"),
    [
        (False, 8, -78, "its position is before that of the event before it"),
        (False, -5, -79, "no event has such a place"),
        (False, 8, 2**40, "no position that high was drawn yet"),
        (True, 9, -80, "it stands after the erasure"),
    ],
)
async def test_an_event_that_is_put_in_with_a_link_of_its_own_is_found_by_its_place(
    store: ConversationStore,
    log: Log,
    pool: Pool,
    database: Database,
    erased: bool,
    version: int,
    position: int,
    reason: str,
) -> None:
    """What reads by versions would read it, what reads the log not."""
    thread = await thread_of(store, "a")
    if erased:
        await store.append(await store.load(thread), [ERASED])
    rows = database(_HASHES, id=thread)
    _put_in(database, thread, version, position, previous=rows[-1][0][-LINK_BYTES:], salted=version < 1)
    for scope in (Scope(last=await log.head()), Scope(last=await log.head(), conversations=(thread,))):
        found = await audit(pool, log, scope)
        reasons = {each.version: each.reason for each in found.broken if each.conversation_id == thread}
        assert reasons.get(version) == reason
    database("DELETE FROM conversation_events WHERE originator_id = %(id)s", id=thread)


async def test_days_begin_where_the_feed_had_come_to(pool: Pool, database: Database) -> None:
    database("INSERT INTO feed_days (day, position) VALUES ('2026-01-05', 10), ('2026-01-07', 20)")
    places = [await fed_before(pool, date(2026, 1, day), until=99) for day in (4, 5, 6, 7)]
    assert places == [(10, 10), (10, 20), (20, 20), (20, 99)]


async def test_appends_of_many_writers_side_by_side_make_whole_chains(
    migrated_database_url: str, store: ConversationStore, log: Log, pool: Pool
) -> None:
    threads = [await thread_of(store) for _ in range(5)]

    async def write(one: ConversationStore, thread: str, word: str) -> None:
        while True:
            try:
                await one.append(await one.load(thread), [asked(word), started(word)])
            except VersionConflict:
                continue
            return

    async with open_store(migrated_database_url) as second, open_store(migrated_database_url) as third:
        await asyncio.gather(
            *(
                write(one, thread, f"{thread[-4:]}{number}")
                for thread in threads
                for number, one in enumerate((store, second, third) * 3)
            )
        )
    found = await audited(pool, log, *threads)
    assert (found.events, found.broken) == (5 * (1 + 9 * 2), [])


async def test_a_part_of_the_log_is_audited_in_pages_of_any_size(
    store: ConversationStore, log: Log, pool: Pool, database: Database
) -> None:
    before = await log.head()
    thread = await thread_of(store, "a", "b")
    head = await log.head()
    seen: list[int] = []
    scope = Scope(first=before + 3, last=head - 1)
    found = await audit(pool, log, scope, on_position=seen.append, batch=2)
    assert found.broken == []
    assert seen[-1] == head - 1
    assert found.events == len(await log.rows(thread)) - 3
    database.tamper(thread, f"UPDATE conversation_events SET topic = 'a' WHERE notification_id = {head - 1}")
    found = await audit(pool, log, scope, batch=3)
    assert [(each.conversation_id, each.position) for each in found.broken] == [(thread, head - 1)]


def _put_in(
    database: Database, thread: str, version: int, position: int, *, previous: bytes, salted: bool
) -> None:
    """An event with the link that it would have."""
    link = link_of(previous, thread, version, position, "a.v1", b"{}")
    kept = previous.hex() if salted else ""
    database.tamper(
        thread, f"{_PUT_IN} ('THREAD', {version}, 'a.v1', '{{}}', {position}, '\\x{kept}{link.hex()}')"
    )


def _rewrite(database: Database, thread: str, *, version: int) -> None:
    """Change an event, and every link after it."""
    where = "originator_id = 'THREAD' AND originator_version"
    change = "state = replace(encode(state, 'escape'), 'Hello', 'Hullo')::bytea || ' '"
    database.tamper(thread, f"UPDATE conversation_events SET {change} WHERE {where} = {version}")
    rows = database(
        "SELECT hash, originator_id, originator_version, notification_id, topic, state"
        " FROM conversation_events WHERE originator_id = %(id)s ORDER BY originator_version",
        id=thread,
    )
    link = rows[0][0][-LINK_BYTES:]
    for row in rows[1:]:
        link = link_of(link, *row[1:])
        database.tamper(
            thread, f"UPDATE conversation_events SET hash = '\\x{link.hex()}' WHERE {where} = {row[2]}"
        )


_HASHES = "SELECT hash FROM conversation_events WHERE originator_id = %(id)s ORDER BY originator_version"
_WAITING = (
    "SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
)
