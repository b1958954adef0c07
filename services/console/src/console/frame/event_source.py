"""Parts of pages for `hx-sse:connect`, of something that comes to an end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from litestar.response import Stream

from console.console_services import services_of
from console.frame.access import AnyRequest, session_of
from console.live import broadcast

_END = b"event: end\ndata: end\n\n"
"""By it an element closes its stream: `hx-sse:close="end"`."""


def rendered(request: AnyRequest, template: str, **context: Any) -> str:
    """A part of a page as HTML, with the session's token for its forms."""
    services = services_of(request)
    form_token = services.sessions.form_token(session_of(request))
    return services.templates.get_template(template).render(form_token=form_token, **context)


def stream(parts: AsyncIterator[str]) -> Stream:
    """Each part as a message, with beats while there is none; then the end."""
    return broadcast.stream(_events(parts))


async def _events(parts: AsyncIterator[str]) -> AsyncIterator[bytes]:
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
