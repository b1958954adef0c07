"""Chat as JSON, lists page by page, and the other calls: what is asked and what comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentchat.client import (
    Conflict,
    Conversation,
    Feedback,
    FeedbackSummary,
    Message,
    Misconfigured,
    NotFound,
    Reply,
    ToolRun,
)
from tests.client.conftest import Connect, Serve
from tests.client.driving import AGENT
from tests.client.given import MESSAGE, REPLY, THREAD, TOOL, make_conversation, make_message
from tests.client.server import TRACE, Answer, as_json, respond_plain, respond_problem

THREADS = [make_conversation(number) for number in range(160)]
FOUND = "metadata.customer=C+77&metadata.open=yes"


def page(*items: object, cursor: str | None = None) -> Answer:
    return as_json({"data": items, "next_cursor": cursor})


def test_a_reply_is_typed_with_its_trace(serve: Serve, connect: Connect) -> None:
    server = serve(as_json({**REPLY, "a_later_field": True}))
    reply = connect(server).chat("Hello")
    expected = Message(**MESSAGE)
    assert reply == Reply(
        conversation_id=THREAD, message=expected, tool_calls=(ToolRun(**TOOL),), trace_id=TRACE
    )
    assert reply.text == expected.content
    asked = server.requests[0]
    assert asked.method == "POST"
    assert asked.target == "/v1/chat"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["x-agent-id"] == AGENT
    assert asked.headers["user-agent"].startswith("agentchat-client/")
    assert asked.json == {"message": "Hello"}


@pytest.mark.parametrize(
    ("asked", "pages", "targets", "read"),
    [
        (
            {},
            [page(*THREADS[:2], cursor="a+b/c="), page(cursor="d"), page(THREADS[2])],
            ["limit=100", "limit=100&cursor=a%2Bb%2Fc%3D", "limit=100&cursor=d"],
            3,
        ),
        (
            {"metadata": {"customer": "C 77", "open": "yes"}},
            [page(THREADS[0], cursor="a"), page()],
            [f"{FOUND}&limit=100", f"{FOUND}&limit=100&cursor=a"],
            1,
        ),
        (
            {"limit": 3},
            [page(*THREADS[:2], cursor="a"), page(*THREADS[2:4], cursor="b")],
            ["limit=3", "limit=1&cursor=a"],
            3,
        ),
        ({"limit": 0}, [], [], 0),
        (
            {"limit": 150},
            [page(*THREADS[:100], cursor="next"), page(*THREADS[100:], cursor="more")],
            ["limit=100", "limit=50&cursor=next"],
            150,
        ),
    ],
    ids=["all", "metadata", "limit", "nothing", "over-a-page"],
)
def test_conversations_are_read_page_by_page_as_far_as_wanted(
    serve: Serve, connect: Connect, asked: dict[str, Any], pages: list[Answer], targets: list[str], read: int
) -> None:
    server = serve(*pages)
    threads = connect(server).conversations(**asked)
    assert threads == [Conversation(**each) for each in THREADS[:read]]
    assert [request.target for request in server.requests] == [f"/v1/conversations?{t}" for t in targets]


def test_conversations_are_found_by_agent_time_and_title(serve: Serve, connect: Connect) -> None:
    server = serve(page(make_conversation(1)))
    since = datetime(2026, 11, 1, tzinfo=UTC)
    connect(server).conversations(
        agent_id="shop", created_after=since, created_before=since + timedelta(days=1), title="a parcel"
    )
    (request,) = server.requests
    assert request.target == (
        "/v1/conversations?agent_id=shop&created_after=2026-11-01T00%3A00%3A00%2B00%3A00"
        "&created_before=2026-11-02T00%3A00%3A00%2B00%3A00&title=a+parcel&limit=100"
    )
    with pytest.raises(Misconfigured, match="created_after has no time zone"):
        connect(server).conversations(created_after=datetime(2026, 11, 1))


def test_a_conversation_is_described_once_however_often_it_is_sent(serve: Serve, connect: Connect) -> None:
    described = {**make_conversation(1), "title": "The parcel", "metadata": {"customer": "C-77"}}
    server = serve(respond_problem(503, "overloaded"), *(as_json(described) for _ in range(3)))
    client = connect(server)
    expected = Conversation(**described)
    assert client.describe("thread-1", title="The parcel", metadata={"customer": "C-77"}) == expected
    assert client.describe("thread-1", title=None) == expected
    assert client.describe("thread-1", metadata={"draft": None}) == expected
    first, again, *others = server.requests
    assert (first.method, first.target) == ("PATCH", "/v1/conversations/thread-1")
    assert first.json == {"title": "The parcel", "metadata": {"customer": "C-77"}}
    assert again.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert [each.json for each in others] == [{"title": None}, {"metadata": {"draft": None}}]
    assert len({each.headers["idempotency-key"] for each in server.requests}) == 3


def test_a_conversation_is_forked_once_however_often_it_is_sent(serve: Serve, connect: Connect) -> None:
    fork = {**make_conversation(2), "forked_from": {"conversation_id": "thread-1", "version": 8}}
    server = serve(respond_problem(503, "overloaded"), as_json(fork), as_json(fork))
    client = connect(server)
    forked = client.fork("thread-1")
    assert forked.forked_from is not None
    assert (forked.forked_from.conversation_id, forked.forked_from.version) == ("thread-1", 8)
    client.fork("thread-1", 8)
    first, again, other = server.requests
    assert (first.method, first.target, first.json) == ("POST", "/v1/conversations/thread-1/fork", {})
    assert again.headers["idempotency-key"] == first.headers["idempotency-key"]
    assert other.json == {"at": "8"}


def test_feedback_is_given_read_and_taken_back(serve: Serve, connect: Connect) -> None:
    stored = {
        "message_id": "m",
        "conversation_id": THREAD,
        "trace_id": TRACE,
        "score": -1.0,
        "label": None,
        "comment": "No.",
        "on_behalf_of": None,
        "by": {"kind": "account", "id": "key"},
        "at": "2026-11-21T09:30:00Z",
    }
    summary = {"count": 1, "mean_score": -1.0, "newest": stored}
    server = serve(
        respond_problem(503, "overloaded"),
        as_json(stored),
        as_json({"data": [stored]}),
        respond_plain(b"", 204),
        page({**make_message(2), "feedback": summary}),
        page(),
    )
    client = connect(server)
    expected = Feedback(**stored)  # type: ignore[arg-type] # of the mixed values of a table
    assert client.give_feedback("m/1", -1, comment="No.") == expected
    assert client.feedback("m") == (expected,)
    client.withdraw_feedback("m", "ada")
    assert client.messages(THREAD)[0].feedback == FeedbackSummary(count=1, mean_score=-1.0, newest=expected)
    client.conversations(rating="bad")
    first, again, read, gone, _, found = server.requests
    assert (first.method, first.target) == ("POST", "/v1/messages/m%2F1/feedback")
    assert first.json == again.json == {"score": -1, "comment": "No."}
    assert (read.method, read.target) == ("GET", "/v1/messages/m/feedback")
    assert (gone.method, gone.target) == ("DELETE", "/v1/messages/m/feedback?on_behalf_of=ada")
    assert found.target == "/v1/conversations?rating=bad&limit=100"


def test_one_conversation_is_read_by_its_id_whatever_the_id_holds(serve: Serve, connect: Connect) -> None:
    server = serve(as_json(make_conversation(7)), respond_problem(404, "conversation_not_found"))
    client = connect(server)
    assert client.conversation("thread-7") == Conversation(**make_conversation(7))
    with pytest.raises(NotFound):
        client.conversation("../admin?x=1")
    assert server.requests[1].target == "/v1/conversations/..%2Fadmin%3Fx%3D1"


def test_a_run_is_cancelled_by_its_trace(serve: Serve, connect: Connect) -> None:
    server = serve(respond_plain(b"", 202), respond_problem(409, "run_ended"))
    client = connect(server)
    client.cancel(TRACE)
    with pytest.raises(Conflict):
        client.cancel(TRACE)
    assert [(asked.method, asked.target) for asked in server.requests] == [
        ("POST", f"/v1/chat/{TRACE}/cancel")
    ] * 2
