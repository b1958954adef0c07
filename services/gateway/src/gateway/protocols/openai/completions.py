"""POST /openai/v1/chat/completions: a conversation is sent, its next message comes, at once or in chunks."""

from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from litestar import post
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from contracts import wire
from contracts.examples import TRACE
from conversations.claims.tries import Try
from conversations.queries import shown_history
from gateway.access.auth import REFUSALS, authenticate
from gateway.chat import client_history
from gateway.chat.admitted_request import AdmittedRequest, admit, check_idempotency_key, run_limits
from gateway.chat.client_history import ClientHistory, storable
from gateway.chat.launch_run import RUN_REFUSALS, whole
from gateway.chat.run_request import RunRequest
from gateway.chat.start import start
from gateway.http.exchange import of
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from gateway.openapi.openapi_schemas import ref
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai import azure
from gateway.protocols.openai.completion_answers import CompletionChunks, completion_of
from gateway.protocols.openai.completion_body import ChatCompletion, CompletionData, check_fit, hash_of
from gateway.protocols.openai.completion_messages import texts_of
from gateway.protocols.openai.openai_headers import (
    TASK,
    api_key_of,
    conversation_key_of,
    is_open_webui_task,
    tries_of,
)
from gateway.protocols.openai.structured import schema_of, wanted_by
from gateway.protocols.openai.wire import (
    Choice,
    Completion,
    CompletionChunk,
    CompletionReply,
    OpenAIError,
    Tokens,
)
from gateway.runs.event_stream import EventStream

TYPES: tuple[type, ...] = (Completion, CompletionChunk, OpenAIError)
SECURITY = {"bearer": list[str]()}
SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "The account's key, for other protocols.",
    }
}
TAG = {"name": "openai", "description": "Agents as models, for clients of OpenAI's API."}

CONVERSATION_KEY = {
    "name": "X-Conversation-Id",
    "in": "header",
    "description": "Your own name for the conversation. Under it the history that you send finds what the "
    "agent did in it; without it each request is a conversation of its own. X-OpenWebUI-Chat-Id is read too.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "chat-7",
}
_CHUNK = {"type": "string", "contentMediaType": "application/json", "contentSchema": ref(CompletionChunk)}
CONTENT = {
    "application/json": ref(Completion),
    "text/event-stream": {"type": "object", "required": ["data"], "properties": {"data": _CHUNK}},
}


_ANSWERED_SECONDS = 10.0
"""Under a key for the conversation, an answer that was lost on its way to the client is sent again for so
long: beyond the SDK's pause before a retry. Without one, equal requests may be those of strangers.
"""


async def run_request(request: AdmittedRequest, body: ChatCompletion) -> RunRequest:
    """What the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    received, limit, pool = await request.body(), request.auth.plan.max_message_bytes, request.services.pool
    account_id, exchange = request.auth.account_id, request.exchange

    def read() -> tuple[ClientHistory, str]:
        check_fit(body)
        return texts_of(body.messages, "messages").history_for("messages", limit), hash_of(received)

    given, body_hash = await request.in_turn(read)
    wanted = wanted_by(body.response_format, "response_format", "json_schema")
    is_task = is_open_webui_task(exchange, given)
    key = None if is_task else conversation_key_of(exchange)
    model = storable(body.model)
    if (deployment := azure.deployment_of(exchange.scope["path"])) is not None:
        model, body_hash = deployment, f"{deployment}\n{body_hash}"
    agent_id = await agent_named(request, model)
    hash_of_texts = partial(shown_history.hash_of, account_id, agent_id, key or "")
    requested = RunRequest(
        form="openai",
        agent_id=agent_id,
        message=given.message,
        model=model,
        streamed=bool(body.stream),
        unlisted=key is None,
        history=given.history,
        instructions=given.instructions,
        shown_sha256=hash_of_texts(given.digests.messages),
        attempted=attempt_of(request, body_hash, key),
        is_task=is_task,
        output_schema=await schema_of(pool, account_id, agent_id, wanted),
    )
    if key is None:
        return requested
    return await client_history.find_conversation(pool, requested, given, account_id, key, hash_of_texts)


async def agent_named(request: AdmittedRequest, model: str) -> str:
    """The id of the agent that the body names. Raises Refusal: 404; DatabaseUnavailable."""
    agent_id = await request.services.agent_names.called(request.auth.account_id, model)
    if agent_id is None:
        raise Refusal("agent_not_found")
    return agent_id


def attempt_of(request: AdmittedRequest, body_hash: str, key: str | None) -> Try | None:
    """As a try of all that it says, where its client counts them."""
    tried, caller = tries_of(request.exchange), request.auth
    if tried is None:
        return None
    return Try(
        account_id=caller.account_id,
        request=sha256(wire.encode((caller.key_id, key, body_hash))).hexdigest(),
        first=tried == 0,
        asked_at=caller.now,
        answered_seconds=0.0 if key is None else _ANSWERED_SECONDS,
    )


_EXAMPLE = Completion(
    id=f"chatcmpl-{TRACE}",
    created=1795253400,
    model="Shop assistant",
    choices=(Choice(message=CompletionReply(role="assistant", content="It has shipped.")),),
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
    request_class=AdmittedRequest,
    guards=[has_bearer_key, admitted],
    before_request=check_idempotency_key,
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described(
    *("agent_not_found", *RUN_REFUSALS),
    parameters=[CONVERSATION_KEY, TASK],
    content=CONTENT,
    headers=CONVERSATION_ID,
    examples={"text": _EXAMPLE},
)
async def complete(request: AdmittedRequest, data: CompletionData) -> JsonAnswer[Completion] | EventStream:
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
