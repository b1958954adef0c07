"""Streams over HTTP: typed events of both forms, cut anywhere, ended well or badly."""

from typing import Any

import pytest

from agentchat.client import (
    Approval,
    ChatError,
    Delta,
    Done,
    InvalidRequest,
    InvalidResponse,
    Message,
    MessageDone,
    Meta,
    Source,
    Sources,
    Start,
    StreamInterrupted,
    Timeouts,
    ToolCall,
    ToolRun,
)
from tests.client.conftest import Connect, Serve
from tests.client.driving import Clock
from tests.client.given import (
    ADA,
    DONE_1,
    DONE_2,
    FAILURE,
    FORM_1,
    FORM_2,
    HELLO,
    MESSAGE,
    META,
    SOURCE,
    START,
    THREAD,
    TOOL,
    make_delta,
)
from tests.client.server import (
    RESET,
    TRACE,
    as_json,
    encode_lines,
    respond_plain,
    respond_problem,
    split_chunks,
    stop_unfinished,
)


def test_form_1_is_typed_and_remembered(serve: Serve, connect: Connect) -> None:
    result = connect(serve(split_chunks(encode_lines(*FORM_1)))).read("Hello", form=1)
    assert result.events == [
        Meta(conversation_id=THREAD, trace_id=TRACE),
        Sources(sources=(Source(**SOURCE),)),
        Delta(content="Grüße, "),
        Delta(content="Ada."),
        Done(conversation_id=THREAD, trace_id=TRACE),
    ]
    assert result.failure is None
    assert result.stream.ended
    assert result.stream.conversation_id == THREAD
    assert result.stream.trace_id == TRACE
    assert result.stream.text == "Grüße, Ada."
    assert result.stream.sources == (Source(**SOURCE),)


def test_form_2_is_typed_and_remembered(serve: Serve, connect: Connect) -> None:
    result = connect(serve(split_chunks(encode_lines(*FORM_2)))).read("Hello", form=2)
    assert result.events == [
        Start(conversation_id=THREAD),
        Delta(content="Grüße, "),
        ToolCall(name="get_order", input={"order_id": "ORD-1"}, id="call-1"),
        Delta(content="Ada."),
        MessageDone(message=Message(**MESSAGE), tool_calls=(ToolRun(**TOOL),)),
    ]
    assert result.stream.message == Message(**MESSAGE)
    assert result.stream.tool_calls == (ToolRun(**TOOL),)
    assert result.stream.text == MESSAGE["content"]
    assert result.stream.conversation_id == THREAD
    assert result.stream.trace_id == TRACE


def test_a_stream_is_requested_with_its_form_and_no_compression(serve: Serve, connect: Connect) -> None:
    server = serve(*(split_chunks(encode_lines(*FORM_1)) for _ in range(2)))
    client = connect(server)
    more = {"context": {"name": "Ada"}}
    said: Any = {"conversation_id": THREAD, "prompt": "Be brief.", "on_busy": "steer"}
    client.read("Hello", agent_id="another", form=2, body=more, **said)
    client.read("Hello")
    chosen, left_open = server.requests
    assert chosen.method == "POST"
    assert chosen.target == "/v1/chat/stream"
    assert chosen.headers["x-stream-form"] == "2"
    assert chosen.headers["x-agent-id"] == "another"
    assert chosen.headers["accept-encoding"] == "identity"
    assert chosen.json == {"message": "Hello", **said, **more}
    assert "x-stream-form" not in left_open.headers
    assert left_open.json == {"message": "Hello"}


def test_nothing_is_read_after_the_final_event(serve: Serve, connect: Connect) -> None:
    result = connect(serve(split_chunks(encode_lines(META, DONE_1, make_delta("too late"))))).read("Hello")
    assert [type(event) for event in result.events] == [Meta, Done]
    assert result.stream.text == ""


def test_the_connection_of_a_finished_stream_is_kept_alive_and_reused(serve: Serve, connect: Connect) -> None:
    server = serve(split_chunks(encode_lines(*FORM_1)), split_chunks(encode_lines(*FORM_2)))
    client = connect(server)
    client.read("one")
    client.read("two")
    assert [request.connection for request in server.requests] == [1, 1]


def test_leaving_early_closes_the_stream_and_keeps_the_text(serve: Serve, connect: Connect) -> None:
    server = serve(stop_unfinished(encode_lines(META, HELLO)), split_chunks(encode_lines(*FORM_1)))
    client = connect(server)
    result = client.read("Hello", at_most=2)
    assert result.stream.text == "Grüße, "
    assert result.stream.conversation_id == THREAD
    assert not result.stream.ended
    assert client.read("Hello").stream.ended
    assert [request.connection for request in server.requests] == [1, 2]


@pytest.mark.parametrize("first", [META, START], ids=["form 1", "form 2"])
def test_an_error_event_is_raised_after_the_events_before_it(
    serve: Serve, connect: Connect, first: dict[str, str]
) -> None:
    server = serve(split_chunks(encode_lines(first, HELLO, FAILURE)))
    result = connect(server).read("Hello")
    assert [type(event) for event in result.events][1:] == [Delta]
    error = result.failure
    assert isinstance(error, ChatError)
    assert error.code == "provider_error"
    assert error.message == "The model provider failed."
    assert error.trace_id == TRACE
    assert error.conversation_id == THREAD
    assert str(error) == f"provider_error: The model provider failed. (trace {TRACE})"
    assert len(server.requests) == 1


def test_approval_is_named_decided_and_reply_continues(serve: Serve, connect: Connect) -> None:
    waiting = {"id": "a-1", "tool": "cancel_order", "input": {"order_id": "ORD-1"}, "expires_at": "later"}
    code = {"type": "error", "code": "approval_required", "message": "A person has to approve it."}
    server = serve(
        split_chunks(encode_lines(START, HELLO, code | {"approvals": [waiting]})),
        as_json({}),
        split_chunks(encode_lines(*FORM_2)),
    )
    client = connect(server)
    error = client.read("Hello").failure
    assert isinstance(error, ChatError)
    assert error.approvals == (
        Approval(id="a-1", tool="cancel_order", input={"order_id": "ORD-1"}, expires_at="later"),
    )
    client.decide("a-1", "approved", input={"order_id": "ORD-2"})
    asked = server.requests[1]
    assert (asked.method, asked.target) == ("POST", "/v1/approvals/a-1/decision")
    assert asked.json == {"decision": "approved", "input": {"order_id": "ORD-2"}}
    assert client.join(TRACE).failure is None


@pytest.mark.parametrize(
    "answer",
    [
        split_chunks(encode_lines(META, HELLO)),
        stop_unfinished(encode_lines(META, HELLO), then="close"),
        stop_unfinished(encode_lines(META, HELLO) + b'data: {"type":"delta","cont', then="close"),
        split_chunks(encode_lines(META, HELLO) + b'data: {"type":"delta","cont'),
    ],
    ids=["without an end", "connection closed", "closed within a line", "ended within a line"],
)
def test_a_cut_stream_is_interrupted_with_its_thread_and_not_repeated(
    serve: Serve, connect: Connect, clock: Clock, answer: object
) -> None:
    server = serve(answer)
    result = connect(server).read("Hello")
    assert [type(event) for event in result.events] == [Meta, Delta]
    assert isinstance(result.failure, StreamInterrupted)
    assert result.failure.trace_id == TRACE
    assert result.failure.conversation_id == THREAD
    assert result.stream.text == "Grüße, "
    assert len(server.requests) == 1
    assert clock.slept == []


def test_stream_cut_before_first_event_has_only_a_trace(serve: Serve, connect: Connect) -> None:
    server = serve(stop_unfinished(then="close"))
    error = connect(server).read("Hello").failure
    assert isinstance(error, StreamInterrupted)
    assert error.trace_id == TRACE
    assert error.conversation_id is None
    assert len(server.requests) == 1


def test_a_silent_stream_is_interrupted_at_the_read_timeout(serve: Serve, connect: Connect) -> None:
    client = connect(serve(stop_unfinished(encode_lines(START))), timeouts=Timeouts(read=0.1))
    error = client.read("Hello").failure
    assert isinstance(error, StreamInterrupted)
    assert "ReadTimeout" in str(error)
    assert error.conversation_id == THREAD


def test_a_stream_that_only_pings_is_interrupted_at_the_whole_timeout(serve: Serve, connect: Connect) -> None:
    client = connect(
        serve(stop_unfinished(encode_lines(START), *[b": ping\n\n"] * 50)),
        clock=Clock(step=1.0),
        timeouts=Timeouts(total=10.0),
    )
    error = client.read("Hello").failure
    assert isinstance(error, StreamInterrupted)
    assert "longer than 10 s" in str(error)


def test_an_unterminated_final_event_still_ends_the_stream(serve: Serve, connect: Connect) -> None:
    result = connect(serve(split_chunks(encode_lines(START, HELLO, ADA, DONE_2).rstrip(b"\n")))).read("Hello")
    assert result.failure is None
    assert result.stream.message == Message(**MESSAGE)


@pytest.mark.parametrize(
    "line",
    [b"data: {", b"data: []", b'data: {"content":"x"}', b'data: {"type":"delta"}', b"data: " + b"[" * 9999],
    ids=["cut JSON", "an array", "no type", "no content", "too deep"],
)
def test_a_line_that_is_no_event_is_an_invalid_response(serve: Serve, connect: Connect, line: bytes) -> None:
    result = connect(serve(split_chunks(encode_lines(META) + line + b"\n\n" + encode_lines(DONE_1)))).read(
        "Hello"
    )
    assert [type(event) for event in result.events] == [Meta]
    assert isinstance(result.failure, InvalidResponse)
    assert result.failure.trace_id == TRACE


@pytest.mark.parametrize(
    "answer",
    [
        as_json({"conversation_id": THREAD}),
        respond_plain(b"<html>", headers={"Content-Type": "text/html"}),
        respond_plain(b""),
    ],
    ids=["JSON", "a page", "nothing"],
)
def test_an_answer_that_is_no_stream_is_an_invalid_response(
    serve: Serve, connect: Connect, answer: object
) -> None:
    result = connect(serve(answer)).read("Hello")
    assert result.events == []
    assert isinstance(result.failure, InvalidResponse)


def test_a_stream_is_retried_before_it_has_begun(serve: Serve, connect: Connect, clock: Clock) -> None:
    server = serve(
        RESET,
        respond_problem(503, "overloaded", headers={"Retry-After": "2"}),
        split_chunks(encode_lines(*FORM_2)),
    )
    result = connect(server).read("Hello")
    assert result.stream.ended
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    first, second = clock.slept
    assert 0 <= first <= 0.5
    assert 2 <= second <= 3


def test_broken_stream_reconnects_after_last_whole_event(serve: Serve, connect: Connect) -> None:
    def mark_events(*events: object, first: int = 0) -> bytes:
        return b"".join(b"id: %d\n" % n + encode_lines(event) for n, event in enumerate(events, first))

    complete = mark_events(META, HELLO, ADA, DONE_1)
    server = serve(
        stop_unfinished(complete[: complete.index(b"Ada")], then="close"),
        split_chunks(mark_events(ADA, DONE_1, first=2)),
        respond_problem(410, "cursor_expired"),
    )
    client = connect(server)
    first = client.join(TRACE, form=1)
    assert isinstance(first.failure, StreamInterrupted)
    assert first.stream.last_event_id == "1"
    second = client.join(TRACE, first.stream.last_event_id)
    assert first.stream.text + second.stream.text == "Grüße, Ada."
    assert second.stream.ended is True
    assert second.stream.last_event_id == "3"
    with pytest.raises(InvalidRequest):
        client.join(TRACE, "other")
    assert [asked.target for asked in server.requests] == [f"/v1/chat/{TRACE}/events"] * 3
    assert [asked.headers.get("last-event-id") for asked in server.requests] == [None, "1", "other"]
    assert [asked.headers.get("x-stream-form") for asked in server.requests] == ["1", None, None]
