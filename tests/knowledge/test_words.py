"""Text matched: words, snippets around them, the order of what is found, vectors of words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.knowledge.search.passage_search import fuse_rankings
from agentchat.knowledge.search.passages import MOST_SNIPPET, build_snippet
from agentchat.knowledge.search.search_words import SearchQuery, make_searchable, parse_question


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("He said \u201creturns\u201d \u2014 isn\u2019t it?", "he said returns isn t it"),
        ("10\u00a0kg, PRD-101 and foo_bar.txt", "10 kg prd 101 and foo bar txt"),
        ("ÉTÉ Änderung \ufb01ne \uff26ull", "été änderung fine full"),
        ("हिन्दी में", "हिन्दी में"),
        ("日本語のテスト", "日本 本語 語の のテ テス スト"),
        ("字 and ไทย", "字 and ไท ทย"),
        ("환불은 가능", "환불 불은 가능"),
        ("집은", "집은 집"),
        ("\u1112\u116a\u11ab\u1107\u116e\u11af\u110b\u1173\u11ab", "환불 불은"),
        ("İSTANBUL İade ISPARTA ığdır", "istanbul iade isparta iğdir"),  # noqa: RUF001
        ("Straße STRASSE straße", "strasse strasse strasse"),
        ("re\u00adfund re\u200bfund re\u2060fund \ufeffrefund\ufe0f", "refund refund refund refund"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u062e"),
        ("#42 '#42' \\ %s \0", "42 42 s"),
        ("", ""),
    ],
)
def test_text_is_split_into_words(text: str, words: str) -> None:
    assert make_searchable(text) == words


@given(st.text(max_size=300))
def test_words_hold_nothing_that_postgres_reads_as_more_than_a_word(text: str) -> None:
    words = make_searchable(text)
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
    assert parse_question(text).phrases == phrases


def test_dashes_and_or_are_no_operators() -> None:
    assert parse_question("what does -verbose do or not") == SearchQuery("what does verbose do or not")


def test_of_a_long_message_beginning_and_end_are_asked() -> None:
    asked = parse_question("first words " + "filler " * 40_000 + "last words").words.split()
    assert asked[:2] == ["first", "words"]
    assert asked[-2:] == ["last", "words"]
    assert len(asked) == 64


def test_a_short_passage_is_its_own_snippet_on_one_line() -> None:
    assert build_snippet("You have\n30 days.\n\nNo more.", "30 days") == "You have 30 days. No more."


@given(st.text(max_size=1500), st.text(max_size=600))
def test_a_snippet_is_bounded_and_on_one_line(text: str, fragment: str) -> None:
    shown = build_snippet(text, fragment)
    assert len(shown) <= MOST_SNIPPET
    assert "\n" not in shown
    assert bool(shown) == bool(text.strip())


RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=3)


def test_first_in_both_is_one_and_first_in_one_alone_is_a_half() -> None:
    assert fuse_rankings([["a", "b"], ["a", "c"]])[0] == ("a", 1.0)
    assert fuse_rankings([["a"], ["b"]]) == [("a", 0.5), ("b", 0.5)]


def test_what_both_find_comes_before_what_one_finds_better() -> None:
    assert [found for found, _ in fuse_rankings([["a", "x"], ["b", "x"]])] == ["x", "a", "b"]


def test_nothing_found_is_nothing() -> None:
    assert fuse_rankings([[], []]) == []


@given(RANKINGS)
def test_scores_fall_from_one_towards_zero(rankings: list[list[str]]) -> None:
    fused = fuse_rankings(rankings)
    scores = [score for _, score in fused]
    assert {found for found, _ in fused} == {found for ranking in rankings for found in ranking}
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1.0000001 for score in scores)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_one_ranking_alone_stays_as_it_is(ranking: list[str]) -> None:
    assert [found for found, _ in fuse_rankings([ranking])] == ranking
