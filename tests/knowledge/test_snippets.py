import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.passages import MOST_SNIPPET, snippet

pytestmark = pytest.mark.requirement("RETRIEVAL")

FILLER = "Nothing of interest is said in this sentence. " * 12


def test_a_short_passage_is_its_own_snippet_on_one_line() -> None:
    assert snippet("You have\n30 days.\n\nNo more.", frozenset({"days"})) == "You have 30 days. No more."


def test_the_snippet_is_the_part_around_the_match() -> None:
    shown = snippet(f"{FILLER}Returns are free within 30 days. {FILLER}", frozenset({"returns", "days"}))
    assert shown.startswith("…Returns are free within 30 days.")
    assert shown.endswith("…")


def test_the_part_with_the_most_different_words_is_shown() -> None:
    text = f"card card card. {FILLER}Pay by card or PayPal. {FILLER}"
    assert "Pay by card or PayPal." in snippet(text, frozenset({"card", "paypal", "pay"}))


def test_without_a_match_it_is_the_beginning() -> None:
    assert snippet("Begin. " + FILLER * 2, frozenset()).startswith("Begin. Nothing")


@given(st.text(max_size=1500), st.sets(st.text(min_size=1, max_size=5), max_size=3))
def test_a_snippet_is_bounded_and_on_one_line(text: str, matched: set[str]) -> None:
    shown = snippet(text, frozenset(matched))
    assert len(shown) <= MOST_SNIPPET
    assert "\n" not in shown
    assert bool(shown) == bool(text.strip())
