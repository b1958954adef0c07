"""A search looks through a bounded number of conversations and texts, and says if there may be more."""

import pytest

from agentchat.conversations.queries import text_matches
from agentchat.conversations.queries.conversation_search import ConversationSearch, find_conversations
from agentchat.conversations.queries.sorted_list import RowCount
from tests.conversations.read_models import Storage
from tests.conversations.test_search import find, store_turn


@pytest.mark.usefixtures("empty_database")
@pytest.mark.parametrize(
    ("bounds", "found", "is_exact"),
    [
        ({}, 3, True),
        ({"NEWEST": 1}, 3, True),
        ({"NEWEST": 1, "COMMON": 1}, 1, False),
        ({"NEWEST": 1, "MOST_TEXTS": 2}, 2, False),
        ({"NEWEST": 1, "MOST_LOOKED_UP": 2}, 2, False),
        ({"NEWEST": 1, "FREQUENT": 1, "MORE": 1}, 2, False),
        ({"NEWEST": 1, "FREQUENT": 1, "MORE": 3}, 3, True),
    ],
    ids=["all", "the index", "a common word", "many texts", "many", "the newest", "the newest are all"],
)
async def test_totals_say_if_they_are_bounds(
    storage: Storage, bounds: dict[str, int], found: int, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bounds.items():
        monkeypatch.setattr(text_matches, name, value)
    made = sorted([await store_turn(storage, word, f"refund {word}") for word in ("a", "b", "c")])
    page = await find_conversations(storage.pool, ConversationSearch(text="refund"), limit=1)
    assert (page.total, len(page.rows)) == (RowCount(found, is_exact), 1)
    newer = await find_conversations(storage.pool, ConversationSearch(text="refund"), after=made[0], limit=9)
    assert made[2] in [each.id for each in newer.rows]
    assert made[0] not in [each.id for each in newer.rows]


@pytest.mark.usefixtures("empty_database")
async def test_a_phrase_of_common_words_is_found_among_the_newest(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NEWEST": 1, "FREQUENT": 1, "MORE": 2}.items():
        monkeypatch.setattr(text_matches, name, value)
    texts = ("where is it", "where is he", "it is where", "it is where")
    ids = [await store_turn(storage, word, text) for word, text in zip("abcd", texts, strict=True)]
    page = await find_conversations(storage.pool, ConversationSearch(text='"where is"'), limit=1)
    assert ([each.id for each in page.rows], page.total) == ([ids[1]], RowCount(1, is_exact=False))


@pytest.mark.usefixtures("empty_database")
@pytest.mark.parametrize(
    ("too_frequent", "total"), [(2, RowCount(1)), (1, RowCount(0, is_exact=False))], ids=["index", "newest"]
)
async def test_a_phrase_that_no_new_one_has_is_looked_up(
    storage: Storage, too_frequent: int, total: RowCount, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NEWEST": 1, "FREQUENT": 1, "MORE": 1, "TOO_FREQUENT": too_frequent}.items():
        monkeypatch.setattr(text_matches, name, value)
    for word, text in zip("abc", ("where is it", "it is where", "it is where"), strict=True):
        await store_turn(storage, word, text)
    page = await find_conversations(storage.pool, ConversationSearch(text='"where is"'), limit=1)
    assert page.total == total


@pytest.mark.usefixtures("empty_database")
async def test_all_words_count_where_the_index_is_asked_for_some(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_matches, "NEWEST", 1)
    texts = (
        "the order is broken",
        "refund order",
        "please refund it",
        "please refund order 1027, it is broken",
    )
    *_, wanted = [await store_turn(storage, word, text) for word, text in zip("abcd", texts, strict=True)]
    await store_turn(storage, "e", "Hello")
    assert await find(storage, "bro please refund order") == [wanted]
    monkeypatch.setattr(text_matches, "MOST_TEXTS", 1)
    assert await find(storage, "broken refund") == [wanted], "the text that has the longest two"
    monkeypatch.undo()
    monkeypatch.setattr(text_matches, "NEWEST", 1)
    assert await find(storage, '"it is" refund order please') == [wanted]
    assert await find(storage, '"is it" refund order please') == []
