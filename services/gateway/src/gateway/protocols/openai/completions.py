"""POST /openai/v1/chat/completions: a conversation is sent, its next message comes, at once or in chunks."""

from datetime import datetime
from functools import partial
from hashlib import sha256

from litestar import post
from litestar.handlers.base import BaseRouteHandler

from contracts import wire as json
from contracts.examples import TRACE
from conversations.claims.tries import Try
from conversations.queries import shown_history
from gateway.access.auth import REFUSALS, authenticate, bearer_or
from gateway.chat.admitted_request import AdmittedRequest, admit, run_limits
from gateway.chat.client_history import ClientHistory, as_shown, storable
from gateway.chat.launch_run import RUN_REFUSALS, launch, whole
from gateway.chat.run_request import RunRequest
from gateway.http.exchange import Connection, of
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described, event_of, parameter
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai import azure, wire
from gateway.protocols.openai.completion_answers import CompletionChunks, completion_of
from gateway.protocols.openai.completion_body import (
    ChatCompletion,
    CompletionData,
    check_fit,
    hash_of,
    texts_of,
)
from gateway.protocols.openai.openai_headers import (
    TASK,
    conversation_key_of,
    is_open_webui_task,
    tries_of,
)
from gateway.protocols.openai.structured import schema_of, wanted_by
from gateway.runs.event_stream import EventStream

CONVERSATION_KEY = parameter(
    "header",
    "X-Conversation-Id",
    "Your own name for the conversation. Under it the history that you send finds what the agent did in it; "
    "without it each request is a conversation of its own. X-OpenWebUI-Chat-Id is read too.",
    example="chat-7",
    minLength=1,
    maxLength=255,
    pattern="^[!-~]+$",
)
_ANSWERED_SECONDS = 10.0
"""Under a key for the conversation, an answer that was lost on its way to the client is sent again for so
long: beyond the SDK's pause before a retry. Without one, equal requests may be those of strangers.
"""


async def run_request(request: AdmittedRequest, body: ChatCompletion) -> RunRequest:
    """What the body and the headers ask for. Raises Refusal, DatabaseUnavailable."""
    received, limit = await request.body(), request.auth.plan.max_message_bytes
    account_id, exchange = request.auth.account_id, request.exchange

    def read() -> tuple[ClientHistory, str]:
        check_fit(body)
        return texts_of(body.messages, "messages").history_for("messages", limit), hash_of(received)

    given, body_hash = await request.in_turn(read)
    wanted = wanted_by(body.response_format, "response_format")
    is_task = is_open_webui_task(exchange, given)
    key = None if is_task else conversation_key_of(exchange)
    model = storable(body.model)
    if (deployment := azure.deployment_of(exchange.scope["path"])) is not None:
        model, body_hash = deployment, f"{deployment}\n{body_hash}"
    agent_id = await agent_named(request, model)
    requested = RunRequest(
        form="openai",
        agent_id=agent_id,
        model=model,
        streamed=bool(body.stream),
        calls_at_end=False,
        unlisted=key is None,
        attempted=attempt_of(request, body_hash, key),
        is_task=is_task,
        output_schema=await schema_of(request.services.pool, account_id, agent_id, wanted),
    )
    hash_of_texts = partial(shown_history.hash_of, account_id, agent_id, key or "")
    return await as_shown(request, requested, given, key, hash_of_texts)


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
        request=sha256(json.encode((caller.key_id, key, body_hash))).hexdigest(),
        first=tried == 0,
        asked_at=caller.now,
        answered_seconds=0.0 if key is None else _ANSWERED_SECONDS,
    )


_EXAMPLE = wire.Completion(
    id=f"chatcmpl-{TRACE}",
    created=1795253400,
    model="Shop assistant",
    choices=(wire.Choice(message=wire.CompletionReply(role="assistant", content="It has shipped.")),),
    usage=wire.Tokens(prompt_tokens=412, completion_tokens=57, total_tokens=469),
)


@described(*REFUSALS)
async def has_bearer_key(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: a key that counts, where OpenAI's clients send theirs, or Azure's.

    Raises Refusal, DatabaseUnavailable.
    """
    await authenticate(connection, bearer_or(of(connection.scope), b"api-key"))


@run_limits
async def admitted(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: as `within_run_limits`, for SDKs that count their tries."""
    await admit(connection, is_retry=bool(tries_of(of(connection.scope))))


@post(
    "/chat/completions",
    status_code=200,
    operation_id="complete",
    summary="Send a conversation, get its next message.",
    description="See docs/integrate/openai.md for what is ignored and what is refused.",
    response_description="The reply; as chunks where `stream` is true, of which the last is `[DONE]`, or an "
    "error.",
    request_class=AdmittedRequest,
    guards=[admitted],
)
@described(
    *("agent_not_found", *RUN_REFUSALS),
    parameters=[CONVERSATION_KEY, TASK],
    content={"application/json": wire.Completion, "text/event-stream": event_of(wire.CompletionChunk)},
    headers=CONVERSATION_ID,
    examples={"text": _EXAMPLE},
)
async def complete(
    request: AdmittedRequest, data: CompletionData
) -> JsonAnswer[wire.Completion] | EventStream:
    requested = await run_request(request, data)
    claim, run = await launch(request, requested)
    model = requested.model or ""
    request.exchange.headers.append((b"x-conversation-id", claim.conversation_id.encode()))
    completion_id = f"chatcmpl-{claim.trace_id}"
    created = int(datetime.fromisoformat(claim.now).timestamp())
    if requested.streamed:
        include_usage = data.stream_options is not None and bool(data.stream_options.include_usage)
        chunks = CompletionChunks(completion_id, model, created, include_usage=include_usage)
        return EventStream(run, lambda: chunks.encode(run.take()))
    finished, updates = await whole(run)
    return JsonAnswer(completion_of(finished, updates, completion_id, model, created))
