"""Failing on the Chat Completions wire: the errors and the broken streams that a model name may ask for."""

import httpx
import openai
import pytest

from tests.model_demo.chat import BEARER, chunks_of, post, texts_of, user

pytestmark = pytest.mark.requirement("MODEL-DEMO-OPENAI")


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, None, openai.BadRequestError),
        (401, "invalid_api_key", openai.AuthenticationError),
        (402, "insufficient_quota", openai.APIStatusError),
        (403, "permission_denied", openai.PermissionDeniedError),
        (404, "not_found", openai.NotFoundError),
        (429, "rate_limit_exceeded", openai.RateLimitError),
        (500, None, openai.InternalServerError),
        (529, "overloaded", openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_fails_with_the_status_asked_for(
    openai_client: openai.AsyncOpenAI,
    status: int,
    code: str | None,
    error: type[openai.APIStatusError],
    stream: bool,
) -> None:
    with pytest.raises(error) as caught:
        await openai_client.chat.completions.create(
            model=f"demo-echo?fail={status}&retry_after=3", messages=[user("Hello")], stream=stream
        )
    assert caught.value.status_code == status
    assert caught.value.code == code
    assert caught.value.response.headers.get("retry-after") == ("3" if status in (429, 529) else None)


async def test_a_stream_may_end_in_an_error(openai_client: openai.AsyncOpenAI) -> None:
    got: list[str] = []

    async def read() -> None:
        nonlocal got
        stream = await openai_client.chat.completions.create(
            model="demo-load?fail=500&fail_after=2", messages=[user("Hello")], stream=True
        )
        async for chunk in stream:
            got += [chunk.choices[0].delta.content or ""]

    with pytest.raises(openai.APIError, match="The server had an error"):
        await read()
    assert got == ["", "000000 ", "000001 "]


async def test_a_stream_may_be_cut_or_hold_garbage(address: str) -> None:
    cut = chunks_of(await post(address, model="demo-load?cut_after=2", stream=True))
    assert texts_of(cut) == ["000000 ", "000001 "]
    assert cut[-1]["choices"][0]["finish_reason"] is None
    garbage = await post(address, model="demo-load?garbage_after=2", stream=True)
    with pytest.raises(ValueError, match="Expecting"):
        chunks_of(garbage)


async def test_a_stream_may_hang_with_comments_only(address: str) -> None:
    body = {"model": "demo-load?hang_after=1&ping_ms=5", "stream": True, "messages": [user("Hello")]}
    lines: list[str] = []
    async with (
        httpx.AsyncClient(base_url=address, headers=BEARER, timeout=20) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        async for line in answer.aiter_lines():
            lines += [line] if line else []
            if lines[-3:] == [": ping"] * 3:
                break
    assert [line[:6] for line in lines] == ["data: ", "data: ", *[": ping"] * 3]
