"""The outermost layer: every request gets a trace, every answer X-Trace-Id, every exchange one log line."""

import asyncio
import re
import time
from typing import Any

from opentelemetry.trace import Span, Status, StatusCode

from gateway.http import problem_responses
from gateway.http.body_reader import BodyReader
from gateway.http.exchange import ATTRIBUTE, TARGET, Exchange, Receive, Scope, Send
from gateway.http.problem_responses import Refusal
from gateway.protocols import canonical, wording_at
from runtime import logs, metrics, telemetry

_QUIET = ("/healthz", "/readyz")
# Answered like any method that a path does not have, and never by the framework: a preflight is for browsers.
_NO_METHOD = "PREFLIGHT"
_MOST_PATH = 256
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
# What RFC 3986 section 2.3 calls unreserved, and the slash.
_NEEDLESS = re.compile(rb"%(?:2[DdEeFf]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])")


class RequestMiddleware:
    """Wraps the application. Nothing raised within gets further than here."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._log = logs.get_logger("gateway").bind()
        self._reader = BodyReader()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], _shown(scope)
        attributes = {"http.request.method": method, "url.path": path}
        with telemetry.new_trace(method, _context_headers(scope), attributes) as span:
            began = time.perf_counter()
            trace_id, words = telemetry.trace_id_of(span), wording_at(scope["path"]).words
            exchange = Exchange(scope, receive, send, trace_id, self._reader, words)
            with logs.bound(trace_id=exchange.trace_id):
                await self._pass(exchange)
                self._report(exchange, span, time.perf_counter() - began)

    async def _pass(self, exchange: Exchange) -> None:
        scope = exchange.scope
        method = {"OPTIONS": _NO_METHOD, "HEAD": "GET"}.get(scope["method"], scope["method"])
        state = {**scope.get("state", {}), ATTRIBUTE: exchange}
        inner = {**scope, "method": method, "path": canonical(scope["path"]), "state": state}
        try:
            if _has_another_form(scope):
                await problem_responses.answer(exchange, Refusal("not_found"))
            else:
                async with exchange.held:
                    await self._app(inner, exchange.receive, exchange.send)
        except asyncio.CancelledError:  # this process stops, and the request's time for that is over
            self._log.warning("request_cut_off")
            await problem_responses.answer(exchange, Refusal("server_shutdown"))
        except Exception:  # noqa: BLE001 - the outermost frame of a request
            self._log.exception("request_failed")
            await problem_responses.answer(exchange, Refusal("internal_error"))
        exchange.scope = inner

    def _report(self, exchange: Exchange, span: Span, seconds: float) -> None:
        scope, status = exchange.scope, exchange.status
        route = scope.get("path_template")
        if span.is_recording():
            span.update_name(f"{scope['method']} {route}" if route else scope["method"])
            span.set_attributes({"http.route": route or "", "http.response.status_code": status or 0})
            if status is None or status >= 500:
                span.set_status(Status(StatusCode.ERROR))
        if scope["path"] not in _QUIET:
            metrics.REQUESTS.labels(method=_method(scope), status=f"{(status or 500) // 100}xx").observe(
                seconds
            )
        log = self._log.debug if scope["path"] in _QUIET else self._log.info
        fields = {"account_id": exchange.account_id} if exchange.account_id else {}
        log(
            "request",
            method=scope["method"],
            path=_shown(scope),
            status=status,
            ms=round(seconds * 1000, 1),
            **fields,
        )


def _shown(scope: Scope) -> str:
    """The path as logs and spans have it: its length is the caller's choice."""
    path: str = scope["path"]
    return path if len(path) <= _MOST_PATH else path[:_MOST_PATH] + "…"


def _method(scope: Scope) -> str:
    """As metrics have it: what a caller makes up is one value."""
    method: str = scope["method"]
    return method if method in _METHODS else "other"


def _has_another_form(scope: Scope) -> bool:
    """An address has one form, so that rules before us can go by it; the router itself takes more.

    It is a path with no slash too many, in which nothing is encoded that needs not be.
    """
    path = scope["path"]
    is_path = scope["extensions"][TARGET]["bytes"].startswith(b"/")
    has_slashes = "//" in path or (path.endswith("/") and path != "/")
    return not is_path or has_slashes or _NEEDLESS.search(scope["raw_path"]) is not None


def _context_headers(scope: Scope) -> dict[str, str]:
    """The caller's own trace context, which becomes a link."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in (b"traceparent", b"tracestate")
    }
