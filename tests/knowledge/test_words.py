import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.search_words import SearchQuery, question, searchable

pytestmark = pytest.mark.requirement("RETRIEVAL")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("He said \u201creturns\u201d \u2014 isn\u2019t it?", "he said returns isn t it"),
        ("10\u00a0kg, PRD-101 and foo_bar.txt", "10 kg prd 101 and foo bar txt"),
        ("ÉTÉ Änderung \ufb01ne \uff26ull", "été änderung fine full"),
        ("हिन्दी में", "हिन्दी में"),
        ("日本語のテスト", "日本 本語 語の のテ テス スト"),
        ("字 and ไทย", "字 and ไท ทย"),
        ("#42 '#42' \\ %s \0", "42 42 s"),
        ("", ""),
    ],
)
def test_text_is_told_apart_into_words(text: str, words: str) -> None:
    assert searchable(text) == words


@given(st.text(max_size=300))
def test_words_hold_nothing_that_postgres_reads_as_more_than_a_word(text: str) -> None:
    words = searchable(text)
    assert not set(words) & set("#'\"&|!:*()<>\\-\0")
    assert all(1 <= len(word) <= 64 for word in words.split(" ") if words)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('return "leather boots" please', ("leather boots",)),
        ("“Gift Cards” and «zwei Wörter»", ("gift cards", "zwei wörter")),
        ('an open "quote', ()),
        ('"" "?!"', ()),
    ],
)
def test_quoted_words_are_a_phrase(text: str, phrases: tuple[str, ...]) -> None:
    assert question(text).phrases == phrases


def test_dashes_and_or_are_no_operators() -> None:
    assert question("what does -verbose do or not") == SearchQuery("what does verbose do or not")


def test_of_a_long_message_beginning_and_end_are_asked() -> None:
    asked = question("first words " + "filler " * 40_000 + "last words").words.split()
    assert asked[:2] == ["first", "words"]
    assert asked[-2:] == ["last", "words"]
    assert len(asked) == 64
