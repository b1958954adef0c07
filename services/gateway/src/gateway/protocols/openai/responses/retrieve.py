"""GET /openai/v1/responses/{response_id}: a response read again, or its events, from after any of them."""

from datetime import datetime
from typing import Annotated

from litestar import get, post
from litestar.openapi.spec import Example
from litestar.params import PathParameter
from msgspec.structs import replace

from contracts.examples import TRACE
from contracts.messages import CancelRequested
from conversations.aggregate.approvals import wait_of
from conversations.aggregate.canonical_stream import replayed
from conversations.queries.find_run import FoundRun, load_run
from gateway.access.admission import within_read_rate
from gateway.gateway_request import GatewayRequest
from gateway.gateway_services import GatewayServices
from gateway.http import query
from gateway.http.exchange import Exchange
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal, invalid
from gateway.http.strict_json import without_body
from gateway.openapi.described import described, parameter
from gateway.protocols.openai.responses import previous_response, response_output, wire
from gateway.protocols.openai.responses.create import CONTENT
from gateway.runs.after_pause import AfterPause
from gateway.runs.event_stream import EventStream
from gateway.runs.followed_runs import accepts_runs
from gateway.traces.owned_run import follow

_MOST_DIGITS = 15
ResponseId = Annotated[
    str,
    PathParameter(
        description="The response's id.",
        schema_extra={"pattern": "^resp_[0-9a-f]{32}(_[1-9][0-9]{0,8}(_[1-9][0-9]?)?)?$"},
        examples=[Example(value=previous_response.response_id(TRACE))],
    ),
]
_AFTER = "The `sequence_number` to go on after, of a stream."
_PARAMETERS = (
    parameter("query", "stream", "Whether its events are wanted.", enum=["true", "false"]),
    parameter("query", "starting_after", _AFTER, type="integer", minimum=0),
)


@get(
    "/responses/{response_id:str}",
    operation_id="getResponse",
    summary="Get a response again.",
    description="At any gateway, for as long as its conversation exists; its events under way as they come.",
    response_description="The response, as far as it is.",
    guards=[within_read_rate, without_body, accepts_runs],
)
@described("not_found", "conversation_busy", parameters=_PARAMETERS, content=CONTENT)
async def retrieve_response(
    request: GatewayRequest, response_id: ResponseId
) -> JsonAnswer[wire.Response] | EventStream:
    services, exchange = request.services, request.exchange
    streamed, after = _asked(exchange)
    named, found = await previous_response.found_response(services, request.auth, response_id)
    if streamed and found.begun_at is None:
        raise Refusal("conversation_busy", "The response stands in line.")
    if streamed:
        await exchange.enter(services.account_bounds.streaming(request.auth))
    stored, begun, after_pause = await response_of(services, named, found)
    if found.begun_at is None or (not streamed and stored.status != "in_progress"):
        return JsonAnswer(stored)
    place, begun_at = found.conversation_id, found.begun_at
    run = await follow(request, named.trace_id, place, begun_at=begun_at, after_pause=after_pause)
    if not streamed:  # the log has complete rounds only
        return JsonAnswer(response_output.response_of(begun, run.take(), after_pause))
    exchange.answer_as(named.trace_id)
    events = response_output.ResponseOutput(begun, after, after_pause)
    return EventStream(run, lambda: events.encode(run.take()))


async def response_of(
    services: GatewayServices, named: previous_response.Named, found: FoundRun
) -> tuple[wire.Response, wire.Response, AfterPause | None]:
    """A response as far as the log has it, as it began, and the pause after which it begins, if any.

    Raises Refusal: 404; DatabaseUnavailable, UnreadableEvent.
    """
    begun = wire.Response(
        id=previous_response.response_id(named.trace_id, named.pause),
        created_at=found.requested_at or 0,
        status="queued",
        model=found.model or "",
        conversation=wire.ConversationRef(id=previous_response.shown_id(found.conversation_id)),
    )
    if found.begun_at is None:
        return begun, begun, None
    loaded = await load_run(services.pool, named.trace_id)
    if loaded is None:  # erased meanwhile
        raise previous_response.no_such_response()
    _, run = loaded
    created = int(datetime.fromisoformat(run.requested_at).timestamp())
    model = run.requested_model or run.agent_id
    begun = replace(begun, status="in_progress", created_at=created, model=model)
    updates = [*replayed(run), *([wait_of(run)] if run.pending else [])]
    if (after_pause := previous_response.after_pause_of(run, named)) is not None:
        updates = after_pause.rest(updates)
    stored = response_output.response_of(begun, updates, after_pause)
    return stored, begun, previous_response.after_pause_of(run, named)


def _asked(exchange: Exchange) -> tuple[bool, int]:
    """Whether events are wanted, and after which. Raises Refusal."""
    given = query.parameters(exchange, "stream", "starting_after")
    stream, after = given.get("stream", "false"), given.get("starting_after")
    if stream not in ("true", "false"):
        raise invalid("stream", "This must be true or false.")
    if after is None:
        return stream == "true", -1
    if not (after.isascii() and after.isdigit() and len(after) <= _MOST_DIGITS):
        raise invalid("starting_after", "This must be the sequence_number of an event.")
    if stream == "false":
        raise invalid("starting_after", "This is for streams.")
    return True, int(after)


@post(
    "/responses/{response_id:str}/cancel",
    status_code=200,
    operation_id="cancelResponse",
    summary="Cancel a response that is under way or in line.",
    description="The worker is notified, and the response ends soon; one that has ended stays as it is.",
    response_description="The response as it is now.",
    guards=[within_read_rate, without_body],
)
@described("not_found")
async def cancel_response(request: GatewayRequest, response_id: ResponseId) -> wire.Response:
    services = request.services
    named, found = await previous_response.found_response(services, request.auth, response_id)
    response, *_ = await response_of(services, named, found)
    if response.status in ("queued", "in_progress"):
        await services.bus.traces.cancel(
            CancelRequested(trace_id=named.trace_id, account_id=request.auth.account_id)
        )
    return response
