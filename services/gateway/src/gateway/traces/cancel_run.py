"""POST /v1/chat/{trace_id}/cancel: a run is ended, at any gateway."""

from litestar import post

from contracts import http
from contracts.examples import TRACE
from contracts.messages import CancelRequested
from conversations.aggregate.turn import CANCELLED, ask_again
from conversations.errors import UnreadableEvent
from gateway.access.admission import within_read_rate
from gateway.access.auth import KEY, has_key
from gateway.gateway_request import GatewayRequest
from gateway.gateway_services import GatewayServices
from gateway.http.problem_responses import Refusal
from gateway.http.query import known_query
from gateway.http.strict_json import without_body
from gateway.openapi.described import described
from gateway.traces.owned_run import TraceId, run_of


@post(
    "/v1/chat/{trace_id:str}/cancel",
    status_code=202,
    operation_id="cancelChat",
    summary="Cancel a run that is under way or in line.",
    description="Its stream ends with the error `cancelled`, a waiting JSON call with 409 `cancelled`; "
    "the text so far is saved.",
    response_description="It is being cancelled.",
    guards=[has_key, within_read_rate, without_body],
    before_request=known_query,
    security=[KEY],
    tags=["chat"],
)
@described("not_found", "run_ended", examples={"cancelling": http.Cancelling(trace_id=TRACE)})
async def cancel(request: GatewayRequest, trace_id: TraceId) -> http.Cancelling:
    """202 for a run under way or a request in line, 404 for what is not the account's, 409 for what ended.

    The worker that has the run ends it, and the log has how: one that was about to complete may still do so.
    """
    services = request.services
    found = await run_of(services, request.auth, trace_id)
    has_begun = found.begun_at is not None
    if has_begun and not await services.log.is_under_way(found.conversation_id, trace_id):
        raise Refusal("run_ended")
    cancelled = CancelRequested(trace_id=trace_id, account_id=request.auth.account_id)
    await services.bus.traces.cancel(cancelled)
    if has_begun:
        await _end_wait(services, found.conversation_id, trace_id)
    return http.Cancelling(trace_id=trace_id)


async def _end_wait(services: GatewayServices, conversation_id: str, trace_id: str) -> None:
    """Have a worker end a run that waits for a person: no worker has it that would receive the cancellation.

    Called after the cancellation was sent: a run that begins to wait only now finds that. A run with an event
    that cannot be decoded may wait too; a worker finds out. Raises BusUnavailable, DatabaseUnavailable.
    """
    is_readable = True
    try:
        conversation = await services.log.conversation(conversation_id)
    except UnreadableEvent:
        is_readable, conversation = False, await services.log.readable_conversation(conversation_id)
    run = conversation.run(trace_id)
    if run is not None and run.state == "running" and (run.pending or not is_readable):
        await services.bus.queues.request_chat(ask_again(conversation, run, CANCELLED + run.attempt))
