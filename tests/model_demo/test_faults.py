"""Failing: the errors and the broken streams that a model name may ask for."""

import asyncio
import json
from typing import Any

import anthropic
import httpx
import pytest

from tests.model_demo.messages import Ask, Events


async def get_status(http: httpx.AsyncClient, model: str, text: str = "Hello") -> int:
    request = {"model": model, "max_tokens": 99, "messages": [{"role": "user", "content": text}]}
    return (await http.post("/v1/messages", json=request)).status_code


def list_texts(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [data["delta"]["text"] for name, data in found if name == "content_block_delta"]


@pytest.mark.parametrize(
    ("code", "kind", "error"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (500, "api_error", anthropic.InternalServerError),
        (529, "overloaded_error", anthropic.APIStatusError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_fails_with_the_requested_status(
    client: anthropic.AsyncAnthropic,
    code: int,
    kind: str,
    error: type[anthropic.APIStatusError],
    stream: bool,
) -> None:
    with pytest.raises(error) as caught:
        await client.messages.create(
            model=f"demo-echo?fail={code}&retry_after=3",
            max_tokens=10,
            messages=[{"role": "user", "content": "Hello"}],
            stream=stream,
        )
    assert caught.value.status_code == code
    assert caught.value.type == kind
    assert caught.value.response.headers.get("retry-after") == ("3" if code in (429, 529) else None)


async def test_a_turn_fails_so_many_times_and_then_succeeds(http: httpx.AsyncClient) -> None:
    model = "demo-echo?fail=529&times=2"
    assert [await get_status(http, model, "only this turn") for _ in range(4)] == [529, 529, 200, 529]
    assert await get_status(http, model, "another turn") == 529


async def test_an_attempt_that_goes_on_is_the_same_turn(events: Events) -> None:
    model = "demo-echo?cut_after=1&times=1&deltas=2"
    first = [event async for event in events("going on", model=model)]
    assert list_texts(first) == ["goin"]
    sent = [{"role": "user", "content": "going on"}, {"role": "assistant", "content": "goin"}]
    again = [event async for event in events(sent, model=model)]
    assert "".join(list_texts(again)) == "g on"
    assert again[-1][0] == "message_stop"


async def test_a_stream_may_end_in_an_error_event(client: anthropic.AsyncAnthropic) -> None:
    got: list[str] = []

    async def read() -> None:
        nonlocal got
        async for event in await client.messages.create(
            model="demo-load?fail=529&fail_after=3",
            max_tokens=9999,
            messages=[{"role": "user", "content": "Hello"}],
            stream=True,
        ):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                got += [event.delta.text]

    with pytest.raises(anthropic.APIStatusError) as caught:
        await read()
    assert got == ["000000 ", "000001 ", "000002 "]
    assert caught.value.status_code == 200
    assert caught.value.type == "overloaded_error"


async def test_a_stream_may_be_cut_cleanly(events: Events) -> None:
    found = [event async for event in events("Hello", model="demo-load?cut_after=2")]
    assert list_texts(found) == ["000000 ", "000001 "]
    assert found[-1][0] == "content_block_delta"


async def test_a_connection_may_break_off(events: Events) -> None:
    got: list[str] = []

    async def read() -> None:
        async for name, _ in events("Hello", model="demo-load?reset_after=2"):
            got.append(name)

    with pytest.raises(httpx.RemoteProtocolError):
        await read()
    assert got.count("content_block_delta") == 2


async def test_a_stream_may_hold_what_is_no_json(http: httpx.AsyncClient) -> None:
    request = {"model": "demo-load?garbage_after=2", "max_tokens": 9999, "stream": True}
    whole = (
        await http.post("/v1/messages", json=request | {"messages": [{"role": "user", "content": "Hello"}]})
    ).text
    last = whole.rstrip().rpartition("data: ")[2]
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(last)
    assert whole.count("text_delta") == 2
    assert "message_stop" not in whole


async def test_a_stream_may_hang_with_pings_only(events: Events) -> None:
    names: list[str] = []
    async for name, _ in events("Hello", model="demo-load?hang_after=1&ping_ms=5"):
        names.append(name)
        if names[-5:] == ["ping"] * 5:
            break
    assert names == ["message_start", "ping", "content_block_start", "content_block_delta", *["ping"] * 5]


async def test_a_whole_answer_hangs_until_its_client_goes(ask: Ask) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await ask("Hello", model="demo-load?hang_after=1")


@pytest.mark.parametrize(
    "fault", ["cut_after=1", "reset_after=1", "garbage_after=1", "fail=500&fail_after=1"]
)
async def test_what_breaks_a_stream_fails_a_whole_answer(http: httpx.AsyncClient, fault: str) -> None:
    assert await get_status(http, f"demo-load?{fault}") == 500
