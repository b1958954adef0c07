"""The HTTP surface: messages, chat completions, counting tokens, the list of models, health."""

import asyncio
import math
import time

from litestar import Litestar, Request, get, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException, InternalServerException
from litestar.response import Response
from litestar.types import ASGIApp

from model_demo import answer, catalogue, identifiers, respond, streaming
from model_demo.faults import Attempts, Fault
from model_demo.pacing import Pacer
from model_demo.streaming import Stream
from model_demo.wire import decode, errors, tokens, validation
from model_demo.wire.anthropic import ANTHROPIC
from model_demo.wire.chat import CHAT
from model_demo.wire.errors import ApiError
from model_demo.wire.protocol import Head, Wire
from runtime import logs

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a request body, as the API bounds it."""
BODY_SECONDS = 30.0

Plain = Request[None, None, State]


class Service:
    """What the handlers share. Made within the event loop that serves."""

    def __init__(self) -> None:
        self._pacer = Pacer(asyncio.get_running_loop())
        self._attempts = Attempts()
        self._ids = identifiers.RequestIds()
        self._log = logs.get_logger("model")

    async def create(self, wire: Wire, request: Plain) -> ASGIApp:
        """Answer `POST /v1/messages` or `POST /v1/chat/completions`."""
        began, request_id = self._pacer.now(), self._ids.next()
        try:
            return await self._create(wire, request, began, request_id)
        except ApiError as error:
            return self._failed(wire, error, request_id)

    async def _create(self, wire: Wire, request: Plain, began: float, request_id: str) -> ASGIApp:
        wire.check_headers(request.headers)
        read = wire.asked(await body_of(request))
        asked = read.request
        worked = time.perf_counter()
        made = answer.answer(asked)
        controls = made.model.controls
        fault = self._attempts.fault(controls, made.key)
        self._log.info(
            "answered",
            request_id=request_id,
            trace_id=trace_of(request),
            model=asked.model,
            stream=asked.stream,
            stop_reason=made.reply.stop_reason,
            fault=fault.kind if fault else None,
            ms=round((time.perf_counter() - worked) * 1000, 2),
        )
        await asyncio.sleep(controls.head_ms / 1000)
        if fault == Fault("status"):
            raise struck(controls.fail or 500, controls.retry_after)
        head = Head(
            identifiers.message_id(made.key, asked.model),
            asked.model,
            tokens.of_request(asked),
            read.stream_usage,
        )
        if asked.stream:
            planned = Stream(wire, wire.events(head, made.reply), controls, fault, request_id, began)
            return respond.stream(planned, self._pacer)
        if fault is not None and fault.kind != "hang":
            raise struck(controls.fail or 500, controls.retry_after)
        spent = streaming.seconds(wire.events(head, made.reply), controls)
        due = math.inf if fault is not None else began + spent
        whole = respond.json(wire, wire.message(head, made.reply), request_id)
        return respond.later(whole, due, self._pacer)

    async def count(self, request: Plain) -> ASGIApp:
        """Answer `POST /v1/messages/count_tokens`."""
        request_id = self._ids.next()
        try:
            ANTHROPIC.check_headers(request.headers)
            asked = decode.count_request(await body_of(request))
            catalogue.require(asked.model)
            validation.check_count(asked)
            return respond.value(ANTHROPIC, {"input_tokens": tokens.of_request(asked).total}, request_id)
        except ApiError as error:
            return self._failed(ANTHROPIC, error, request_id)

    def models(self, request: Plain, model_id: str | None = None) -> ASGIApp:
        """Answer `GET /v1/models` and `GET /v1/models/{id}`, which both wires have."""
        wire, request_id = wire_of(request), self._ids.next()
        try:
            wire.check_headers(request.headers)
            if wire is CHAT:
                found = catalogue.chat_page() if model_id is None else catalogue.chat_entry(model_id)
            else:
                found = (
                    catalogue.page(request.query_params) if model_id is None else catalogue.entry(model_id)
                )
            return respond.value(wire, found, request_id)
        except ApiError as error:
            return self._failed(wire, error, request_id)

    def unrouted(self, request: Plain, error: Exception) -> Response[bytes]:
        """What the framework refuses (unknown paths and methods, bodies too large), in the API's form."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        refused = ApiError(status if status in errors.TYPES else 500)
        if refused.status == 500:
            self._log.error("failed", exc_info=error)
        wire, request_id = wire_of(request), self._ids.next()
        return Response(
            wire.error(refused, request_id),
            status_code=refused.status,
            media_type="application/json",
            headers={wire.request_id_header: request_id},
        )

    def _failed(self, wire: Wire, error: ApiError, request_id: str) -> ASGIApp:
        self._log.info("refused", request_id=request_id, status=error.status, reason=error.message)
        return respond.failure(wire, error, request_id)


def wire_of(request: Plain) -> Wire:
    """The wire that a request is meant for, by its path and, where both have the path, its headers."""
    if request.url.path.startswith("/v1/chat/"):
        return CHAT
    headers = request.headers
    bearer_alone = "authorization" in headers and not {"x-api-key", "anthropic-version"} & headers.keys()
    return CHAT if bearer_alone and request.url.path.startswith("/v1/models") else ANTHROPIC


def struck(status: int, retry_after: int) -> ApiError:
    """The error that a control asks for; those that pass say when to come again."""
    return ApiError(status, retry_after=retry_after if status in (429, 529) else None)


def trace_of(request: Plain) -> str | None:
    """The caller's trace id, where it sends one (W3C trace context)."""
    parts = request.headers.get("traceparent", "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 else None


async def body_of(request: Plain) -> bytes:
    """The request's body. Raises ApiError 408 where it does not come, in time or at all."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.body()
    except (TimeoutError, InternalServerException):
        # The framework's word for a client that left while it was sending.
        raise ApiError(408) from None


def build() -> Litestar:
    """The application. To be called within the event loop that serves it."""
    service = Service()

    @post("/v1/messages")
    async def create(request: Request) -> ASGIApp:  # type: ignore[type-arg]
        return await service.create(ANTHROPIC, request)

    @post("/v1/chat/completions")
    async def complete(request: Request) -> ASGIApp:  # type: ignore[type-arg]
        return await service.create(CHAT, request)

    @post("/v1/messages/count_tokens")
    async def count(request: Request) -> ASGIApp:  # type: ignore[type-arg]
        return await service.count(request)

    @get("/v1/models")
    async def models(request: Request) -> ASGIApp:  # type: ignore[type-arg]
        return service.models(request)

    @get("/v1/models/{model_id:str}")
    async def model(request: Request, model_id: str) -> ASGIApp:  # type: ignore[type-arg]
        return service.models(request, model_id)

    @get(["/healthz", "/readyz"])
    async def health() -> dict[str, object]:
        return {"status": "ok", "checks": {}}

    return Litestar(
        [create, complete, count, models, model, health],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MAX_BODY,
        exception_handlers={HTTPException: service.unrouted, Exception: service.unrouted},
    )
