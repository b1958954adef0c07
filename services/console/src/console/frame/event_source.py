"""Server-sent events: for `hx-sse:connect`, as parts of pages."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from litestar.exceptions import TooManyRequestsException
from litestar.response import Stream

from console.console_services import services_of
from console.frame.access import AnyRequest, session_of
from console.frame.rendering import shared_context
from console.live import broadcast

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
_END = b"event: end\ndata: end\n\n"
"""By it an element closes its stream: `hx-sse:close="end"`."""


def rendered(request: AnyRequest, template: str, **context: Any) -> str:
    """A part of a page as HTML, with the session's token for its forms."""
    shared = shared_context(request, session_of(request))
    return services_of(request).templates.get_template(template).render(shared | context)


async def event_stream(request: AnyRequest, events: AsyncGenerator[bytes, None]) -> Stream:
    """Until the end of the events, or of the session.

    Raises TooManyRequestsException, DatabaseUnavailable.
    """
    services, session = services_of(request), session_of(request)
    refusal = services.streams.refusal(session.id)
    if refusal is not None:
        raise TooManyRequestsException(refusal)
    seconds = None if session.ends is None else session.ends - await services.sessions.now()
    counted = services.streams.counted(session.id, events, seconds)
    return Stream(counted, media_type="text/event-stream", headers=_HEADERS)


async def stream(request: AnyRequest, parts: AsyncGenerator[str, None]) -> Stream:
    """Of what comes to an end: each part as a message, with beats while there is none; then the end.

    Raises TooManyRequestsException, DatabaseUnavailable.
    """
    return await event_stream(request, _events(parts))


async def _events(parts: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    upcoming = asyncio.ensure_future(anext(parts, None))
    try:
        while True:
            await asyncio.wait([upcoming], timeout=broadcast.BEAT_SECONDS)
            if not upcoming.done():
                yield broadcast.BEAT
                continue
            part = upcoming.result()
            if part is None:
                break
            yield broadcast.message(part)
            upcoming = asyncio.ensure_future(anext(parts, None))
        yield _END
    finally:
        upcoming.cancel()
