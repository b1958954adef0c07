"""Give each request a trace and a log line, and each response security headers."""

import time
from typing import Any

from agentchat.runtime import logs, metrics, telemetry

HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""With these, a browser only loads the console's own files, and no other site can embed its pages."""

_QUIET = ("/healthz", "/readyz", "/static/")
_MOST_PATH = 256


class ConsoleMiddleware:
    """The outermost ASGI layer: tracing, security headers, request log."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._log = logs.get_logger("console").bind()
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request in a new trace."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"][:_MOST_PATH]
        with telemetry.open_trace(method, None, {"http.request.method": method, "url.path": path}) as span:
            began, status, trace_id = time.perf_counter(), 500, telemetry.format_trace_id(span)

            async def send_with_headers(message: Any) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    trace = (b"x-trace-id", trace_id.encode())
                    message["headers"] = [*message["headers"], *self._headers, trace]
                await send(message)

            with logs.bind_context(trace_id=trace_id):
                await self._app(scope, receive, send_with_headers)
                self._report(method, path, status, time.perf_counter() - began)

    def _report(self, method: str, path: str, status: int, seconds: float) -> None:
        is_quiet = path.startswith(_QUIET)
        if not is_quiet:
            metrics.REQUESTS.labels(method=method, status=f"{status // 100}xx").observe(seconds)
        log: Any = self._log.debug if is_quiet else self._log.info
        log("request", method=method, path=path, status=status, ms=round(seconds * 1000, 1))
