"""Cancel a run at any gateway: POST /v1/chat/{trace_id}/cancel."""

from litestar import post

from agentchat.contracts import http
from agentchat.contracts.messages import CancelRequested
from agentchat.conversations.aggregate.rebuild_request import CANCELLED, rebuild_request
from agentchat.conversations.errors import UnreadableEvent
from agentchat.gateway.access.checks import may_act
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.owned_run import TraceId, find_owned_run
from agentchat.gateway.services import GatewayServices


@post(
    "/v1/chat/{trace_id:str}/cancel",
    status_code=202,
    operation_id="cancelChat",
    summary="Cancel a run that is under way or queued.",
    guards=[may_act],
)
async def cancel(request: JsonRequest, trace_id: TraceId) -> http.Cancelling:
    """End the run. Its stream ends with the error `cancelled`, a waiting JSON call with 409.

    The text so far is saved. 404 for a run that is not the account's, 409 for one that has ended. A run that
    was about to complete may still complete.
    """
    services = request.services
    found = await find_owned_run(services.pool, request.auth, trace_id)
    has_begun = found.begun_at is not None
    if has_begun:
        request.context.conversation_id = found.conversation_id
    if has_begun and not await services.log.is_under_way(found.conversation_id, trace_id):
        raise Refusal("run_ended")
    cancelled = CancelRequested(trace_id=trace_id, account_id=request.auth.account_id)
    await services.bus.traces.cancel(cancelled)
    if has_begun:
        await _end_pause(services, found.conversation_id, trace_id)
    return http.Cancelling(trace_id=trace_id)


async def _end_pause(services: GatewayServices, conversation_id: str, trace_id: str) -> None:
    """Have a worker end a run that waits for a person: no worker has it that would receive the cancellation.

    Called after the cancellation was sent: a run that begins to wait only now finds that. A run with an event
    that cannot be decoded may wait too; a worker finds out. Raises BusUnavailable, DatabaseUnavailable.
    """
    is_readable = True
    try:
        conversation = await services.log.load_conversation(conversation_id)
    except UnreadableEvent:
        is_readable, conversation = False, await services.log.load_readable_conversation(conversation_id)
    run = conversation.run(trace_id)
    if run is not None and run.state == "running" and (run.pending or not is_readable):
        await services.bus.queues.request_chat(rebuild_request(conversation, run, CANCELLED + run.attempt))
