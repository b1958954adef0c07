"""How many streams one session may hold open."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from console.live.broadcast import OpenStreams
from tests.console.pages import Browser, text_of


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"event"


async def test_a_session_and_a_process_have_so_many_streams() -> None:
    streams = OpenStreams(most_of_session=2, most_of_process=3)
    opened = [streams.counted(session, endless(), None) for session in ("a", "a", "b")]
    for each in opened:
        await anext(each)
    assert "You have 2 live pages open" in str(streams.refusal("a"))
    assert "3 live pages are open at this console" in str(streams.refusal("c"))
    await opened[0].aclose()
    assert streams.refusal("a") is None
    await opened[1].aclose()
    await opened[2].aclose()
    assert streams.refusal("c") is None


async def test_a_stream_ends_with_its_session() -> None:
    streams = OpenStreams(most_of_session=1)
    source = endless()
    assert [each async for each in streams.counted("a", source, 0.0)] == []
    assert streams.refusal("a") is None
    with pytest.raises(StopAsyncIteration):
        await anext(source)


async def test_a_live_page_too_many_is_refused_in_words(browser: Browser) -> None:
    await browser.get("/health")
    opened = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(20):
            response = await stack.enter_async_context(browser.http.stream("GET", "/now/stream"))
            opened.append(response.aiter_raw())  # one that is let go closes its connection
            await anext(opened[-1])
        refused = await browser.get("/now/stream", **{"hx-request": "true"})
        assert (refused.status_code, refused.headers["hx-retarget"]) == (429, "#trouble")
        assert "You have 20 live pages open" in text_of(refused.text)
