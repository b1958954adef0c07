"""Stream parts of pages as server-sent events to `hx-sse:connect`."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

from litestar.exceptions import TooManyRequestsException
from litestar.response import Stream

from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_session
from agentchat.console.shared.rendering import build_shared_context

BEAT_SECONDS = 5.0
"""`live.js` shows that the page is frozen if it receives nothing for more than twice this time."""

_BEAT = b"event: beat\ndata:\n\n"
_CHECK_SECONDS = 5.0
"""How often a stream checks that its session was not signed out."""

_END = b"event: end\ndata: end\n\n"
"""Closes an element's stream: `hx-sse:close="end"`."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def render_part(request: AnyRequest, template: str, **context: Any) -> str:
    """Render a part of a page as HTML, with the session's form token."""
    shown = get_services(request).templates.get_template(template)
    return shown.render(build_shared_context(request) | context)


def stream_parts(request: AnyRequest, parts: AsyncGenerator[str, None]) -> Stream:
    """Stream parts as events until they or the session end.

    Raises:
        TooManyRequestsException: If the session or the process has too many streams open.
    """
    services, session = get_services(request), get_session(request)
    refusal = services.streams.explain_refusal(session.id)
    if refusal is not None:
        raise TooManyRequestsException(refusal)
    left = float("inf") if session.seconds_left is None else session.seconds_left
    deadline, next_check = time.monotonic() + left, time.monotonic() + _CHECK_SECONDS

    async def stream_until_session_ends() -> AsyncGenerator[bytes, None]:
        nonlocal next_check
        async with contextlib.aclosing(stream_events(parts)) as events:
            with services.streams.count(session.id):
                async for event in events:
                    now = time.monotonic()
                    if now >= deadline:
                        return
                    if now >= next_check:
                        next_check = now + _CHECK_SECONDS
                        if not await services.sessions.exists(session):
                            return
                    yield event

    return Stream(stream_until_session_ends(), media_type="text/event-stream", headers=_HEADERS)


def encode_event(html: str) -> bytes:
    """Encode parts of a page as one event; each is an `<hx-partial>` that names its target."""
    return "".join(f"data: {line}\n" for line in html.splitlines()).encode() + b"\n"


async def stream_events(parts: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    """Yield a beat, then each part as an event with beats between them, then the end.

    `parts` is closed in any case.
    """
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
            yield encode_event(part)
            upcoming = asyncio.ensure_future(anext(parts, None))
        yield _END
    finally:
        # Shielded: Litestar's Stream cancels again at each await here, which would interrupt the clean-up
        # of `parts`.
        await asyncio.shield(asyncio.create_task(_close(upcoming, parts)))


async def _close(upcoming: "asyncio.Future[str | None]", parts: AsyncGenerator[str, None]) -> None:
    upcoming.cancel()
    await asyncio.wait([upcoming])
    await parts.aclose()
