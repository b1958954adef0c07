"""Refusals and broken answers as the classes of the error tree."""

import json
import pickle

import pytest

from agentchat.client import (
    AgentChatError,
    ApiError,
    AuthenticationFailed,
    ChatError,
    Conflict,
    ConnectionFailed,
    FieldError,
    InvalidRequest,
    InvalidResponse,
    NotFound,
    PlanUpgradeRequired,
    RateLimited,
    ServerFailed,
    StorageFull,
    StreamInterrupted,
    Timeouts,
)
from agentchat.client.errors import choose_error_class
from agentchat.client.responses import build_error, retry_after
from agentchat.contracts.errors import ERRORS
from tests.client.conftest import Connect, Serve
from tests.client.driving import KEY, Clock
from tests.client.given import REPLY, THREAD
from tests.client.server import TRACE, as_json, respond_plain, respond_problem, split_chunks

_OWN = {"approval_forbidden": ApiError, "not_allowed": ApiError, "storage_full": StorageFull}
CLASSES = {
    400: InvalidRequest,
    401: AuthenticationFailed,
    403: PlanUpgradeRequired,
    404: NotFound,
    405: InvalidRequest,
    409: Conflict,
    410: InvalidRequest,
    413: InvalidRequest,
    415: InvalidRequest,
    421: ApiError,
    429: RateLimited,
    500: ServerFailed,
    502: ServerFailed,
    503: ServerFailed,
    504: ServerFailed,
}


def test_a_refusal_is_its_class_with_code_trace_and_detail(serve: Serve, connect: Connect) -> None:
    server = serve(respond_problem(429, "quota_exceeded", headers={"Retry-After": "7"}))
    with pytest.raises(RateLimited) as raised:
        connect(server).chat("Hello")
    error = raised.value
    assert (error.status, error.code, error.trace_id) == (429, "quota_exceeded", TRACE)
    assert error.retry_after == 7.0
    what = "What quota_exceeded means here."
    assert str(error) == f"429 quota_exceeded: {what} (retry after 7 s, trace {TRACE})"
    assert len(server.requests) == 1


def test_a_refused_stream_is_raised_on_entering(serve: Serve, connect: Connect) -> None:
    with pytest.raises(PlanUpgradeRequired) as raised:
        connect(serve(respond_problem(403, "plan_upgrade_required"))).read("Hello", form=2)
    assert raised.value.trace_id == TRACE


def test_the_wrong_fields_are_named(serve: Serve, connect: Connect) -> None:
    wrong = {"field": "message", "message": "must not be empty"}
    with pytest.raises(InvalidRequest) as raised:
        connect(serve(respond_problem(400, "invalid_request", errors=[wrong]))).chat("")
    assert raised.value.errors == (FieldError(field="message", message="must not be empty"),)
    assert "400 invalid_request: message: must not be empty" in str(raised.value)


def test_every_code_of_the_table_has_its_class() -> None:
    assert {row.status for row in ERRORS.values()} <= CLASSES.keys()
    for row in ERRORS.values():
        kind = _OWN.get(row.code, CLASSES[row.status])
        assert choose_error_class(row.status, row.code) is kind, row.code


@pytest.mark.parametrize(
    ("status", "body", "kind", "detail"),
    [
        (404, b"<html>nginx</html>", NotFound, "Not Found"),
        (403, b"", ApiError, "Forbidden"),
        (418, b'{"title":"Short and stout"}', ApiError, "Short and stout"),
        (499, b'{"errors":3}', ApiError, "Unknown status"),
        (400, b"[" * 9999, InvalidRequest, "Bad Request"),
    ],
    ids=["a page", "nothing", "a title", "another shape", "too deep"],
)
def test_a_refusal_of_something_in_between_has_no_code(
    status: int, body: bytes, kind: type[ApiError], detail: str
) -> None:
    error = build_error(status, {}, body)
    assert (type(error), error.code, error.trace_id) == (kind, None, None)
    assert str(error) == f"{status}: {detail}"


def test_a_redirect_is_not_followed_and_the_key_stays_here(serve: Serve, connect: Connect) -> None:
    other = serve(as_json(REPLY))
    with pytest.raises(ApiError) as raised:
        connect(serve(respond_plain(b"", 307, {"Location": f"{other.url}/v1/chat"}))).chat("Hello")
    assert raised.value.status == 307
    assert other.requests == []


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"", b'{"conversation_id":1}', b"[" * 9999],
    ids=["a page", "nothing", "shape", "deep"],
)
def test_a_success_that_is_not_the_apis_is_an_invalid_response(
    serve: Serve, connect: Connect, body: bytes
) -> None:
    server = serve(respond_plain(body, headers={"X-Trace-Id": TRACE}))
    with pytest.raises(InvalidResponse) as raised:
        connect(server).chat("Hello")
    assert raised.value.trace_id == TRACE
    assert len(server.requests) == 1


def test_response_trickling_past_timeout_is_failed_connection(serve: Serve, connect: Connect) -> None:
    pieces = split_chunks(*(bytes([byte]) for byte in json.dumps(REPLY).encode()))
    client = connect(serve(pieces), clock=Clock(step=1.0), timeouts=Timeouts(total=9.0), max_retries=0)
    with pytest.raises(ConnectionFailed, match="longer than 9 s"):
        client.chat("Hello")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0 "}, 0.0),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:30 GMT", "date": "Sat, 21 Nov 2026 09:00:00 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 08:00:00 GMT", "date": "Sat, 21 Nov 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:30 GMT"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:30 -0000", "date": "Sat, 21 Nov 2026 09:00:00 GMT"}, None),
    ],
    ids=["seconds", "zero", "absent", "a word", "negative", "a date", "a past date", "no Date", "no zone"],
)
def test_retry_after_is_seconds_or_unknown(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_the_trace_of_a_problem_body_stands_in_for_a_missing_header() -> None:
    body = b'{"title":"t","detail":"d","code":"not_found","trace_id":"from-the-body"}'
    assert build_error(404, {}, body).trace_id == "from-the-body"
    assert build_error(404, {"x-trace-id": "from-the-header"}, body).trace_id == "from-the-header"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailed("gone"),
        InvalidResponse("a page", TRACE),
        ChatError("cancelled", "It was cancelled.", TRACE, THREAD),
        StreamInterrupted("cut", TRACE, THREAD),
        RateLimited(429, "rate_limited", "Slower.", TRACE, (FieldError(field="f", message="m"),), 3.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: AgentChatError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_the_key_is_sent_once_and_shown_nowhere(serve: Serve, connect: Connect) -> None:
    server = serve(respond_problem(401, "invalid_api_key"))
    client = connect(server)
    with pytest.raises(AuthenticationFailed) as raised:
        client.chat("Hello")
    assert server.requests[0].headers["x-api-key"] == KEY
    assert "authorization" not in server.requests[0].headers
    shown = [repr(client.client), repr(raised.value), str(raised.value), repr(vars(client.client))]
    assert not any(KEY in text for text in shown)
