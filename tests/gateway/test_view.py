"""The live view: given frames and the log, then updates. No I/O."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import frames
from contracts.updates import (
    CANCELLED,
    INTERRUPTED,
    Broken,
    Finished,
    NextRound,
    Sources,
    Started,
    Text,
    ToolReturned,
    ToolStarted,
    Update,
    Waiting,
)
from contracts.values import Message, Source, ToolCall
from conversations.conversation import Call, Round, Run
from gateway.view import View

ACCEPTED = frames.Accepted(seq=1, attempt=1, conversation_id="c")
SOURCE = Source(index=1, id="s", title="t", url="u", source_type="document", score=0.5, snippet="x")


def delta(seq: int, text: str, attempt: int = 1, *, offset: int | None = None) -> frames.Delta:
    return frames.Delta(seq=seq, attempt=attempt, round=1, text=text, offset=offset)


def alive(seq: int, attempt: int = 1) -> frames.Alive:
    return frames.Alive(seq=seq, attempt=attempt)


def message(content: str) -> Message:
    return Message(id="m", conversation_id="c", content=content, token_count=3, created_at="t")


def completed(seq: int, content: str, *, attempt: int = 1, tool_calls: int = 0) -> frames.Completed:
    return frames.Completed(seq=seq, attempt=attempt, message=message(content), tool_calls=tool_calls)


def resumed(attempt: int, text: str, *, offset: int | None = None) -> frames.Resumed:
    return frames.Resumed(
        seq=1,
        attempt=attempt,
        conversation_id="c",
        offset=len(text) if offset is None else offset,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )


def called(seq: int, call_id: str = "call") -> frames.ToolCalled:
    return frames.ToolCalled(seq=seq, attempt=1, call_id=call_id, name="find", input={"q": 1})


def returned(seq: int, call_id: str = "call") -> frames.ToolReturned:
    return frames.ToolReturned(seq=seq, attempt=1, call_id=call_id, is_error=False)


def run(**changes: object) -> Run:
    fields = {
        "trace_id": "t",
        "agent_id": "a",
        "user_message_id": "u",
        "user_text": "hi",
        "requested_at": "t",
        "attempt": 1,
    }
    return Run(**{**fields, **changes})  # type: ignore[arg-type]


def feed(view: View, *given: frames.Frame) -> list[Update]:
    return [update for frame in given for update in view.feed(frame)]


def text_of(updates: list[Update]) -> str:
    return "".join(update.text for update in updates if isinstance(update, Text))


@pytest.mark.requirement("STREAM-CONCAT", "CHAT-STREAM-FORM1")
def test_an_untroubled_run_is_told_as_it_happens() -> None:
    found = frames.SourcesFound(seq=2, attempt=1, sources=(SOURCE,))
    view = View()
    told = feed(
        view,
        frames.Queued(seq=0, attempt=0),
        ACCEPTED,
        found,
        delta(3, "He"),
        called(4),
        returned(5),
        alive(6),
        delta(7, "llo"),
        completed(8, "Hello", tool_calls=1),
    )
    assert view.wants_log, "it has the tools' outputs"
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (Round(number=1, text="He", calls=(call,)), Round(number=2, text="llo"))
    told += view.feed_log(run(state="completed", reply=message("Hello"), rounds=rounds))
    assert told == [
        Waiting(),
        Started(),
        Sources((SOURCE,)),
        Text("He"),
        ToolStarted("call", "find", {"q": 1}),
        ToolReturned("call", is_error=False),
        Text("llo"),
        Finished(message("Hello"), (ToolCall(name="find", input={"q": 1}, output="{}"),)),
    ]


@pytest.mark.requirement("STREAM-CONCAT")
def test_rounds_and_results_are_told_alike_live_and_out_of_the_log() -> None:
    def piece(seq: int, number: int, text: str) -> frames.Delta:
        return frames.Delta(seq=seq, attempt=1, round=number, text=text)

    def asked(seq: int, number: int, call_id: str) -> frames.ToolCalled:
        return frames.ToolCalled(seq=seq, attempt=1, call_id=call_id, name="find", input={}, round=number)

    def call(call_id: str) -> Call:
        return Call(call_id=call_id, at="2026-11-21T09:30:00.000000Z", name="find", input={}, output="1")

    rounds = (
        Round(number=1, text="a", calls=(call("x"),)),
        Round(number=2, calls=(call("y"),)),
        Round(number=3, text="bc", cuts=(1,)),
    )
    ended = run(state="completed", reply=message("abc"), rounds=rounds)
    live = View()
    told = feed(
        live,
        *(ACCEPTED, piece(2, 1, "a"), asked(3, 1, "x"), returned(4, "x"), returned(4, "x")),
        *(asked(5, 2, "y"), returned(6, "y"), piece(7, 3, "b"), piece(8, 3, "c")),
        completed(9, "abc", tool_calls=2),
    )
    told += live.feed_log(ended)
    results = {update.call_id: update.output for update in told if isinstance(update, ToolReturned)}
    assert results == {"x": None, "y": None}, "frames hold no outputs"
    known = [replace(each, output="1") if isinstance(each, ToolReturned) else each for each in told]
    assert known == View().feed_log(ended)
    assert [update.number for update in known if isinstance(update, NextRound)] == [2, 3]


@pytest.mark.requirement("STREAM-REPAIR")
def test_a_frame_said_twice_is_told_once() -> None:
    view = View()
    told = feed(view, ACCEPTED, ACCEPTED, delta(2, "a"), delta(2, "a"), delta(3, "b"), delta(2, "a"))
    assert told == [Started(), Text("a"), Text("b")]


@pytest.mark.requirement("STREAM-REPAIR")
def test_frames_behind_a_gap_wait_until_it_is_filled() -> None:
    view = View()
    assert feed(view, ACCEPTED, delta(2, "a"), delta(4, "c"), delta(5, "d")) == [Started(), Text("a")]
    assert view.wants_repair
    assert feed(view, delta(3, "b")) == [Text("b"), Text("c"), Text("d")]


@pytest.mark.requirement("STREAM-REPAIR")
def test_a_gap_is_filled_from_traces() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "a"), delta(5, "d"))
    told += view.feed_all([ACCEPTED, delta(2, "a"), called(3), delta(4, "c"), delta(5, "d"), delta(6, "e")])
    told += feed(view, delta(6, "e"), delta(7, "f"), completed(8, "acdef"))
    assert text_of(told) == "acdef"
    assert isinstance(told[-1], Finished)
    assert not view.wants_repair
    assert [type(update) for update in told].count(ToolStarted) == 1


@pytest.mark.requirement("STREAM-REPAIR")
def test_what_not_even_traces_have_comes_with_the_saved_message() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "a"), delta(4, "c"))
    told += view.feed_all([delta(4, "c"), delta(5, "d")])
    assert view.wants_log
    told += feed(view, delta(5, "d"), delta(6, "e"))
    assert text_of(told) == "a"
    told += feed(view, completed(7, "abcde"))
    assert told[-2:] == [Text("bcde"), Finished(message("abcde"), ())]


@pytest.mark.requirement("STREAM-REPAIR")
def test_text_that_was_missed_is_taken_from_the_rounds_in_the_log() -> None:
    view = View()
    feed(view, ACCEPTED, delta(2, "a"), delta(4, "c"))
    view.feed_all([])
    assert view.feed_log(run(rounds=(Round(number=1, text="abc"),))) == [Text("bc")]


@pytest.mark.requirement("STREAM-REPAIR", "FRAMES-SMALL")
def test_frames_lost_for_good_that_held_no_text_do_not_stop_the_live_text() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "a", offset=0), delta(5, "b", offset=1))
    told += view.feed_all([])
    told += feed(view, delta(6, "c", offset=2))
    assert text_of(told) == "abc"
    assert not view.blind


@pytest.mark.requirement("STREAM-REPAIR", "FRAMES-SMALL")
def test_text_lost_for_good_comes_from_the_log_and_what_follows_comes_live() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "a", offset=0), delta(4, "c", offset=2))
    told += view.feed_all([])
    told += feed(view, delta(5, "d", offset=3))
    assert (text_of(told), view.blind) == ("a", True)
    told += view.feed_log(run(rounds=(Round(number=1, text="abc"),)))
    told += feed(view, delta(6, "e", offset=4))
    assert (text_of(told), view.blind) == ("abcde", False)


@pytest.mark.requirement("STREAM-REPAIR", "STREAM-TAKEOVER")
def test_an_offset_means_nothing_in_an_attempt_whose_beginning_was_lost() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He", offset=0), delta(2, "xx", 2, offset=1))
    told += view.feed_all([])
    told += feed(view, delta(3, "yy", 2, offset=2))
    assert text_of(told) == "He"
    assert feed(view, completed(4, "Hxxyy", attempt=2)) == [INTERRUPTED]


@pytest.mark.requirement("STREAM-REPAIR")
def test_text_is_not_taken_from_the_log_while_frames_bring_it() -> None:
    view = View()
    feed(view, ACCEPTED, delta(2, "a"))
    assert view.feed_log(run(rounds=(Round(number=1, text="abc"),))) == []
    assert feed(view, delta(3, "b")) == [Text("b")]


@pytest.mark.requirement("STREAM-REPAIR", "ACCEPTED-FIRST")
def test_the_log_tells_of_acceptance_and_end() -> None:
    view = View()
    assert view.feed_log(None) == []
    assert view.feed_log(run()) == [Started()]
    ended = run(state="completed", reply=message("Hello"), rounds=(Round(number=1, text="Hello"),))
    assert view.feed_log(ended) == [Text("Hello"), Finished(message("Hello"), ())]
    assert view.ended


@pytest.mark.requirement("STREAM-REPAIR", "CHAT-JSON")
def test_tool_outputs_that_were_missed_are_taken_from_the_log() -> None:
    view = View()
    told = feed(view, ACCEPTED, completed(7, "ok", tool_calls=1))
    assert told == [Started()]
    assert view.wants_log
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="[]")
    done = run(
        state="completed",
        reply=message("ok"),
        rounds=(Round(number=1, calls=(call,)), Round(number=2, text="ok")),
    )
    tools = (ToolCall(name="find", input={"q": 1}, output="[]"),)
    assert view.feed_log(done) == [
        ToolStarted("call", "find", {"q": 1}),
        ToolReturned("call", is_error=False, output="[]"),
        NextRound(2),
        Text("ok"),
        Finished(message("ok"), tools),
    ]


@pytest.mark.requirement("STREAM-TAKEOVER")
def test_a_takeover_behind_the_text_told_goes_on() -> None:
    told = feed(View(), ACCEPTED, delta(2, "He"), resumed(2, "He"), delta(2, "llo", 2), completed(3, "Hello"))
    assert text_of(told) == "Hello"
    told = feed(
        View(),
        ACCEPTED,
        delta(2, "He"),
        resumed(2, "He"),
        delta(2, "llo", 2),
        completed(3, "Hello", attempt=2),
    )
    assert [*map(type, told)] == [Started, Text, Text, Finished]


@pytest.mark.requirement("STREAM-TAKEOVER")
@pytest.mark.parametrize("text", ["H", "Ho", ""])
def test_a_takeover_behind_another_text_ends_the_stream(text: str) -> None:
    told = feed(View(), ACCEPTED, delta(2, "He"), resumed(2, text), delta(2, "llo", 2))
    assert told == [Started(), Text("He"), INTERRUPTED]


@pytest.mark.requirement("STREAM-TAKEOVER", "STREAM-REPAIR")
def test_a_takeover_behind_more_than_was_told_is_repaired() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He"), resumed(2, "Hell"), delta(2, "o", 2))
    assert told == [Started(), Text("He")]
    assert view.wants_repair
    told += view.feed_all([ACCEPTED, delta(2, "He"), delta(3, "ll"), resumed(2, "Hell"), delta(2, "o", 2)])
    told += feed(view, delta(3, "!", 2), completed(4, "Hello!", attempt=2))
    assert [update.text for update in told if isinstance(update, Text)] == ["He", "ll", "o", "!"]


@pytest.mark.requirement("STREAM-TAKEOVER")
def test_frames_of_a_stopped_worker_are_ignored() -> None:
    view = View()
    told = feed(view, ACCEPTED, delta(2, "He"), resumed(2, "He"), delta(3, "XX"), completed(4, "HeXX"))
    assert told == [Started(), Text("He")]
    assert feed(view, delta(2, "y", 2)) == [Text("y")]


@pytest.mark.requirement("STREAM-TAKEOVER", "ACCEPTED-FIRST")
def test_a_takeover_that_is_heard_first_is_the_acceptance() -> None:
    assert feed(View(), resumed(2, ""), delta(2, "a", 2)) == [Started(), Text("a")]


@pytest.mark.requirement("STREAM-CONCAT")
def test_a_saved_message_that_is_not_what_was_told_ends_in_error() -> None:
    assert feed(View(), ACCEPTED, delta(2, "He"), completed(3, "Ha!"))[-1] == INTERRUPTED
    assert feed(View(), ACCEPTED, delta(2, "Hello"), completed(3, "He"))[-1] == INTERRUPTED


@pytest.mark.requirement("REANNOUNCE")
def test_a_result_announced_again_is_taken_without_a_number() -> None:
    again = frames.Completed(seq=0, attempt=1, message=message("Hello"), tool_calls=0)
    assert feed(View(), ACCEPTED, delta(2, "He"), again)[-2:] == [Text("llo"), Finished(message("Hello"), ())]
    assert feed(View(), again) == [Started(), Text("Hello"), Finished(message("Hello"), ())]


@pytest.mark.requirement("STREAM-ERROR")
def test_nothing_is_told_after_the_end() -> None:
    view = View()
    failed = frames.Failed(seq=2, attempt=1, code="provider_error", message="no")
    assert feed(view, ACCEPTED, failed, delta(3, "a"), completed(4, "a")) == [
        Started(),
        Broken("provider_error", "no"),
    ]
    assert view.feed_log(run(state="completed", reply=message("a"))) == view.feed_all([ACCEPTED]) == []


@pytest.mark.requirement("CHAT-JSON", "STREAM-TAKEOVER")
def test_a_reader_of_the_end_alone_is_not_broken_by_what_it_was_not_told() -> None:
    view = View(streaming=False)
    told = feed(view, ACCEPTED, delta(2, "He"), delta(5, "x"), resumed(3, "other"), completed(9, "Hello"))
    assert told == [Started()]
    again = frames.Completed(seq=9, attempt=3, message=message("Hello"), tool_calls=0)
    assert feed(view, again) == [Finished(message("Hello"), ())]
    assert not view.wants_repair


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
    assert (view.feed_all([earlier, later]), view.refused) == ([Broken("overloaded", "late")], True)


@pytest.mark.requirement("CONV-BUSY-READ-BACK")
@pytest.mark.parametrize("attempt", [0, 2])
def test_a_place_in_line_that_was_not_heard_of_is_read_back(attempt: int) -> None:
    view = View(publication=2)
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt)]) == [Waiting()]
    assert view.feed_all([frames.Queued(seq=0, attempt=attempt), ACCEPTED]) == [Waiting(), Started()]


@pytest.mark.requirement("CONV-BUSY-READ-BACK", "IDEMPOTENCY")
def test_a_place_in_line_of_an_earlier_publication_does_not_count() -> None:
    earlier = frames.Queued(seq=0, attempt=1)
    view = View(publication=2)
    assert (feed(view, earlier), view.feed_all([earlier])) == ([], [])


@pytest.mark.requirement("IDEMPOTENCY", "STREAM-CONCAT")
@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_that_ended_before_anything_was_told_is_told_as_it_was_sent(streaming: bool) -> None:
    call = Call(call_id="call", at="2026-11-21T09:30:00.000000Z", name="find", input={"q": 1}, output="{}")
    rounds = (
        Round(number=1, text="Let me see.", cuts=(3, 11), calls=(call,)),
        Round(number=2, text="Done", cuts=(4,)),
    )
    ended = run(
        state="completed", reply=message("Let me see.Done"), rounds=rounds, sources=(SOURCE,), retrieves=True
    )
    view = View(streaming=streaming)
    told = view.feed_log(ended)
    assert [update for update in told if not isinstance(update, Text)] == [
        Started(),
        Sources((SOURCE,)),
        ToolStarted("call", "find", {"q": 1}),
        ToolReturned("call", is_error=False, output="{}"),
        NextRound(2),
        Finished(message("Let me see.Done"), (ToolCall(name="find", input={"q": 1}, output="{}"),)),
    ]
    pieces = [update.text for update in told if isinstance(update, Text)]
    assert pieces == (["Let", " me see.", "Done"] if streaming else [])
    assert view.started
    assert view.ended
    assert not view.refused


@pytest.mark.requirement("IDEMPOTENCY", "CANCEL-HTTP")
def test_a_cancelled_run_is_told_from_the_log_in_the_words_of_its_worker() -> None:
    cancelled = run(state="cancelled", code="cancelled", rounds=(Round(number=1, text="He", cuts=(2,)),))
    assert View().feed_log(cancelled) == [Started(), Text("He"), CANCELLED]
    live = View()
    feed(live, ACCEPTED, delta(2, "He"))
    assert live.feed_log(cancelled) == [CANCELLED]


@pytest.mark.requirement("ERASE")
def test_a_run_of_an_erased_conversation_ends() -> None:
    live, new = View(), View()
    feed(live, ACCEPTED)
    assert live.feed_erased() == [CANCELLED]
    assert [update.code for update in new.feed_erased() if isinstance(update, Broken)] == [
        "conversation_not_found"
    ]
    assert live.feed_erased() == []


PIECES = st.lists(st.text(min_size=1, max_size=3), max_size=12)


@pytest.mark.requirement("STREAM-REPAIR", "STREAM-CONCAT")
@settings(max_examples=400)
@given(pieces=PIECES, data=st.data())
def test_whatever_is_lost_the_text_told_begins_the_reply_and_ends_as_it(
    pieces: list[str], data: st.DataObject
) -> None:
    """Frames are lost, doubled, swapped and kept or not kept by TRACES; a worker may be replaced."""
    content = "".join(pieces)
    script: list[frames.Frame] = [ACCEPTED]
    cut = data.draw(st.integers(0, len(pieces) * 2), label="takeover before piece")
    with_offsets = data.draw(st.booleans(), label="offsets")
    attempt, seq, said = 1, 1, ""
    for number, piece in enumerate(pieces):
        if number == cut:
            attempt, seq = 2, 1
            script.append(resumed(2, said))
        seq += 1
        script.append(delta(seq, piece, attempt, offset=len(said) if with_offsets else None))
        said += piece
    script.append(completed(seq + 1, content, attempt=attempt))
    kept = [frame for frame in script if data.draw(st.booleans(), label="kept by TRACES")]
    live: list[frames.Frame] = []
    for frame in script[:-1]:
        live += [frame] * data.draw(st.sampled_from([0, 1, 1, 1, 1, 2]), label="times heard")
    for place in data.draw(st.lists(st.integers(0, max(0, len(live) - 2)), max_size=3), label="swaps"):
        live[place : place + 2] = live[place : place + 2][::-1]
    view, told = View(), []
    for frame in [*live, script[-1]]:
        told += view.feed(frame)
        if not view.ended and data.draw(st.integers(0, 5), label="repair") == 0:
            told += view.feed_all(kept[: data.draw(st.integers(0, len(kept)), label="up to")])
        if not view.ended and data.draw(st.integers(0, 5), label="look in the log") == 0:
            stored = content[: data.draw(st.integers(0, len(content)), label="stored")]
            told += view.feed_log(run(rounds=(Round(number=1, text=stored),)))
        assert content.startswith(text_of(told))
    assert view.ended
    if isinstance(told[-1], Finished):
        assert text_of(told) == content
    else:
        assert told[-1] == INTERRUPTED
    assert [type(update) for update in told].count(Started) == 1
