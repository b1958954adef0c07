"""Conversations are found by words of their messages, titles and metadata, in all accounts."""

import psycopg
import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.ids import make_id, make_unlisted_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.projections.search_table import MAX_CHARACTERS, build_tsvector
from agentchat.conversations.queries import conversation_search
from agentchat.conversations.queries.conversation_search import ConversationSearch, Hit, find_conversations
from agentchat.conversations.queries.search_query import MAX_SNIPPET, parse_search
from tests.conversations.given import (
    ACCOUNT,
    AT,
    build_conversation_started,
    build_held_call,
    build_run_failed,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import Storage


async def find(storage: Storage, text: str | None = None, **more: object) -> list[str]:
    wanted = ConversationSearch(text=text, **more)  # type: ignore[arg-type] # of the caller's types
    return [each.id for each in await find_conversations(storage.pool, wanted, limit=10)]


async def begin(storage: Storage, word: str, text: str, reply: str = "Yes.") -> str:
    stored = await storage.told(*turn(word, text, reply))
    await storage.follow()
    return stored.conversation_id


@pytest.mark.usefixtures("emptied")
class TestWords:
    """One conversation is there: what finds it, and what does not."""

    TEXT = "Where is ORD-1027? I want a REFUND of 12.50 €, says Ärger; write to ada@shop.example. 退款请尽快"

    @pytest.mark.parametrize(
        ("text", "is_found"),
        [
            ("refund", True),
            ("refu", True),
            ("REFUNDS", False),
            ("efund", False),
            ("ord-1027", True),
            ("ORD-10", True),
            ("1027", True),
            ("ärger", True),
            ("ada@shop.example", True),
            ("example", True),
            ("退款", True),
            ("款退", False),
            ("12.50", True),
            ("where refund", True),
            ("where nothing", False),
            ('"where is"', True),
            ('"is where"', False),
            ('"whe is"', False),
            ('"want a refund', True),
            ("100%_nothing", False),
            ("'; DROP TABLE search --", False),
            ("\\ ' :* & | ! <->", False),
            ("%", False),
            ("yes", True),
        ],
    )
    async def test_words_and_their_beginnings_are_found(
        self, storage: Storage, text: str, is_found: bool
    ) -> None:
        there = await begin(storage, "a", self.TEXT)
        assert await find(storage, text) == ([there] if is_found else [])


@pytest.mark.usefixtures("emptied")
async def test_a_title_and_metadata_are_found_as_they_are_now(storage: Storage) -> None:
    described = events.ConversationDescribed(
        trace_id=trace("x"), at=AT, title="Lost parcel", metadata={"customer": "C-77"}
    )
    first = await storage.told(*turn("a", "Hello", "Hi"), described)
    await storage.follow()
    for text in ("parcel", "c-77"):
        assert await find(storage, text) == [first.conversation_id]
    (hit,) = await find_conversations(storage.pool, ConversationSearch(text="parcel"), limit=1)
    assert hit.hit is not None
    assert (hit.hit.message_id, hit.hit.snippet.text) == (None, "Lost parcel · C-77")
    await storage.store.append(first, [replace(described, title="Found parrot", metadata={})])
    await storage.follow()
    assert await find(storage, "parcel") == []
    assert await find(storage, "parrot") == [first.conversation_id]


@pytest.mark.usefixtures("emptied")
@pytest.mark.parametrize("newest", [1, 2_000])
async def test_rare_words_are_found_beyond_the_newest(
    storage: Storage, newest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_search, "NEWEST", newest)
    made = sorted([await begin(storage, word, f"refund {word}") for word in ("a", "b", "c")])
    assert await find(storage, "refund") == made[::-1]
    pages = []
    before = None
    for _ in range(3):
        page = await find_conversations(
            storage.pool, ConversationSearch(text="refund"), before=before, limit=1
        )
        pages += [each.id for each in page]
        before = page[-1].id
    assert pages == made[::-1]
    newer = await find_conversations(storage.pool, ConversationSearch(text="refund"), after=made[0], limit=9)
    assert [each.id for each in newer] == [made[2], made[1]]


@pytest.mark.usefixtures("emptied")
async def test_list_is_in_the_order_of_the_last_activity(storage: Storage) -> None:
    first, second, third = sorted([await begin(storage, word, "Hello") for word in ("a", "b", "c")])
    for number, conversation_id in enumerate((third, first)):
        said = replace(build_user_message(f"d{number}"), at=f"2027-01-0{number + 1}T10:00:00.000000Z")
        await storage.store.append(await storage.store.load(conversation_id), [said])
    await storage.follow()
    wanted, found, before = ConversationSearch(sort="last_activity"), [], None
    for _ in range(3):
        (row,) = await find_conversations(storage.pool, wanted, before=before, limit=1)
        found.append(row.id)
        before = row.activity
    assert found == [first, third, second]


@pytest.mark.usefixtures("emptied")
async def test_a_search_is_narrowed_down(storage: Storage) -> None:
    refund = await begin(storage, "a", "I want a refund")
    held_back = await storage.told(
        build_user_message("b", "refund too"),
        build_run_started("b"),
        *build_held_call("b"),
        build_run_failed("b"),
    )
    later = replace(build_user_message("c", "refund, please"), at="2026-11-25T10:00:00.000000Z")
    await storage.store.append(await storage.told(*turn("d", "Hello", "Hi")), [later, build_run_started("c")])
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


@pytest.mark.usefixtures("emptied")
async def test_ids_find_their_conversation(storage: Storage) -> None:
    message = make_id()
    stored = await storage.told(replace(build_user_message("a"), message_id=message), build_run_started("a"))
    await storage.follow()
    for text in (stored.conversation_id.upper(), message, trace("a")):
        assert await find(storage, f" {text} ") == [stored.conversation_id]
    assert await find(storage, make_id()) == []


@pytest.mark.usefixtures("emptied")
async def test_neither_erased_nor_unlisted_conversations_are_found(storage: Storage) -> None:
    erased = await storage.told(*turn("a", "refund", "refund"))
    await storage.follow()
    await storage.erase(erased)
    assert await find(storage, "refund") == [], "before the read model has it"
    await storage.follow()
    unlisted = Conversation(conversation_id=make_unlisted_id())
    await storage.store.append(unlisted, [build_conversation_started(), *turn("b", "refund", "refund")])
    await storage.follow()
    assert await find(storage, "refund") == []
    assert await storage.rows("SELECT * FROM search") == []


@pytest.mark.usefixtures("emptied")
async def test_a_hit_shows_the_newest_text_with_what_was_found(storage: Storage) -> None:
    await begin(storage, "a", "first: refundable?", f"{'word ' * 40}<b>Refund</b> refunded {'later ' * 60}")
    (one, *_) = await find_conversations(storage.pool, ConversationSearch(text="refund"), limit=1)
    assert isinstance(one.hit, Hit)
    assert (one.hit.role, one.hit.trace_id, one.hit.message_id) == ("assistant", trace("a"), "reply-a")
    snippet = one.hit.snippet
    assert [snippet.text[start:end] for start, end in snippet.marks] == ["Refund", "refunded"]
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
        conn.execute("SELECT %s::tsvector", [build_tsvector(text)])
