"""POST /openai/v1/chat/completions: a conversation is sent, its next message comes, at once or in chunks."""

from datetime import datetime
from typing import Any

from litestar import post
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from contracts.examples import TRACE
from gateway.access.auth import REFUSALS, authenticate
from gateway.chat.chat_request import ChatRequest, admit, check_idempotency_key, run_limits
from gateway.chat.launch_run import RUN_REFUSALS, whole
from gateway.chat.start import start
from gateway.http.exchange import of
from gateway.http.http_responses import JsonAnswer
from gateway.openapi.described import described
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai import open_webui
from gateway.protocols.openai.completion_answers import CompletionChunks, completion_of
from gateway.protocols.openai.completion_body import CompletionData
from gateway.protocols.openai.completion_reading import run_request
from gateway.protocols.openai.completions_openapi import CONTENT, CONVERSATION_KEY, SECURITY, TAG
from gateway.protocols.openai.openai_headers import api_key_of, tries_of
from gateway.protocols.openai.wire import Choice, Completion, Said, Tokens
from gateway.runs.event_stream import EventStream

_EXAMPLE = Completion(
    id=f"chatcmpl-{TRACE}",
    created=1795253400,
    model="Shop assistant",
    choices=(Choice(message=Said(role="assistant", content="It has shipped.")),),
    usage=Tokens(prompt_tokens=412, completion_tokens=57, total_tokens=469),
)


@described(*REFUSALS)
async def has_bearer_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: a key that counts, where OpenAI's clients send theirs. Raises Refusal, DatabaseUnavailable."""
    await authenticate(connection, api_key_of(of(connection.scope)))


@run_limits
async def admitted(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Guard: as `within_run_limits`, for SDKs that count their tries."""
    await admit(connection, is_retry=bool(tries_of(of(connection.scope))))


@post(
    "/openai/v1/chat/completions",
    status_code=200,
    operation_id="complete",
    summary="Send a conversation, get its next message.",
    description="See docs/integrate/openai.md for what is ignored and what is refused.",
    response_description="The reply; as chunks where `stream` is true, of which the last is `[DONE]`, or an "
    "error.",
    request_class=ChatRequest,
    guards=[has_bearer_key, admitted],
    before_request=check_idempotency_key,
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described(
    *("agent_not_found", *RUN_REFUSALS),
    parameters=[CONVERSATION_KEY, open_webui.TASK],
    content=CONTENT,
    headers=CONVERSATION_ID,
    examples={"text": _EXAMPLE},
)
async def complete(request: ChatRequest, data: CompletionData) -> JsonAnswer[Completion] | EventStream:
    """The reply, as soon as it is complete or as it comes."""
    requested = await run_request(request, data)
    started = await start(request, requested)
    claim, run, model = started.claim, started.run, requested.model or ""
    request.exchange.headers.append((b"x-conversation-id", claim.conversation_id.encode()))
    completion_id = f"chatcmpl-{claim.trace_id}"
    created = int(datetime.fromisoformat(claim.now).timestamp())
    if requested.streamed:
        include_usage = data.stream_options is not None and bool(data.stream_options.include_usage)
        chunks = CompletionChunks(completion_id, model, created, include_usage=include_usage)
        return EventStream(run, lambda: chunks.encode(run.take()))
    finished, updates = await whole(run)
    return JsonAnswer(completion_of(finished, updates, completion_id, model, created))
