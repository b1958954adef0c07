"""Conversations are found by words of their messages, titles and metadata, in all accounts."""

from collections.abc import AsyncIterator
from dataclasses import replace as replace_field

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import sql

from agentchat.contracts import events
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.projection import LoggedFact
from agentchat.conversations.projections.search_table import MAX_CHARACTERS, PROJECTION
from agentchat.conversations.queries.conversation_search import (
    ConversationSearch,
    ConversationSearchResult,
    find_conversations,
)
from agentchat.conversations.queries.search_query import MAX_SNIPPET, parse_search
from agentchat.conversations.queries.sorted_list import BY_ACTIVITY, RowCount, SortOrder
from agentchat.conversations.queries.text_matches import Hit
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.conversations.given import (
    ACCOUNT,
    AT,
    begin,
    build_conversation_started,
    build_feedback,
    build_held_call,
    build_run_failed,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import Storage, empty_tables


async def find(storage: Storage, text: str | None = None, **more: object) -> list[str]:
    wanted = ConversationSearch(text=text, **more)  # type: ignore[arg-type] # of the caller's types
    return [each.id for each in (await find_conversations(storage.pool, wanted, limit=10)).rows]


async def find_one(storage: Storage, text: str) -> ConversationSearchResult:
    (row,) = (await find_conversations(storage.pool, ConversationSearch(text=text), limit=10)).rows
    return row


async def store_turn(storage: Storage, word: str, text: str, reply: str = "Yes.", *more: events.Event) -> str:
    stored = await storage.add(*turn(word, text, reply), *more)
    await storage.follow()
    return stored.conversation_id


ENGLISH = (
    "Where is ORD-1027? I want REFUNDS of 12.50 €, says Ärger; write to ada@shop.example. 退款请尽快",
    "I have refunded it. Our policies allow that.",
)
GERMAN = ("Wo sind meine Rechnungen? Ich hätte gern ein Refund.", "Die Rechnung wurde gestern verschickt.")


@pytest.fixture(scope="class")
async def corpus(
    store: ConversationStore, log: Log, migrated_database_url: str
) -> AsyncIterator[tuple[Storage, dict[str, str]]]:
    """A conversation in English (e) and one in German (g), which is the language of the database."""
    await empty_tables(migrated_database_url)
    described = events.ConversationDescribed(
        trace_id=trace("x"), at=AT, title="Lost parcel", metadata={"customer": "C-77"}
    )
    rated = build_feedback(-1, "ada", word="a", label="too_slow", comment="Took weeks to be answered")
    with psycopg.connect(migrated_database_url, autocommit=True) as owner:
        change = sql.SQL("ALTER DATABASE {} {}")
        name, german = (
            sql.Identifier(owner.info.dbname),
            "SET default_text_search_config = 'pg_catalog.german'",
        )
        owner.execute(change.format(name, sql.SQL(german)))
        async with open_pool(migrated_database_url, max_size=3) as pool:
            storage = Storage(store, log, pool, migrated_database_url)
            english = await store_turn(storage, "a", *ENGLISH, described, rated)
            yield storage, {english: "e", await store_turn(storage, "b", *GERMAN): "g"}
        owner.execute(change.format(name, sql.SQL("RESET default_text_search_config")))


class TestWords:
    """What is found in a corpus of two languages."""

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("refund", "eg"),
            ("refu", "eg"),
            ("REFUNDING", "eg"),
            ("efund", ""),
            ("policy", "e"),
            ("Rechnung", "g"),
            ("rechnungen verschicken", ""),
            ("verschickten rechnung", "g"),
            ('"rechnung"', "g"),
            ('"refunding"', ""),
            ('"refunds"', "e"),
            ("ord-1027", "e"),
            ("ORD-10", "e"),
            ("1027", "e"),
            ("ärger", "e"),
            ("ada@shop.example", "e"),
            ("退款", "e"),
            ("款退", ""),
            ("12.50", "e"),
            ("where refund", "e"),
            ("where nothing", ""),
            ('"where is"', "e"),
            ('"is where"', ""),
            ('"whe is"', ""),
            ('"want refunds', "e"),
            ("the", ""),
            ("it", "e"),
            ("refund -rechnung", "e"),
            ("refund -policy", "g"),
            ("refund -pol", "eg"),
            ('refund -"our policies"', "g"),
            ("refund from:user", "eg"),
            ("refund from:assistant", "e"),
            ("refund from:assistant from:title", "e"),
            ("refund from:title", ""),
            ("parcel from:title", "e"),
            ("c-77", "e"),
            ("answer weeks", "e"),
            ("too_slow from:feedback", "e"),
            ("weeks from:user", ""),
            ("refund metadata:customer=C-77", "e"),
            ("metadata:customer=C-78", ""),
            ('metadata:"customer=C-77"', "e"),
            ("refund user:ada", ""),
            ("100%_nothing", ""),
            ("'; DROP TABLE search --", ""),
            ("\\ ' :* & refund | ! <->", "eg"),
            ("says: refund", "e"),
            ('"says:ärger"', "e"),
            ("https://nowhere.example 12:30 std::nothing", ""),
        ],
    )
    async def test_queries_find(self, corpus: tuple[Storage, dict[str, str]], text: str, found: str) -> None:
        storage, names = corpus
        page = await find_conversations(storage.pool, ConversationSearch(text=text), limit=10)
        assert "".join(sorted(names[each.id] for each in page.rows)) == found
        assert page.total in (RowCount(len(found)), None)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("%", "no word"),
            ('"', "no word"),
            ("-refund", "no word"),
            ("from:user", "no word"),
            ("from:nobody refund", "from:nobody"),
            ("metadata:customer refund", "KEY=VALUE"),
            ("label:too_slow", "has label:, which is not one of from:, user: and metadata:"),
            ("refund -from:user", "has -from:"),
            ('refund Title:"lost parcel"', "has Title:.*put them in quotes"),
            ("\0", "no word"),
            ("refund " * 1_400, "more than 20"),
        ],
        ids=str,
    )
    async def test_wrong_queries_are_refused(
        self, corpus: tuple[Storage, dict[str, str]], text: str, problem: str
    ) -> None:
        storage, _ = corpus
        with pytest.raises(ValueError, match=problem):
            await find(storage, text)

    async def test_readers_with_another_language_find_words(
        self, corpus: tuple[Storage, dict[str, str]]
    ) -> None:
        storage, names = corpus
        async with open_pool(storage.url, max_size=1) as pool:
            async with acquire_connection(pool) as conn:
                await conn.execute("SET default_text_search_config TO 'pg_catalog.simple'")
            other = replace_field(storage, pool=pool)
            assert [names[each] for each in await find(other, "rechnungen")] == ["g"]
            assert [names[each] for each in await find(other, "policy")] == ["e"]


@pytest.mark.usefixtures("empty_database")
async def test_better_matches_come_first_and_all_are_counted(storage: Storage) -> None:
    texts = ("a refund of that", "refund refund", "refunds", "none", "refund")
    ids = [await store_turn(storage, word, text) for word, text in zip("abcde", texts, strict=True)]
    wanted = ConversationSearch(text="refund", sort=SortOrder("rank"))
    found: list[str] = []
    before = None
    for _ in range(3):
        page = await find_conversations(storage.pool, wanted, before=before, limit=2)
        found += [each.id for each in page.rows]
        before = page.places[-1] if page.places else before
        assert page.total == RowCount(4)
    assert [ids.index(each) for each in found] == [1, 4, 2, 0]
    (counted,) = await storage.rows(
        "SELECT count(DISTINCT conversation_id) FROM search WHERE words @@ to_tsquery('english', 'refund')"
    )
    assert counted == (4,)
    by_activity = replace(wanted, sort=BY_ACTIVITY)
    assert await find(storage, **{name: getattr(by_activity, name) for name in ("text", "sort")}) == sorted(
        [each for each in ids if each != ids[3]], reverse=True
    )
    with pytest.raises(ValueError, match="not a place"):
        await find_conversations(storage.pool, wanted, before="x", limit=1)


@pytest.mark.usefixtures("empty_database")
async def test_a_title_and_metadata_are_found_as_they_are_now(storage: Storage) -> None:
    described = events.ConversationDescribed(
        trace_id=trace("x"), at=AT, title="Lost parcel", metadata={"customer": "C-77"}
    )
    first = await storage.add(*turn("a", "Hello", "Hi"), described)
    await storage.follow()
    for text in ("parcel", "c-77"):
        assert await find(storage, text) == [first.conversation_id]
    hit = (await find_one(storage, "parcel")).hit
    assert hit is not None
    assert (hit.message_id, hit.origin, hit.snippet.text) == (None, "title", "Lost parcel · C-77")
    await storage.store.append(first, [replace(described, title="Found parrot", metadata={})])
    await storage.follow()
    assert await find(storage, "parcel") == []
    assert await find(storage, "parrot") == [first.conversation_id]


@pytest.mark.usefixtures("empty_database")
async def test_feedback_is_found_as_it_is_now(storage: Storage) -> None:
    rated = build_feedback(-1, "ada", label="late", comment="Terribly slow")
    thread = await storage.add(*turn("a", "Hello", "Hi"), rated)
    await storage.follow()
    hit = (await find_one(storage, "slow")).hit
    assert hit is not None
    assert (hit.message_id, hit.trace_id, hit.role, hit.origin) == ("reply-a", trace("a"), None, "feedback")
    assert hit.snippet.text == "late · Terribly slow"
    thread = await storage.store.append(thread, [replace(rated, label=None, comment="Quick")])
    await storage.follow()
    assert (await find(storage, "slow"), await find(storage, "quick")) == ([], [thread.conversation_id])
    withdrawal = events.FeedbackWithdrawn(
        trace_id=rated.trace_id, message_id=rated.message_id, by=rated.by, at=AT, on_behalf_of="ada"
    )
    await storage.store.append(thread, [withdrawal])
    await storage.follow()
    assert await find(storage, "quick") == []


@pytest.mark.usefixtures("empty_database")
async def test_list_is_in_the_order_of_the_last_activity(storage: Storage) -> None:
    first, second, third = sorted([await store_turn(storage, word, "Hello") for word in ("a", "b", "c")])
    for number, conversation_id in enumerate((third, first)):
        said = replace(build_user_message(f"d{number}"), at=f"2027-01-0{number + 1}T10:00:00.000000Z")
        await storage.store.append(await storage.store.load(conversation_id), [said])
    await storage.follow()
    wanted, found, before = ConversationSearch(sort=BY_ACTIVITY), [], None
    for _ in range(3):
        page = await find_conversations(storage.pool, wanted, before=before, limit=1)
        found.append(page.rows[0].id)
        before = page.places[0]
    assert found == [first, third, second]


@pytest.mark.usefixtures("empty_database")
async def test_a_search_is_narrowed_down(storage: Storage) -> None:
    refund = await store_turn(storage, "a", "I want a refund")
    held_back = await storage.add(*begin("b", "refund too"), *build_held_call("b"), build_run_failed("b"))
    later = replace(build_user_message("c", "refund, please"), at="2026-11-25T10:00:00.000000Z")
    await storage.store.append(await storage.add(*turn("d", "Hello", "Hi")), [later, build_run_started("c")])
    await storage.follow()
    both = [held_back.conversation_id, refund]
    assert await find(storage, "refund", until="2026-11-22") == both
    assert len(await find(storage, "refund", since="2026-11-25")) == 1
    assert await find(storage, "hello", since="2026-11-25") == [], "what was said came before"
    assert len(await find(storage, since="2026-11-23", until="2026-11-24")) == 1, "it went on meanwhile"
    assert await find(storage, "refund", end="failed") == [held_back.conversation_id]
    assert await find(storage, "refund", tool="get_order") == [held_back.conversation_id]
    assert await find(storage, "refund", account_id="another") == []
    assert len(await find(storage, "refund", account_id=ACCOUNT, agent_id="agent-1")) == 3


@pytest.mark.usefixtures("empty_database")
async def test_ids_find_their_conversation(storage: Storage) -> None:
    message = make_id()
    stored = await storage.add(replace(build_user_message("a"), message_id=message), build_run_started("a"))
    await storage.follow()
    for text in (stored.conversation_id.upper(), message, trace("a")):
        assert await find(storage, f" {text} ") == [stored.conversation_id]
    assert await find(storage, make_id()) == []


@pytest.mark.usefixtures("empty_database")
async def test_neither_erased_nor_unlisted_conversations_are_found(storage: Storage) -> None:
    erased = await storage.add(*turn("a", "refund", "refund"))
    await storage.follow()
    await storage.erase(erased)
    assert await find(storage, "refund") == [], "before the read model has it"
    await storage.follow()
    unlisted = Conversation(conversation_id=make_unlisted_id())
    await storage.store.append(unlisted, [build_conversation_started(), *turn("b", "refund", "refund")])
    await storage.follow()
    assert await find(storage, "refund") == []
    assert await storage.rows("SELECT * FROM search") == []


@pytest.mark.usefixtures("empty_database")
async def test_a_hit_shows_the_best_text_with_what_was_found(storage: Storage) -> None:
    answer = f"{'word ' * 40}<b>Refund</b> refunding refund {'later ' * 60}"
    await store_turn(storage, "a", f"first: refundable? {'no ' * 99}", answer)
    hit = (await find_one(storage, "refunds")).hit
    assert isinstance(hit, Hit)
    assert (hit.role, hit.trace_id, hit.message_id, hit.origin) == (
        "assistant",
        trace("a"),
        "reply-a",
        "assistant",
    )
    snippet = hit.snippet
    assert [snippet.text[start:end] for start, end in snippet.marks] == ["Refund", "refunding", "refund"]
    assert snippet.text.startswith("…word ")
    assert snippet.text.endswith("…")
    assert len(snippet.text) <= MAX_SNIPPET + 2


@pytest.mark.parametrize(
    ("typed", "text", "marked"),
    [
        ("ord-10", "See ORD-1027.", ["ORD-1027"]),
        ('"where is"', "Where  is it, nowhere is.", ["Where  is"]),
        ("a.b (c", "a.b c a.bc", ["a.b", "c", "a.bc"]),
        ("nothing", "else", []),
    ],
)
def test_marks_are_what_was_looked_for(typed: str, text: str, marked: list[str]) -> None:
    snippet = parse_search(typed).build_snippet(text)
    assert [snippet.text[start:end] for start, end in snippet.marks] == marked


@pytest.mark.parametrize(
    "text",
    [
        "a" * (2 * MAX_CHARACTERS),
        " ".join(f"w{number}" for number in range(MAX_CHARACTERS)),
        "".join(chr(0x4E00 + number % 20_000) for number in range(MAX_CHARACTERS)),
        "x " * MAX_CHARACTERS,
        "'\\:*&|!<>()\u202e\u0000\ud7ff" * 1000,
        "",
    ],
    ids=["one word", "many words", "no spaces", "one word often", "signs", "empty"],
)
def test_any_text_has_words_that_postgres_takes(text: str, migrated_database_url: str) -> None:
    with psycopg.connect(migrated_database_url) as conn:
        event = replace(build_user_message("a"), content=text.replace("\0", ""))
        fact = LoggedFact(1, "c", ACCOUNT, event, 1)
        for statement, parameters in PROJECTION.build_statements([fact]):
            conn.execute(statement.encode(), parameters)
        conn.rollback()
