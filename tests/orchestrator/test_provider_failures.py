"""What can go wrong with a provider: reliability 2.5 and rows 28-31, against a scripted one."""

import asyncio
import contextlib
import json
import time

import pytest

from agentchat.contracts.text_checks import is_line
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.message_stream import AnthropicReply
from agentchat.orchestrator.models.sse_reader import MAX_EVENT_BYTES, EventReader, StreamBroken
from agentchat.orchestrator.models.streamed_reply import MAX_BLOCKS
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import (
    Answer,
    Exchange,
    ScriptedProvider,
    break_off,
    events,
    fail_with,
    reply_with,
    send_compressed,
    send_page,
)

# Each in the place of a stream's first event.
MALFORMED = [
    b"data: []\n\n",
    b"data: {}\n\n",
    b'data: {"type": 5}\n\n',
    b'data: {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}\n\n',
    b'data: {"type": "message_start", "message": "no"}\n\n',
    b'data: {"type": "message_stop"}\n\n',
    b'data: {"type": "message_delta", "delta": {"stop_reason": 5}}\n\n',
    b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": 5}}\n\n',
    b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "x", "y": %b}}\n\n'
    % (b"[" * 900 + b"]" * 900),
    b"".join(
        b'data: {"type": "content_block_start", "index": %d, "content_block": {"type": "text"}}\n\n' % index
        for index in range(MAX_BLOCKS + 1)
    ),
    b"data: 01234567\n" * (MAX_EVENT_BYTES // 10),
    b"\xff\xfe\x00\n\n",
    b"data: " + b'{"a":' * 5000 + b"\n\n",
]


@pytest.mark.parametrize(
    ("answer", "code", "tries"),
    [
        (fail_with(400, "invalid_request_error"), "provider_error", 1),
        (fail_with(400, "invalid_request_error", "prompt is too long: 210000 tokens"), "context_too_long", 1),
        (fail_with(302, "moved", location="http://127.0.0.1:1/"), "provider_error", 1),
        (fail_with(401, "authentication_error"), "provider_error", 1),
        (fail_with(402, "billing_error"), "provider_error", 1),
        (fail_with(408, "timeout_error"), "provider_timeout", 3),
        (fail_with(422, "invalid_request_error"), "provider_error", 1),
        (fail_with(503, "api_error"), "provider_overloaded", 3),
        (fail_with(403, "permission_error"), "provider_error", 1),
        (fail_with(404, "not_found_error", "model: x"), "provider_error", 1),
        (fail_with(413, "request_too_large"), "context_too_long", 1),
        (fail_with(429, "rate_limit_error", retry_after="0"), "provider_overloaded", 3),
        (fail_with(429, "rate_limit_error", retry_after="60"), "provider_overloaded", 1),
        (fail_with(500, "api_error"), "provider_error", 3),
        (fail_with(504, "timeout_error"), "provider_timeout", 3),
        (fail_with(529, "overloaded_error"), "provider_overloaded", 3),
        (break_off(how="overloaded_error"), "provider_overloaded", 3),
        (break_off(how="rate_limit_error"), "provider_overloaded", 3),
        (break_off(how="api_error"), "provider_error", 3),
        (break_off(how="invalid_request_error"), "provider_error", 1),
        (break_off(how="close"), "provider_error", 3),
        (break_off(how="reset"), "provider_error", 3),
        (break_off(how="garbage"), "provider_error", 3),
        (break_off(how="timeout_error"), "provider_timeout", 3),
        (break_off(how="authentication_error"), "provider_error", 1),
        (break_off(how="an_error_that_is_new"), "provider_error", 1),
        (send_compressed(200), "provider_error", 3),
        (send_compressed(500), "provider_error", 3),
        (send_page("<html>502 Bad Gateway</html>"), "provider_error", 3),
        *((events(data), "provider_error", 3) for data in MALFORMED),
    ],
)
async def test_a_failure_before_any_text_has_its_code_and_its_retries(
    provider: ScriptedProvider, caller: Caller, answer: Answer, code: str, tries: int
) -> None:
    provider.will(answer)
    failure = await caller.failure()
    assert failure.code == code
    assert len(provider.calls) == tries


@pytest.mark.parametrize("how", ["close", "reset", "garbage", "api_error", "overloaded_error"])
async def test_once_text_went_out_nothing_is_retried(
    provider: ScriptedProvider, caller: Caller, how: str
) -> None:
    provider.will(break_off("Hel", how=how), reply_with("never"))
    failure = await caller.failure()
    assert failure.transient
    assert caller.said == ["Hel"]
    assert len(provider.calls) == 1


@pytest.mark.parametrize("after", [{"retry_after_ms": "700"}, {"retry_after": "0.7"}])
async def test_retry_after_is_honoured_to_the_fraction(
    provider: ScriptedProvider, caller: Caller, after: dict[str, str]
) -> None:
    provider.will(fail_with(529, "overloaded_error", **after), reply_with("fine"))
    began = time.monotonic()
    await caller.stream()
    assert time.monotonic() - began >= 0.7


@pytest.mark.parametrize(
    "after",
    ["-5", "soon", "nan", "1e999", "Wed, 99 Nov 2026 00:00:00 GMT", f"Wed, 01 Jan {'9' * 20} 00:00:00 GMT"],
)
async def test_a_retry_after_that_makes_no_sense_is_ignored(
    provider: ScriptedProvider, caller: Caller, after: str
) -> None:
    provider.will(fail_with(529, "overloaded_error", retry_after=after), reply_with("fine"))
    await caller.stream()
    assert len(provider.calls) == 2


async def test_a_date_to_retry_at_is_that_of_the_providers_clock(
    provider: ScriptedProvider, caller: Caller
) -> None:
    years_ago, later = "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:01 GMT"
    provider.will(fail_with(529, "overloaded_error", date=years_ago, retry_after=later), reply_with("fine"))
    began = time.monotonic()
    await caller.stream()
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("how", ["hang", "ping"])
async def test_a_stream_without_content_times_out_pings_or_not(
    provider: ScriptedProvider, impatient_caller: Caller, how: str
) -> None:
    provider.will(break_off("Hel", how=how))
    failure = await impatient_caller.failure()
    assert failure.code == "provider_timeout"
    await provider.calls[0].wait_until_left()


async def test_pings_are_a_sign_of_life_while_a_model_thinks(
    provider: ScriptedProvider, impatient_caller: Caller
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        for _ in range(9):
            await exchange.event("ping")
            await asyncio.sleep(0.1)
        await exchange.text("At last.")
        await exchange.end()

    provider.will(answer)
    await impatient_caller.stream()
    assert impatient_caller.said == ["At last."]
    assert len(provider.calls) == 1


@pytest.mark.parametrize("how", ["close", "reset", "hang", "ping", "garbage", "overloaded_error"])
async def test_a_reply_that_told_why_it_ended_is_whole_whatever_its_tail_is(
    provider: ScriptedProvider, impatient_caller: Caller, how: str
) -> None:
    provider.will(break_off("All ", "of it.", how=how, stop_reason="end_turn"), reply_with("never"))
    reply = await impatient_caller.stream()
    assert reply.stop_reason == "end_turn"
    assert "".join(impatient_caller.said) == "All of it."
    assert len(provider.calls) == 1


async def test_text_before_a_broken_tail_is_sent_on(provider: ScriptedProvider, caller: Caller) -> None:
    """Though all came as one piece."""
    data = [
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "All."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "error", "error": {"type": "api_error"}},
    ]
    provider.will(events(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in data)))
    reply = await caller.stream()
    assert [block["text"] for block in reply.blocks] == ["All."]
    assert caller.said == ["All."]


@pytest.mark.slow
def test_a_long_event_in_tiny_pieces_is_read_in_no_time() -> None:
    reader = EventReader()
    for _ in range(2**20):
        assert not list(reader.feed(b"x"))


@pytest.mark.parametrize("kind", ["\ud800\x00\x1b[2Jx", "x" * 100_000])
async def test_the_kind_of_a_failure_is_fit_for_a_log(
    provider: ScriptedProvider, caller: Caller, kind: str
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.begin()
        data = json.dumps({"type": "error", "error": {"type": kind}})
        await exchange.write(f"data: {data}\n\n".encode())

    provider.will(answer)
    found = (await caller.failure()).kind
    assert len(found) <= 64
    assert is_line(found)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "body",
    ["[]", "null", '"no"', "5", '{"error": "no"}', '{"error": {"type": [], "message": {}}}', "[" * 2000],
)
async def test_the_body_of_an_error_may_be_anything(
    provider: ScriptedProvider, caller: Caller, status: int, body: str
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.respond(status, "application/json", body.encode())

    provider.will(answer)
    assert (await caller.failure()).kind == f"http_{status}"


async def test_a_provider_that_takes_the_call_and_says_nothing_times_out(
    provider: ScriptedProvider, impatient_caller: Caller
) -> None:
    async def wait_until_left(exchange: Exchange) -> None:
        await exchange.left.wait()

    provider.will(wait_until_left)
    failure = await impatient_caller.failure()
    assert failure.code == "provider_timeout"
    assert len(provider.calls) == 3


async def test_an_error_whose_body_never_comes_times_out(
    provider: ScriptedProvider, impatient_caller: Caller
) -> None:
    async def send_half(exchange: Exchange) -> None:
        await exchange.head(500, "application/json", content_length="9")
        await exchange.left.wait()

    provider.will(send_half)
    failure = await impatient_caller.failure()
    assert failure.code == "provider_timeout"


def test_a_stream_cut_at_any_byte_is_a_failure_and_never_a_reply() -> None:
    """Reliability matrix, row 30: the reply below, cut short everywhere before its end."""
    whole = b"".join(
        b"data: %b\r\n\r\n" % json.dumps(event, ensure_ascii=False).encode()
        for event in (
            {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "é"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )
    )
    told = whole.index(b"data: ", whole.index(b"end_turn"))  # why it ended, and with that all of it
    for cut in range(len(whole)):
        builder = AnthropicReply()
        said = builder.feed(whole[:cut])[0]
        with pytest.raises(StreamBroken) if cut < told - 1 else contextlib.nullcontext():
            builder.complete()
        said += builder.feed(whole[cut:])[0]
        assert said == "é"
        assert builder.complete().blocks == ({"type": "text", "text": "é"},)


@pytest.mark.parametrize("message", [{"id": "m"}, {"id": ""}, {}])
async def test_a_check_hangs_up_once_the_message_begins(
    provider: ScriptedProvider, caller: Caller, message: dict[str, str]
) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.open_stream()
        await exchange.event("ping")
        await exchange.event("message_start", message=message)
        await exchange.wait_until_left()

    provider.will(answer)
    await caller.client.check(caller.credentials, ModelCall(model="m", system="", messages=[], parameters={}))
    await provider.calls[0].wait_until_left()
