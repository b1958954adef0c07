"""Build the HTTP application: messages, chat completions, health."""

import asyncio
import time
import uuid

from litestar import Litestar, Request, get, post
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.response import Response
from litestar.types import ASGIApp

from agentchat.model_demo import controlled_reply, controls, paced_stream
from agentchat.model_demo.controls import Attempts, Fault
from agentchat.model_demo.errors import STATUSES, DemoApiError, build_too_long_error
from agentchat.model_demo.model_request import DemoConversation, count_tokens
from agentchat.model_demo.paced_stream import PacedStream
from agentchat.model_demo.planned_reply import ModelMessage, ModelWire
from agentchat.model_demo.wire import anthropic, openai
from agentchat.runtime import logs

MAX_BODY = 32 * 1024 * 1024
"""The most bytes of a request body, as in the vendor's API."""

Plain = Request[None, None, State]


async def create(request: Plain, attempts: Attempts) -> ASGIApp:
    """Answer a request in the protocol of its path. Raises DemoApiError."""
    began, request_id, wire = time.monotonic(), make_request_id(), choose_wire(request)
    wire.check_headers(request.headers)
    asked = wire.read(await request.body(), request.headers)
    model_id, given = controls.parse(asked.model)
    read = asked.usage
    if given.context is not None and read.total > given.context:
        raise build_too_long_error(read.total, given.context)
    conversation = DemoConversation(asked)
    reply = controlled_reply.plan_reply(asked, conversation, model_id, given)
    fault = attempts.choose_fault(given, conversation.key)
    parts = request.headers.get("traceparent", "").split("-")
    logs.get_logger("model").info(
        "answered",
        request_id=request_id,
        trace_id=parts[1] if len(parts) == 4 else None,
        model=asked.model,
        stop_reason=reply.stop_reason,
        fault=fault.kind if fault else None,
    )
    hangs = fault is not None and fault.kind == "hang"
    if fault == Fault("status") or not (fault is None or hangs or asked.stream):
        status = given.fail or 500
        raise DemoApiError(status, retry_after=given.retry_after if status in (429, 529) else None)
    written = count_tokens(reply.thinking + reply.text) + sum(
        count_tokens(call.name + call.input_json) for call in reply.calls
    )
    made = ModelMessage(
        conversation.make_id(), asked.model, reply, read, written, asked.stream_usage, asked.thinking
    )
    events = wire.write_events(made)
    if asked.stream:
        return PacedStream(wire, events, given, fault, request_id, began)
    last = paced_stream.compute_due_time(given, began, max(0, len(events.deltas) - 1))
    wait = asyncio.Event().wait() if hangs else asyncio.sleep(last - time.monotonic())
    await paced_stream.run_while_connected(wait, request.receive)
    return build_json_response(wire, wire.write_message(made), request_id).to_asgi_response(
        app=None, request=request
    )


def answer_error(request: Plain, error: Exception) -> Response[bytes]:
    """Answer an error, of ours or the framework's, in the form of the protocol."""
    log = logs.get_logger("model")
    if not isinstance(error, DemoApiError):
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status not in STATUSES or status == 500:
            log.error("answer_error", exc_info=error)
        error = DemoApiError(status if status in STATUSES else 500)
    request_id, wire = make_request_id(), choose_wire(request)
    log.info("refused", request_id=request_id, status=error.status, reason=error.message)
    refused = build_json_response(wire, wire.write_error(error, request_id), request_id, error.status)
    if error.retry_after is not None:
        refused.set_header("retry-after", str(error.retry_after))
    return refused


def build_json_response(wire: ModelWire, body: bytes, request_id: str, status: int = 200) -> Response[bytes]:
    """Build a JSON response with the request's id."""
    headers = {wire.REQUEST_ID: request_id}
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def make_request_id() -> str:
    """Return a new request id in the vendor's form."""
    return f"req_{uuid.uuid4().hex}"


def choose_wire(request: Plain) -> ModelWire:
    """Return the protocol of the request's path."""
    return openai if request.url.path.startswith("/v1/chat/") else anthropic


def build() -> Litestar:
    """Build the application."""
    attempts = Attempts()

    @post(["/v1/messages", "/v1/chat/completions"], status_code=200)
    async def answer(request: Request) -> ASGIApp:  # type: ignore[type-arg]
        return await create(request, attempts)

    @get(["/healthz", "/readyz"])
    async def health() -> dict[str, object]:
        return {"status": "ok", "checks": {}}

    return Litestar(
        [answer, health],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MAX_BODY,
        exception_handlers={HTTPException: answer_error, Exception: answer_error},
    )
