"""Stream the reply under way again: GET /ai-sdk/v1/agents/{agent}/chat/{chat_id}/stream."""

from typing import Annotated

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter

from agentchat.contracts.ownership import build_scope
from agentchat.conversations.queries import find_by_history
from agentchat.gateway.access.checks import AgentName, may_follow_agent
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.ai_sdk.ai_sdk_chat import add_stream_headers
from agentchat.gateway.protocols.ai_sdk.ui_message_chunks import AiSdkChunks
from agentchat.gateway.protocols.client_history import check_name
from agentchat.gateway.runs.event_stream import EVENTS, EventStream
from agentchat.gateway.runs.owned_run import find_owned_run, follow_stored_run

ChatId = Annotated[str, PathParameter(description="The `id` that the chat was sent with.")]


@get(
    "/ai-sdk/v1/agents/{agent:str}/chat/{chat_id:str}/stream",
    media_type="text/event-stream",
    operation_id="reconnectToUiStream",
    summary="Continue with the reply under way.",
    responses={
        **EVENTS,
        204: ResponseSpec(None, description="No reply of this chat is under way.", generate_examples=False),
    },
    guards=[may_follow_agent],
)
async def reconnect(
    request: JsonRequest,
    agent: AgentName,  # noqa: ARG001 - read by the guard
    chat_id: ChatId,
) -> Response[None]:
    """Stream the reply under way from its beginning, at any gateway; the client begins its message again.

    204 if no run is under way: what has ended is in the client's or its backend's own store.
    """
    services, caller, name = request.services, request.auth, check_name("chat_id", chat_id)
    agent_id = request.state.agent_id
    trace_id = await find_by_history.find_newest_run(services.pool, build_scope(caller), agent_id, name)
    if trace_id is None:
        return Response(None, status_code=204)
    found = await find_owned_run(services.pool, caller, trace_id)
    conversation_id, begun_at = found.conversation_id, found.begun_at
    if begun_at is None or not await services.log.is_under_way(conversation_id, trace_id):
        return Response(None, status_code=204)
    await request.context.enter(request.services.account_bounds.hold_stream(caller))
    run = await follow_stored_run(request, trace_id, conversation_id, begun_at=begun_at)
    request.context.trace_id = trace_id
    add_stream_headers(request, conversation_id)
    chunks = AiSdkChunks(trace_id, conversation_id)
    return EventStream(run, lambda: chunks.encode(run.take()))
