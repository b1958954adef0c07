"""What can go wrong with a provider: reliability 2.5 and rows 28-31, against a scripted one."""

import asyncio
import json
import time

import pytest

from orchestrator.models import Credentials, streaming
from orchestrator.models.anthropic.reply import AnthropicReply
from orchestrator.models.sse import StreamBroken
from tests.orchestrator.provider_caller import Caller
from tests.orchestrator.scripted import (
    Answer,
    Exchange,
    ScriptedProvider,
    breaks,
    events,
    fails,
    packed,
    page,
    says,
)

pytestmark = pytest.mark.requirement("MODEL-ERRORS")

# Each in the place of a stream's first event.
MALFORMED = [
    b"data: []\n\n",
    b"data: {}\n\n",
    b'data: {"type": 5}\n\n',
    b'data: {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}\n\n',
    b'data: {"type": "message_start", "message": "no"}\n\n',
    b'data: {"type": "message_stop"}\n\n',
    b'data: {"type": "message_delta", "delta": {"stop_reason": 5}}\n\n',
    b"\xff\xfe\x00\n\n",
    b"data: " + b'{"a":' * 5000 + b"\n\n",
]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once, unless the provider asks for a pause."""
    monkeypatch.setattr(streaming, "_FIRST_BACKOFF_SECONDS", 0.005)


@pytest.mark.parametrize(
    ("answer", "code", "tries"),
    [
        (fails(400, "invalid_request_error"), "provider_error", 1),
        (
            fails(400, "invalid_request_error", "prompt is too long: 210000 tokens"),
            "context_too_long",
            1,
        ),
        (fails(302, "moved", location="http://127.0.0.1:1/"), "provider_error", 1),
        (fails(401, "authentication_error"), "provider_error", 1),
        (fails(402, "billing_error"), "provider_error", 1),
        (fails(408, "timeout_error"), "provider_timeout", 3),
        (fails(422, "invalid_request_error"), "provider_error", 1),
        (fails(503, "api_error"), "provider_overloaded", 3),
        (fails(403, "permission_error"), "provider_error", 1),
        (fails(404, "not_found_error", "model: x"), "provider_error", 1),
        (fails(413, "request_too_large"), "context_too_long", 1),
        (fails(429, "rate_limit_error", retry_after="0"), "provider_overloaded", 3),
        (fails(429, "rate_limit_error", retry_after="60"), "provider_overloaded", 1),
        (fails(500, "api_error"), "provider_error", 3),
        (fails(504, "timeout_error"), "provider_timeout", 3),
        (fails(529, "overloaded_error"), "provider_overloaded", 3),
        (breaks(how="overloaded_error"), "provider_overloaded", 3),
        (breaks(how="rate_limit_error"), "provider_overloaded", 3),
        (breaks(how="api_error"), "provider_error", 3),
        (breaks(how="invalid_request_error"), "provider_error", 1),
        (breaks(how="close"), "provider_error", 3),
        (breaks(how="reset"), "provider_error", 3),
        (breaks(how="garbage"), "provider_error", 3),
        (breaks(how="timeout_error"), "provider_timeout", 3),
        (breaks(how="authentication_error"), "provider_error", 1),
        (breaks(how="an_error_that_is_new"), "provider_error", 1),
        (packed(200), "provider_error", 3),
        (packed(500), "provider_error", 3),
        (page("<html>502 Bad Gateway</html>"), "provider_error", 3),
        *((events(data), "provider_error", 3) for data in MALFORMED),
    ],
)
async def test_a_failure_before_any_text_has_its_code_and_its_tries(
    provider: ScriptedProvider,
    caller: Caller,
    answer: Answer,
    code: str,
    tries: int,
    quick: None,
) -> None:
    provider.will(answer)
    failure = await caller.failure()
    assert failure.code == code
    assert len(provider.calls) == tries


@pytest.mark.parametrize("how", ["close", "reset", "garbage", "api_error", "overloaded_error"])
async def test_once_text_went_out_nothing_is_tried_again(
    provider: ScriptedProvider, caller: Caller, how: str
) -> None:
    provider.will(breaks("Hel", how=how), says("never"))
    failure = await caller.failure()
    assert failure.transient
    assert caller.said == ["Hel"]
    assert len(provider.calls) == 1


async def test_a_try_that_succeeds_after_failures_is_the_reply(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(fails(529, "overloaded_error"), breaks(how="close"), says("fine"))
    await caller.stream()
    assert caller.said == ["fine"]


@pytest.mark.parametrize("after", [{"retry_after_ms": "700"}, {"retry_after": "0.7"}])
async def test_retry_after_is_honoured_to_the_fraction(
    provider: ScriptedProvider, caller: Caller, after: dict[str, str]
) -> None:
    provider.will(fails(529, "overloaded_error", **after), says("fine"))
    began = time.monotonic()
    await caller.stream()
    assert time.monotonic() - began >= 0.7


@pytest.mark.parametrize("after", ["-5", "soon", "nan", "1e999", "Wed, 99 Nov 2026 00:00:00 GMT"])
async def test_a_retry_after_that_makes_no_sense_is_left_out_of_account(
    provider: ScriptedProvider, caller: Caller, after: str, quick: None
) -> None:
    provider.will(fails(529, "overloaded_error", retry_after=after), says("fine"))
    await caller.stream()
    assert len(provider.calls) == 2


async def test_retry_after_is_honoured(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(fails(429, "rate_limit_error", retry_after="1"), says("fine"))
    began = time.monotonic()
    await caller.stream()
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("how", ["hang", "ping"])
async def test_a_stream_without_content_is_given_up_pings_or_not(
    provider: ScriptedProvider, impatient: Caller, how: str
) -> None:
    provider.will(breaks("Hel", how=how))
    failure = await impatient.failure()
    assert failure.code == "provider_timeout"
    await provider.calls[0].until_left()


async def test_a_provider_that_takes_the_call_and_says_nothing_is_given_up(
    provider: ScriptedProvider, impatient: Caller
) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.left.wait()

    provider.will(silent)
    failure = await impatient.failure()
    assert failure.code == "provider_timeout"
    assert len(provider.calls) == 3


async def test_an_error_whose_body_never_comes_is_given_up(
    provider: ScriptedProvider, impatient: Caller, quick: None
) -> None:
    async def half(exchange: Exchange) -> None:
        await exchange.head(500, "application/json", content_length="9")
        await exchange.left.wait()

    provider.will(half)
    failure = await impatient.failure()
    assert failure.code == "provider_timeout"


async def test_a_provider_that_cannot_be_reached_is_an_error(caller: Caller) -> None:
    caller.credentials = Credentials("http://127.0.0.1:1", "k")
    failure = await caller.failure()
    assert (failure.code, failure.kind) == ("provider_error", "connection")


@pytest.mark.requirement("CANCEL")
async def test_a_cancelled_call_closes_its_connection(provider: ScriptedProvider, caller: Caller) -> None:
    provider.will(breaks("Hel", how="hang"))
    task = asyncio.create_task(caller.stream())
    await asyncio.wait_for(caller.began.wait(), 20.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await provider.calls[0].until_left()


async def test_no_words_of_the_provider_reach_the_failure(provider: ScriptedProvider, caller: Caller) -> None:
    for answer in (fails(400, "invalid_request_error", "SECRET"), fails(500, "api_error", "SECRET")):
        provider.will(answer)
        failure = await caller.failure()
        assert "SECRET" not in str(failure)


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
    for cut in range(len(whole)):
        builder = AnthropicReply()
        said = builder.feed(whole[:cut])[0]
        with pytest.raises(StreamBroken):
            builder.whole()
        said += builder.feed(whole[cut:])[0]
        assert said == "é"
        assert builder.whole().blocks == ({"type": "text", "text": "é"},)
