"""POST /openai/v1/chat/completions: a conversation is sent, its next message comes, at once or in chunks."""

from datetime import datetime
from typing import Any

from litestar import Request, post
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from contracts.examples import TRACE
from gateway.access.auth import REFUSALS, authenticate
from gateway.chat.launch_run import whole
from gateway.chat.start import ChatEndpoint, start
from gateway.http.exchange import Exchange, of
from gateway.http.http_responses import JsonAnswer
from gateway.openapi.described import described
from gateway.protocols.agent_address import CONVERSATION_ID
from gateway.protocols.openai.completion_answers import CompletionChunks, completion_of
from gateway.protocols.openai.completion_reading import read
from gateway.protocols.openai.completions_openapi import (
    CONTENT,
    SECURITY,
    TAG,
)
from gateway.protocols.openai.openai_headers import again, api_key_of
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


@described(*REFUSALS)
def credentials(exchange: Exchange) -> tuple[str, None]:
    """The key; the agent is named in the body. Raises Refusal: 401."""
    return api_key_of(exchange), None


_ENDPOINT = ChatEndpoint(credentials=credentials, is_retry=again, form=lambda *_: "openai", read=read)


@post(
    "/openai/v1/chat/completions",
    status_code=200,
    operation_id="complete",
    summary="Send a conversation, get its next message.",
    description="See docs/integrate/openai.md for what is ignored and what is refused.",
    response_description="The reply; as chunks where `stream` is true, of which the last is `[DONE]`, or an "
    "error.",
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described(content=CONTENT, headers=CONVERSATION_ID, examples={"text": _EXAMPLE}, stages=_ENDPOINT.stages)
async def complete(request: Request[Any, Any, Any]) -> JsonAnswer[Completion] | EventStream:
    """The reply, as soon as it is whole or as it comes."""
    started = await start(request, _ENDPOINT)
    requested, claim, run = started.requested, started.claim, started.run
    of(request.scope).headers.append((b"x-conversation-id", claim.conversation_id.encode()))
    completion_id = f"chatcmpl-{claim.trace_id}"
    created = int(datetime.fromisoformat(claim.now).timestamp())
    if requested.streamed:
        chunks = CompletionChunks(
            completion_id, requested.model, created, include_usage=requested.include_usage
        )
        return EventStream(run, lambda: chunks.encode(run.take()))
    finished, updates = await whole(run)
    return JsonAnswer(completion_of(finished, updates, completion_id, requested.model, created))
