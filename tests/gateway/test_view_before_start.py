"""The live view before the run starts: refusals and places in line, of this publication and earlier ones."""

import pytest

from contracts import frames
from contracts.updates import (
    Broken,
    Started,
)
from gateway.runs.view import View
from tests.gateway.live_frames import ACCEPTED, feed


@pytest.mark.requirement("CONV-BUSY")
def test_a_refusal_counts_only_before_the_start() -> None:
    refused = frames.Refused(seq=0, attempt=0, code="conversation_busy", message="busy")
    assert feed(View(), refused) == [Broken("conversation_busy", "busy")]
    assert feed(View(), ACCEPTED, refused) == [Started()]


@pytest.mark.requirement("IDEMPOTENCY")
def test_a_refusal_of_an_earlier_publication_does_not_count() -> None:
    earlier, later = (
        frames.Refused(seq=0, attempt=attempt, code="overloaded", message="late") for attempt in (1, 2)
    )
    view = View(publication=2)
    assert feed(view, earlier) == []
    assert view.feed_all([earlier, later]) == [Broken("overloaded", "late")]
    assert view.refused is True


@pytest.mark.requirement("CONV-BUSY-READ-BACK")
@pytest.mark.parametrize("attempt", [0, 2])
def test_a_place_in_line_that_was_not_heard_of_is_read_back(attempt: int) -> None:
    view = View(publication=2)
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt)]) == []
    assert view.waiting
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt), ACCEPTED]) == [Started()]
    assert not view.waiting


@pytest.mark.requirement("CONV-BUSY-READ-BACK", "IDEMPOTENCY")
def test_a_place_in_line_of_an_earlier_publication_does_not_count() -> None:
    earlier = frames.Queued(seq=0, attempt=1)
    view = View(publication=2)
    assert feed(view, earlier) == []
    assert view.feed_all([earlier]) == []
    assert not view.waiting
