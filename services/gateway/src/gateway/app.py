"""The routes of the gateway, and the framework's own errors in our form."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Litestar, Request, Response, delete, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from bus import BusUnavailable
from contracts import wire
from conversations.errors import StoreUnavailable
from gateway import cancel, deletes, events, exchange, openapi, problems, reads
from gateway.admin.door import handlers
from gateway.chat import chat
from gateway.door import Door
from gateway.doors import ENTRANCES, PAGES
from gateway.doors.port import Entrance, Page
from gateway.exchange import ClientGone, Exchange
from gateway.parts import Parts
from gateway.problems import Refusal
from runtime import logs
from runtime.postgres import DatabaseUnavailable

AnyRequest = Request[Any, Any, Any]


def build(parts: Parts) -> Door:
    """The ASGI application over `parts`."""
    app = Litestar(
        [*_chat_routes(parts), *_read_routes(parts), *_plain_routes(parts), *_admin_routes(parts)],
        openapi_config=None,  # gateway.openapi
        logging_config=None,  # runtime.logs
        exception_handlers={HTTPException: _router_error, Exception: _failure},
        request_max_body_size=None,  # gateway.strict alone reads bodies
    )
    return Door(app)


def _chat_routes(parts: Parts) -> list[HTTPRouteHandler]:
    @post("/v1/chat/{trace_id:str}/cancel", status_code=202)
    async def post_cancel(trace_id: str) -> ASGIApp:
        return _endpoint(lambda e: cancel.cancel(parts, e, trace_id))

    @get("/v1/chat/{trace_id:str}/events")
    async def get_events(trace_id: str) -> ASGIApp:
        return _endpoint(lambda e: events.events(parts, e, trace_id))

    entrances = [_entrance(parts, entrance) for entrance in ENTRANCES]
    return [*entrances, *(_page(parts, page) for page in PAGES), post_cancel, get_events]


def _entrance(parts: Parts, entrance: Entrance) -> HTTPRouteHandler:
    @post(entrance.path, status_code=200)
    async def post_ask() -> ASGIApp:
        return _endpoint(lambda e: chat(parts, e, entrance))

    return post_ask


def _page(parts: Parts, page: Page) -> HTTPRouteHandler:
    @get(page.path.replace("}", ":str}"))
    async def get_page(request: AnyRequest) -> ASGIApp:
        named = "".join(request.path_params.values())
        return _endpoint(lambda e: page.answer(parts, e, named))

    return get_page


def _read_routes(parts: Parts) -> list[HTTPRouteHandler]:
    @get("/v1/conversations")
    async def get_conversations() -> ASGIApp:
        return _endpoint(lambda e: reads.list_conversations(parts, e))

    @get("/v1/conversations/{conversation_id:str}")
    async def get_conversation(conversation_id: str) -> ASGIApp:
        return _endpoint(lambda e: reads.get_conversation(parts, e, conversation_id))

    @get("/v1/conversations/{conversation_id:str}/messages")
    async def get_messages(conversation_id: str) -> ASGIApp:
        return _endpoint(lambda e: reads.list_messages(parts, e, conversation_id))

    @delete("/v1/conversations/{conversation_id:str}", status_code=200)
    async def delete_conversation(conversation_id: str) -> ASGIApp:
        return _endpoint(lambda e: deletes.delete_conversation(parts, e, conversation_id))

    return [get_conversations, get_conversation, get_messages, delete_conversation]


def _plain_routes(parts: Parts) -> list[HTTPRouteHandler]:
    """Health, and the description of the API: these need no key."""
    described = openapi.document(admin=parts.admin is not None)
    document, page = wire.encode(described), openapi.page(described)

    @get("/healthz")
    async def get_healthz() -> ASGIApp:
        return _endpoint(lambda e: e.json(b'{"status":"ok"}'))

    @get("/readyz")
    async def get_readyz() -> ASGIApp:
        return _endpoint(lambda e: _ready(parts, e))

    @get("/openapi.json")
    async def get_openapi() -> ASGIApp:
        return _endpoint(lambda e: e.json(document))

    @get("/docs")
    async def get_docs() -> ASGIApp:
        return _endpoint(lambda e: e.answer(200, b"text/html; charset=utf-8", page, openapi.PAGE_HEADERS))

    return [get_healthz, get_readyz, get_openapi, get_docs]


def _admin_routes(parts: Parts) -> list[HTTPRouteHandler]:
    """None where the door is shut: its addresses are then as unknown as any other."""
    return [] if parts.admin is None else handlers(parts.admin, _endpoint)


async def _ready(parts: Parts, current: Exchange) -> None:
    (well, checks), (_, also) = await asyncio.gather(parts.health.ready(), parts.advisory.ready())
    body = {"status": "ok" if well else "unavailable", "checks": {**checks, **also}}
    await current.json(wire.encode(body), 200 if well else 503)


_AWAY = (BusUnavailable, StoreUnavailable, DatabaseUnavailable)


def _endpoint(answer: Callable[[Exchange], Awaitable[None]]) -> ASGIApp:
    """An ASGI application that answers, or sends the refusal that the answering ended in.

    NATS or Postgres being away is 503 for whoever asks, wherever it shows.
    """

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        current = exchange.of(scope)
        try:
            await answer(current)
        except ClientGone:
            return
        except Refusal as refusal:
            await problems.answer(current, refusal)
        except _AWAY as away:
            logs.get_logger("gateway").warning("unavailable", reason=str(away))
            await problems.answer(current, Refusal("overloaded", "A part of the service does not answer."))

    return application


class _ProblemResponse(Response[bytes]):
    """A refusal as the router wants its answers."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(b"")
        self._refusal = refusal

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        async def application(scope: Any, *_: Any, **__: Any) -> None:
            await problems.answer(exchange.of(scope), self._refusal)

        return application


_CODES = {404: "not_found", 405: "method_not_allowed"}


def _router_error(_request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """What the router itself refuses: 404, and 405 with Allow."""
    headers = []
    if error.status_code == 405:
        allowed = (error.headers or {}).get("allow", "").split(", ")
        headers.append((b"allow", ", ".join(m for m in allowed if m != "OPTIONS").encode()))
    return _ProblemResponse(Refusal(_CODES.get(error.status_code, "invalid_request"), headers=headers))


def _failure(_request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault of ours: told in the log, not to the caller."""
    logs.get_logger("gateway").error("request_failed", exc_info=error)
    return _ProblemResponse(Refusal("internal_error"))
