"""Stories and places in them, whatever the pieces and the order in which a gateway came to tell them."""

import random

import pytest

from contracts.marks import Mark, parse_cursor
from contracts.updates import Broken, Finished, Sources, Started, Text, ToolStarted, Update
from contracts.values import Message
from gateway.runs import SHUTDOWN
from gateway.story import EXPIRED, Bookmark, Entry, Story

pytestmark = pytest.mark.requirement("JOIN")

TRACE = "0af7651916cd43dd8448eb211c80319c"
TEXT = "Déjà vu 👀: the order has shipped, and will be there on Monday."
CALLS = [ToolStarted(f"c{n}", "look", {"n": n}) for n in range(3)]
DONE = Finished(Message(id="m", conversation_id="c", content=TEXT, token_count=1, created_at=""), ())


def rendition(seed: int) -> list[Update]:
    """The run as some gateway tells it: the text in any pieces, the calls in order but anywhere."""
    chance = random.Random(seed)
    ends = [*sorted(chance.sample(range(1, len(TEXT)), chance.randrange(12))), len(TEXT)]
    middle: list[Update] = [Text(TEXT[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    for place, call in zip(
        sorted(chance.choices(range(len(middle) + 1), k=3), reverse=True), CALLS[::-1], strict=True
    ):
        middle.insert(place, call)
    return [Started(), Sources(()), *middle, DONE]


def told(updates: list[Update]) -> Story:
    story = Story()
    story.add(updates)
    return story


def cursor_of(entry: Entry) -> str:
    assert entry.mark is not None
    return entry.mark.cursor(TRACE)


def test_a_cursor_is_the_mark_that_it_names_and_of_its_trace_alone() -> None:
    for entry in told(rendition(1)).entries:
        cursor = cursor_of(entry)
        assert parse_cursor(cursor, TRACE) == entry.mark
        for wrong in (
            cursor + "0",
            cursor + "\n",
            " " + cursor,
            cursor.upper() + "X",
            cursor.replace(":", ""),
        ):
            assert parse_cursor(wrong, TRACE) is None
        assert parse_cursor(cursor, TRACE[::-1]) is None


@pytest.mark.parametrize("seed", range(60))
def test_a_reader_who_comes_back_anywhere_hears_each_thing_once(seed: int) -> None:
    chance = random.Random(seed)
    heard: list[Update] = []
    mark: Mark | None = None
    for visit in range(6):
        bookmark = Bookmark(told(rendition(seed * 100 + visit)), mark)
        assert not bookmark.is_lost()
        taken = bookmark.take()
        for entry in taken[: None if visit == 5 else chance.randrange(len(taken) + 1)]:
            heard.append(entry.update)
            mark = parse_cursor(cursor_of(entry), TRACE)
    assert "".join(update.text for update in heard if isinstance(update, Text)) == TEXT
    assert [update for update in heard if isinstance(update, ToolStarted)] == CALLS
    assert (heard[0], heard[1], heard[-1]) == (Started(), Sources(()), DONE)
    assert sum(isinstance(update, Started | Sources | Finished) for update in heard) == 3


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_gets_the_same_of_a_story_that_grows(seed: int) -> None:
    chance, updates = random.Random(seed), rendition(seed)
    mark = chance.choice(told(updates).entries).mark
    story = Story()
    bookmark, taken = Bookmark(story, mark), []
    for update in updates:
        story.add([update])
        if chance.random() < 0.7:
            taken += bookmark.take()
    taken += bookmark.take()
    assert bookmark.ended
    whole = Bookmark(told(updates), mark).take()
    assert [(each.update, each.mark) for each in taken] == [(each.update, each.mark) for each in whole]


def test_what_a_gateway_says_of_itself_is_no_place() -> None:
    story = told([Started(), Text("He"), SHUTDOWN])
    assert (story.is_local, story.entries[-1].mark) == (True, None)
    ahead = Mark(stage=1, calls=0, length=9, digest="0" * 8)
    assert [entry.update for entry in Bookmark(story, ahead).take()] == [SHUTDOWN]
    failed = told([Started(), Text("He"), Broken("provider_error", "no")])
    assert not failed.is_local
    assert Bookmark(failed, ahead).is_lost()


def test_nothing_of_another_text_is_told_to_who_comes_back() -> None:
    mark = told([Started(), Text("Hello")]).entries[-1].mark
    story = Story()
    bookmark = Bookmark(story, mark)
    for update in (Started(), CALLS[0], Text("Ha")):
        story.add([update])
        assert bookmark.take() == []
    story.add([Text("llo!")])
    assert [entry.update for entry in bookmark.take()] == [EXPIRED]
    assert bookmark.ended


def test_sources_are_not_told_behind_text() -> None:
    mark = told([Started(), Text("He")]).entries[-1].mark  # by a gateway that had missed them
    story = told([Started(), Sources(()), Text("Hello")])
    assert [entry.update for entry in Bookmark(story, mark).take()] == [Text("llo")]
