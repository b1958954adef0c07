"""Serve `/healthz` (the process lives), `/readyz` (its dependencies answer) and `/metrics`.

Web services call `HealthChecks.respond` from their own routes; workers start the small server below.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec

from agentchat.runtime import garbage_collection, metrics
from agentchat.runtime.listening_socket import open_listening_socket
from agentchat.runtime.logs import get_first_line

Check = Callable[[], Awaitable[None]]
"""Raises if its dependency does not answer; the exception's text is the reason that is shown."""

_JSON = "application/json"
_REQUEST_SECONDS = 5.0
_HEAD_BYTES = 8192
_BROKEN_REQUEST = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


class HealthChecks:
    """The named checks of one process, each with `deadline` seconds to answer."""

    def __init__(self, checks: Mapping[str, Check], deadline: float = 2.0) -> None:
        self._checks = dict(checks)
        self._deadline = deadline
        self._running: asyncio.Task[dict[str, str]] | None = None

    async def check(self) -> tuple[bool, dict[str, str]]:
        """Return True if every check passed, and each check's "ok" or reason.

        Concurrent calls share one look.
        """
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._look())
        results = await asyncio.shield(self._running)
        return all(result == "ok" for result in results.values()), dict(results)

    async def respond(self) -> tuple[int, bytes]:
        """Return the answer to `GET /readyz`: status 200 or 503, and the JSON body."""
        well, checks = await self.check()
        status = "ok" if well else "unavailable"
        return (200 if well else 503), msgspec.json.encode({"status": status, "checks": checks})

    async def _look(self) -> dict[str, str]:
        outcomes = await asyncio.gather(
            *map(self._run_with_deadline, self._checks.values()), return_exceptions=True
        )
        return {
            name: _describe_outcome(outcome) for name, outcome in zip(self._checks, outcomes, strict=True)
        }

    async def _run_with_deadline(self, check: Check) -> None:
        async with asyncio.timeout(self._deadline):
            await check()


@contextlib.asynccontextmanager
async def serve_health(health: HealthChecks, host: str, port: int) -> AsyncIterator[int]:
    """Serve `/healthz`, `/readyz` and `/metrics` while the block runs; yields the bound port.

    Call it once everything else is ready.

    Raises:
        SettingsError: The address cannot be bound.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _respond(health, head))
                await writer.drain()
        except _BROKEN_REQUEST:
            pass
        finally:
            writer.close()

    listener = open_listening_socket(host, port)
    server = await asyncio.start_server(answer, sock=listener, limit=_HEAD_BYTES)
    garbage_collection.freeze_heap()
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()


async def _respond(health: HealthChecks, head: bytes) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    content_type = _JSON
    if path not in (b"/healthz", b"/readyz", b"/metrics"):
        status, body = 404, b'{"status":"not found"}'
    elif method not in (b"GET", b"HEAD"):
        status, body = 405, b'{"status":"method not allowed"}'
    elif path == b"/healthz":
        status, body = 200, b'{"status":"ok"}'
    elif path == b"/metrics":
        status, body, content_type = 200, metrics.render_metrics(), metrics.CONTENT_TYPE
    else:
        status, body = await health.respond()
    lines = [
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if status == 405:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == b"HEAD" else body)


_PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _describe_outcome(outcome: BaseException | None) -> str:
    if outcome is None:
        return "ok"
    if isinstance(outcome, TimeoutError) and not str(outcome):
        return "no answer in time"
    return get_first_line(outcome)[:200]
