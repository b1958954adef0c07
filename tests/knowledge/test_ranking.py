import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search.passages import fuse

pytestmark = pytest.mark.requirement("RETRIEVAL")

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=3)


def test_first_in_both_is_one_and_first_in_one_alone_is_a_half() -> None:
    assert fuse([["a", "b"], ["a", "c"]])[0] == ("a", 1.0)
    assert fuse([["a"], ["b"]]) == [("a", 0.5), ("b", 0.5)]


def test_what_both_find_comes_before_what_one_finds_better() -> None:
    assert [found for found, _ in fuse([["a", "x"], ["b", "x"]])] == ["x", "a", "b"]


def test_nothing_found_is_nothing() -> None:
    assert fuse([[], []]) == []


@given(RANKINGS)
def test_scores_fall_from_one_towards_zero(rankings: list[list[str]]) -> None:
    fused = fuse(rankings)
    scores = [score for _, score in fused]
    assert {found for found, _ in fused} == {found for ranking in rankings for found in ranking}
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1.0000001 for score in scores)


@given(st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_one_ranking_alone_stays_as_it_is(ranking: list[str]) -> None:
    assert [found for found, _ in fuse([ranking])] == ranking
