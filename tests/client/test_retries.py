"""Retries and backoff: what is retried, after how long, and what never is."""

import socket
import uuid

import pytest

from agentchat.client import ConnectionFailed, RateLimited, ServerFailed, Timeouts
from agentchat.client.errors import AgentChatError, InvalidResponse, Misconfigured
from agentchat.client.responses import build_error
from agentchat.client.retries import Budget
from tests.client.conftest import Connect, Serve
from tests.client.driving import Clock
from tests.client.given import REPLY
from tests.client.server import RESET, Answer, as_json, respond_plain, respond_problem

OVERLOADED = respond_problem(503, "overloaded")


def test_a_429_waits_as_long_as_retry_after_says_and_a_little_more(
    serve: Serve, connect: Connect, clock: Clock
) -> None:
    server = serve(respond_problem(429, "rate_limited", headers={"Retry-After": "3"}), as_json(REPLY))
    assert connect(server).chat("Hello").text == "Grüße, Ada."
    (wait,) = clock.slept
    assert 3.0 <= wait <= 3.5
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "failing",
    [
        OVERLOADED,
        respond_plain(b"<html>", 502),
        respond_problem(500, "internal_error"),
        RESET,
        Answer(b"", "close"),
    ],
    ids=["503", "a proxy's 502", "500", "reset", "closed"],
)
def test_transient_refusals_are_retried(
    serve: Serve, connect: Connect, clock: Clock, failing: Answer
) -> None:
    server = serve(failing, failing, as_json(REPLY))
    assert connect(server).chat("Hello").text == "Grüße, Ada."
    first, second = clock.slept
    assert 0 <= first <= 0.5
    assert 0 <= second <= 1.0


def test_an_answer_cut_in_its_middle_is_retried(serve: Serve, connect: Connect) -> None:
    complete = as_json(REPLY)
    server = serve(Answer(complete.data[:-10], "close"), complete)
    assert connect(server).chat("Hello").text == "Grüße, Ada."
    first, second = server.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_are_bounded(serve: Serve, connect: Connect, clock: Clock, retries: int) -> None:
    server = serve(*[OVERLOADED] * 9)
    with pytest.raises(ServerFailed) as raised:
        connect(server, max_retries=retries).chat("Hello")
    assert raised.value.code == "overloaded"
    assert len(server.requests) == retries + 1
    assert len(clock.slept) == retries


def test_refused_connection_is_retried_then_raised_with_cause(connect: Connect, clock: Clock) -> None:
    with socket.socket() as taken:  # bound but not listening: nobody else can answer there
        taken.bind(("127.0.0.1", 0))
        client = connect(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConnectionFailed) as raised:
            client.chat("Hello")
    assert "ConnectError" in str(raised.value)
    assert raised.value.__cause__ is not None
    assert len(clock.slept) == 2


def test_a_silent_service_times_out_as_a_failed_connection(serve: Serve, connect: Connect) -> None:
    server = serve(Answer(b""))
    with pytest.raises(ConnectionFailed) as raised:
        connect(server, timeouts=Timeouts(total=0.1), max_retries=0).chat("Hello")
    assert "ReadTimeout" in str(raised.value)


def test_retries_share_an_idempotency_key_and_calls_do_not(serve: Serve, connect: Connect) -> None:
    server = serve(OVERLOADED, RESET, as_json(REPLY), as_json(REPLY), as_json(REPLY))
    client = connect(server)
    for _ in range(3):
        client.chat("The same words")
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys)) == 3


def build_budget(
    retries: int = 20, *, total: float = 660.0, dice: float = 1.0, clock: Clock | None = None
) -> Budget:
    return Budget(retries, total, clock or Clock(), lambda: dice)


def test_backoff_doubles_up_to_eight_seconds() -> None:
    patient = build_budget()
    waits = [patient.wait_after(ConnectionFailed("gone")) for _ in range(7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_backoff_with_full_jitter_waits_never_less_than_asked() -> None:
    assert build_budget(dice=0.0).wait_after(ConnectionFailed("gone")) == 0.0
    asked = RateLimited(429, "rate_limited", "Slower.", retry_after=4.0)
    assert build_budget(dice=0.0).wait_after(asked) == 4.0
    assert build_budget(dice=1.0).wait_after(asked) == 4.5


def test_no_retry_begins_after_the_timeout_of_a_call() -> None:
    clock = Clock()
    short = build_budget(total=10.0, clock=clock)
    clock.now += 9.6
    failure = ConnectionFailed("gone")
    with pytest.raises(ConnectionFailed) as raised:
        short.wait_after(failure)
    assert raised.value is failure
    short.check()
    clock.now += 0.5
    with pytest.raises(TimeoutError, match="longer than 10 s"):
        short.check()


def test_a_lost_answer_is_retried_for_longer_than_a_refusal() -> None:
    clock = Clock()
    patient = build_budget(clock=clock)
    clock.now += 300
    with pytest.raises(ServerFailed):
        patient.wait_after(ServerFailed(503, "overloaded", "Later."))
    assert patient.wait_after(ConnectionFailed("cut")) == 0.5


def test_an_idempotency_key_of_the_callers_own_is_sent_as_it_is(serve: Serve, connect: Connect) -> None:
    server = serve(as_json(REPLY), as_json(REPLY))
    client = connect(server)
    client.chat("Hello", idempotency_key="order-1001/1")
    client.chat("Hello")
    keys = [request.headers["idempotency-key"] for request in server.requests]
    assert keys[0] == "order-1001/1"
    uuid.UUID(keys[1])
    for wrong in ("", "a b", "ä", '"a"', "a" * 256):
        with pytest.raises(Misconfigured, match="idempotency_key"):
            client.chat("Hello", idempotency_key=wrong)


@pytest.mark.parametrize(
    "failure",
    [
        InvalidResponse("a page"),
        *(
            build_error(status, {"retry-after": "1"}, b'{"code": "%s"}' % code.encode())
            for status, code in (
                *((400, "invalid_request"), (401, "invalid_api_key"), (404, "agent_not_found")),
                *((409, "conversation_busy"), (409, "cancelled"), (429, "quota_exceeded")),
                *((502, "provider_error"), (502, "provider_refused"), (502, "generation_interrupted")),
                *((502, "output_invalid"), (503, "provider_overloaded"), (504, "provider_timeout")),
                (504, "deadline_exceeded"),
            )
        ),
    ],
    ids=str,
)
def test_permanent_failures_are_not_retried(failure: AgentChatError) -> None:
    with pytest.raises(type(failure)) as raised:
        build_budget().wait_after(failure)
    assert raised.value is failure


def test_no_call_waits_longer_than_a_minute() -> None:
    with pytest.raises(RateLimited):
        build_budget().wait_after(RateLimited(429, "rate_limited", "Later.", retry_after=61.0))
    clock = Clock()
    patient = build_budget(clock=clock)
    refused = RateLimited(429, "rate_limited", "Slower.", retry_after=25.0)
    for _ in range(2):
        clock.sleep(patient.wait_after(refused))
    with pytest.raises(RateLimited):
        patient.wait_after(refused)
