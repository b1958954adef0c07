"""Check the host of each request; add a trace, a log line and security headers.

Unmatched paths are checked too, since their error page has links.
"""

import time
from typing import Any

from agentchat.console.shared.host_check import refuse_unknown_host
from agentchat.runtime import logs, metrics, tracing

HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers by which a browser loads only the console's own files, and no other site embeds its pages."""

_DATA_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
"""The policy of JSON and plain text, which browsers show with an inline style of their own."""

_DATA = (b"application/json", b"application/jsonl", b"text/plain")
_HEALTH = ("/healthz", "/readyz")
"""Probes ask for these by the process's own address."""

_QUIET = (*_HEALTH, "/static/")
_MOST_PATH = 256


class ConsoleMiddleware:
    """The outermost ASGI layer: host check, tracing, security headers, request log."""

    def __init__(self, app: Any, console_url: str | None) -> None:
        self._app, self._url = app, console_url
        self._log = logs.get_logger("console").bind()
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request in a new trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"][:_MOST_PATH]
        with tracing.open_trace(method, None, {"http.request.method": method, "url.path": path}) as span:
            began, status, trace_id = time.perf_counter(), 500, tracing.format_trace_id(span)

            async def send_with_headers(message: Any) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    own = dict(self._headers) | {b"x-trace-id": trace_id.encode()}
                    if dict(message["headers"]).get(b"content-type", b"").startswith(_DATA):
                        own[b"content-security-policy"] = _DATA_POLICY
                    message["headers"] = [*message["headers"], *own.items()]
                await send(message)

            with logs.bind_context(trace_id=trace_id):
                answer = self._app if path in _HEALTH else refuse_unknown_host(scope, self._url) or self._app
                await answer(scope, receive, send_with_headers)
                self._report(method, path, status, time.perf_counter() - began)

    def _report(self, method: str, path: str, status: int, seconds: float) -> None:
        is_quiet = path.startswith(_QUIET)
        if not is_quiet:
            metrics.REQUESTS.labels(method=method, status=f"{status // 100}xx").observe(seconds)
        log: Any = self._log.debug if is_quiet else self._log.info
        log("request", method=method, path=path, status=status, ms=round(seconds * 1000, 1))
