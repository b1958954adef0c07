"""GET /ai-sdk/v1/agents/{agent}/chat/{chat_id}/stream: the reply under way, from its beginning."""

from typing import Annotated

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter

from conversations.queries import shown_history
from gateway.access.admission import within_read_rate
from gateway.chat.client_history import MAX_NAME, check_name
from gateway.gateway_request import GatewayRequest
from gateway.http.http_responses import JsonAnswer
from gateway.http.strict_json import without_body
from gateway.openapi.described import described
from gateway.protocols.agent_address import SECURITY, agent_of, has_key
from gateway.protocols.ai_sdk.ai_sdk_chat import CONTENT, EXAMPLE, STREAM_HEADERS, VERSION
from gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from gateway.runs.event_stream import EventStream
from gateway.runs.followed_runs import accepts_runs
from gateway.traces.owned_run import follow, run_of

_ChatId = Annotated[
    str,
    PathParameter(
        description="The `id` that the chat was sent with.",
        schema_extra={"minLength": 1, "maxLength": MAX_NAME},
    ),
]


@get(
    "/ai-sdk/v1/agents/{agent:str}/chat/{chat_id:str}/stream",
    media_type="text/event-stream",
    operation_id="reconnectToUiStream",
    summary="Go on with the reply under way.",
    description="At any gateway, from the beginning of the reply: the client begins its message again.",
    response_description="The chunks of the reply.",
    responses={204: ResponseSpec(None, description="No reply of this chat is under way.")},
    guards=[has_key, within_read_rate, without_body, accepts_runs],
    security=SECURITY,
    tags=["ai-sdk"],
)
@described(
    "agent_not_found", "not_found", content=CONTENT, headers=STREAM_HEADERS, examples={"text": EXAMPLE}
)
async def reconnect(request: GatewayRequest, chat_id: _ChatId) -> EventStream | JsonAnswer[None]:
    """200 for a run under way, else 204: what has ended the client has, or asks its own backend for."""
    services, exchange, name = request.services, request.exchange, check_name("chat_id", chat_id)
    agent_id = await agent_of(request)
    trace_id = await shown_history.newest_run(services.pool, request.auth.account_id, agent_id, name)
    if trace_id is None:
        return JsonAnswer(None, status_code=204)
    found = await run_of(services, request.auth, trace_id)
    if found.begun_at is None or not await services.log.is_under_way(found.conversation_id, trace_id):
        return JsonAnswer(None, status_code=204)
    await exchange.enter(services.account_bounds.streaming(request.auth))
    run = await follow(request, trace_id, found.conversation_id, begun_at=found.begun_at)
    exchange.answer_as(trace_id)
    exchange.headers += (VERSION, (b"x-conversation-id", found.conversation_id.encode()))
    chunks = AiSdkChunks(trace_id, found.conversation_id)
    return EventStream(run, lambda: chunks.encode(run.take()))
