"""Server-sent events for `hx-sse:connect`: parts of pages as they change."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

from litestar.exceptions import TooManyRequestsException
from litestar.response import Stream

from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest, session_of
from agentchat.console.frame.rendering import shared_context

BEAT_SECONDS = 5.0
"""A browser that hears nothing for more than twice as long says that the page is frozen."""

_BEAT = b"event: beat\ndata:\n\n"
_END = b"event: end\ndata: end\n\n"
"""Closes the stream of an element: `hx-sse:close="end"`."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def rendered(request: AnyRequest, template: str, **context: Any) -> str:
    """Return a part of a page as HTML, with the session's token for its forms."""
    shown = services_of(request).templates.get_template(template)
    return shown.render(shared_context(request) | context)


def stream(request: AnyRequest, parts: AsyncGenerator[str, None]) -> Stream:
    """Return the parts as messages, until they or the session end.

    Raises TooManyRequestsException.
    """
    services, session = services_of(request), session_of(request)
    refusal = services.streams.refusal(session.id)
    if refusal is not None:
        raise TooManyRequestsException(refusal)
    left = float("inf") if session.seconds_left is None else session.seconds_left
    deadline = time.monotonic() + left

    async def counted() -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(events_of(parts)) as events:
            with services.streams.counted(session.id):
                async for event in events:
                    if time.monotonic() >= deadline:
                        return
                    yield event

    return Stream(counted(), media_type="text/event-stream", headers=_HEADERS)


def message(html: str) -> bytes:
    """Return parts of a page as one event; each is an `<hx-partial>` that names its target."""
    return "".join(f"data: {line}\n" for line in html.splitlines()).encode() + b"\n"


async def events_of(parts: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    """Yield each part, a beat first and while there is no part, and the end. Close `parts` in any case."""
    upcoming = asyncio.ensure_future(anext(parts, None))
    try:
        yield _BEAT
        while True:
            await asyncio.wait([upcoming], timeout=BEAT_SECONDS)
            if not upcoming.done():
                yield _BEAT
                continue
            part = upcoming.result()
            if part is None:
                break
            yield message(part)
            upcoming = asyncio.ensure_future(anext(parts, None))
        yield _END
    finally:
        # Shielded: Litestar's Stream repeats its cancellation at each await here, and would cut off what
        # `parts` does at its end.
        await asyncio.shield(asyncio.create_task(_close(upcoming, parts)))


async def _close(upcoming: "asyncio.Future[str | None]", parts: AsyncGenerator[str, None]) -> None:
    upcoming.cancel()
    await asyncio.wait([upcoming])
    await parts.aclose()
