"""Hold what a request has next to Litestar's own: a trace, headers of its answer, resources, a typed body.

`TraceMiddleware` is around the application: Litestar's own middleware does not see its 404 and 405.
`JsonRequest` is what guards and handlers get.
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from opentelemetry.trace import Span, Status, StatusCode

from agentchat.administration.checked_input import read_json
from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http import ignored_parameters
from agentchat.gateway.http.problems import (
    Refusal,
    RefusalFormat,
    RequestIds,
    build_refusal_headers,
    to_refusal,
)
from agentchat.runtime import logs, metrics, tracing

if TYPE_CHECKING:
    from agentchat.gateway.services import GatewayServices

MAX_BODY_BYTES = 1024 * 1024
MAX_FILES_BODY_BYTES = 8 * MAX_BODY_BYTES
"""The bound of bodies that may have files in them. Their texts are bounded by MAX_BODY_BYTES."""

T = TypeVar("T")
Connection = ASGIConnection[Any, Any, Any, Any]

_QUIET = ("/healthz", "/readyz")
_MAX_PATH = 256
_USER = re.compile("/users/[^/]+")
_RAW_USER = re.compile(b"/users/[^/]+")
_ENCODED_SLASH = "\x00"
"""Stands for %2F in the path of an end user: routing splits at slashes, and no id holds a NUL."""

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class RequestContext:
    """One request's trace, caller and answer.

    `headers` go out with the answer, whatever it becomes. `conversation_id` is set once a message is saved
    in it, or may be: then the response names it, whatever it becomes.
    What is entered with `enter` is held until the request has been answered, or is about to be refused:
    Litestar closes its dependencies before it answers.
    """

    __slots__ = (
        "_send",
        "account_id",
        "conversation_id",
        "headers",
        "held",
        "ignored",
        "status",
        "trace_id",
        "user_id",
        "words",
    )

    def __init__(self, trace_id: str, send: Send, words: RefusalFormat) -> None:
        self.trace_id = trace_id
        self.words = words
        self.headers: list[tuple[bytes, bytes]] = []
        self.account_id: str | None = None
        self.user_id: str | None = None
        self.conversation_id: str | None = None
        self.ignored: list[str] = []
        self.status: int | None = None
        self.held = AsyncExitStack()
        self._send = send

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Hold a context manager until the request has been answered."""
        return await self.held.enter_async_context(context)

    def add_header(self, name: str, value: str) -> None:
        """Add a header to the answer."""
        self.headers.append((name.encode(), value.encode()))

    async def send(self, message: Message) -> None:
        """Send a message of the application, with the headers of this request."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400:
                await self.held.aclose()
            if self.conversation_id is not None:
                self.add_header("x-conversation-id", self.conversation_id)
            if self.ignored:
                self.add_header("x-ignored-parameters", ", ".join(self.ignored))
            self.add_header("x-trace-id", self.trace_id)
            message["headers"] = [*message["headers"], *self.headers]
        await self._send(message)

    def format_refusal(self, refusal: Refusal) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a refusal at this request's address."""
        worded = self.words(refusal, RequestIds(self.trace_id, self.conversation_id))
        return worded.body, build_refusal_headers(refusal, worded)


def get_context(connection: Connection) -> RequestContext:
    """Return the context that `TraceMiddleware` has set."""
    context = connection.scope["state"]["context"]
    assert isinstance(context, RequestContext)
    return context


class JsonRequest(Request[Any, Caller, State]):
    """`auth` is the caller that the guard has found."""

    @property
    def context(self) -> RequestContext:
        """Return the request's context."""
        return get_context(self)

    @property
    def services(self) -> "GatewayServices":
        """Return the services of the application."""
        services: GatewayServices = self.app.state.services
        return services

    async def json(self) -> Any:
        """Decode the body. Litestar calls this for a handler's `data`.

        Litestar's own method would make dicts of it, and convert texts to numbers.
        Raises Refusal: 400, which names the field.
        """
        data, received = self.route_handler.parsed_data_field, await self.body()
        assert data is not None
        if not received.strip():
            raise to_refusal(Invalid("body", "is empty; it must be a JSON object"))
        try:
            body = read_json(data.annotation, received)
        except Invalid as error:
            raise to_refusal(Invalid(error.field or "body", error.reason)) from None
        self.context.ignored += ignored_parameters.list_ignored_parameters(data.annotation, received)
        return body


class TraceMiddleware:
    """A trace for every request, X-Trace-Id on every answer, one log line for every exchange.

    `choose_refusal_format` gives the form that refusals have at a path.
    """

    def __init__(self, app: ASGIApp, choose_refusal_format: Callable[[str], RefusalFormat]) -> None:
        self.app = app
        self._words_at = choose_refusal_format
        self._log = logs.get_logger("gateway").bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request a trace, pass it on, and log the exchange."""
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        scope["path"] = _decode_path(scope)
        method, path = scope["method"], _shorten_path(scope["path"])
        attributes = {"http.request.method": method, "url.path": path}
        with tracing.open_trace(method, _read_trace_context(scope), attributes) as span:
            began = time.perf_counter()
            context = RequestContext(tracing.format_trace_id(span), send, self._words_at(scope["path"]))
            scope["state"] = {**scope.get("state", {}), "context": context}
            with logs.bind_context(trace_id=context.trace_id):
                await self._pass(scope, receive, context)
                self._report(scope, context, span, time.perf_counter() - began)

    async def _pass(self, scope: HTTPScope, receive: Receive, context: RequestContext) -> None:
        try:
            async with context.held:
                # Litestar: the route's guard (`access.checks`), then its handler (such as `protocols.chat`)
                await self.app(scope, receive, context.send)
        except asyncio.CancelledError:  # the process stops, and has waited long enough
            self._log.warning("request_cut_off")
            if context.status is None:
                body, headers = context.format_refusal(Refusal("server_shutdown"))
                await ASGIResponse(body=body, headers=headers, status_code=503)(scope, receive, context.send)
        except Exception:  # noqa: BLE001 - after the answer began: the server drops the connection
            self._log.exception("request_failed")

    def _report(self, scope: HTTPScope, context: RequestContext, span: Span, seconds: float) -> None:
        status, route, is_quiet = context.status, scope.get("path_template"), scope["path"] in _QUIET
        if span.is_recording():
            span.update_name(f"{scope['method']} {route}" if route else scope["method"])
            span.set_attributes({"http.route": route or "", "http.response.status_code": status or 0})
            if context.user_id is not None:
                span.set_attribute("user.id", context.user_id)
            if status is None or status >= 500:
                span.set_status(Status(StatusCode.ERROR))
        if not is_quiet:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            metrics.REQUESTS.labels(method=method, status=f"{(status or 500) // 100}xx").observe(seconds)
        log = self._log.debug if is_quiet else self._log.info
        fields = {"account_id": context.account_id} if context.account_id else {}
        log(
            "request",
            method=scope["method"],
            path=_shorten_path(scope["path"]),
            status=status,
            ms=round(seconds * 1000, 1),
            **fields,
        )


def decode_slashes(segment: str) -> str:
    """Return a segment of the path with the slashes that were percent-encoded in it."""
    return segment.replace(_ENCODED_SLASH, "/")


def _decode_path(scope: HTTPScope) -> str:
    """Return the decoded path, in which an encoded slash of an end user's id separates nothing."""
    raw = scope["raw_path"]
    if b"%2" not in raw:
        return scope["path"]
    return unquote(_RAW_USER.sub(lambda user: re.sub(b"%2[Ff]", b"%00", user[0]), raw).decode("ascii"))


def _shorten_path(path: str) -> str:
    """Return the path as logs and spans have it, without an end user: its length is the caller's choice."""
    path = _USER.sub("/users/…", path) if "/users/" in path else path
    return path if len(path) <= _MAX_PATH else path[:_MAX_PATH] + "…"


def _read_trace_context(scope: HTTPScope) -> dict[str, str]:
    """Return the caller's own trace context, which becomes a link."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in (b"traceparent", b"tracestate")
    }
