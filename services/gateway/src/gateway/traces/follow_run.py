"""GET /v1/chat/{trace_id}/events: a stream is joined, read again, or resumed, at any gateway.

An extension next to the specification's POST, whose streams stay without ids (decision 17).
"""

import asyncio
from typing import Any

from litestar import get

from contracts import cursors, sse
from contracts.cursors import CURSOR_PATTERN
from contracts.examples import CONVERSATION, MESSAGE, TOOL_CALL, TRACE
from contracts.timings import ACCEPT_SECONDS
from contracts.updates import Broken, Finished, Started, Text, ToolStarted, Update
from conversations.queries.find_run import FoundRun
from gateway.access.admission import within_read_rate
from gateway.access.auth import KEY, has_key
from gateway.chat.launch_run import TURN_SECONDS, refused_by, wait_for
from gateway.gateway_request import GatewayRequest
from gateway.http import query
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal, invalid
from gateway.http.query import known_query
from gateway.http.strict_json import without_body
from gateway.openapi.described import described, parameter
from gateway.openapi.openapi_schemas import EVENT
from gateway.protocols.chat import STREAM_FORM, check_plan, default_form, form_of
from gateway.runs.event_stream import EventStream
from gateway.runs.followed_run import RunFollower
from gateway.runs.followed_runs import accepts_runs
from gateway.runs.run_updates import UpdateHistory
from gateway.traces.owned_run import TraceId, follow, no_such_run, run_of

CURSOR_HEADER = "Last-Event-ID"


_LAST_EVENT_ID = "The id of the last event that was read; the stream goes on after it."
_PARAMETERS = (
    {**STREAM_FORM, "description": "As for the stream; without it the form that the run was asked in."},
    parameter("header", CURSOR_HEADER, _LAST_EVENT_ID, pattern=CURSOR_PATTERN),
    parameter("query", "cursor", "The same; the header wins.", pattern=CURSOR_PATTERN),
)
_EVENT: dict[str, Any] = {
    **EVENT,
    "description": "One event: a line with its id, and one of JSON. Lines that begin with a colon are to be "
    "ignored.",
    "properties": {"id": {"type": "string"}, **EVENT["properties"]},
}
_UPDATES: tuple[Update, ...] = (
    Started(),
    ToolStarted("call_1", TOOL_CALL.name, TOOL_CALL.input),
    Text("It has "),
    Text("shipped."),
    Finished(MESSAGE, (TOOL_CALL,)),
)


def _example(form: sse.Form) -> str:
    updates, encoder = UpdateHistory(), sse.Encoder(form, CONVERSATION, TRACE)
    updates.add(_UPDATES)
    return b"".join(entry.data(form, encoder) for entry in updates.entries).decode()


@get(
    "/v1/chat/{trace_id:str}/events",
    media_type="text/event-stream",
    operation_id="chatEvents",
    summary="Join a stream, read it again, or go on with one that broke off.",
    description="For a run of either chat endpoint, at any gateway. An id means the same everywhere and "
    "in both forms. What a gateway says of itself (`server_shutdown`) has none.",
    response_description="The events of the run, each with a line `id:` before its data: under way as they "
    "come, then for as long as the conversation exists. Nothing where the cursor is that of the last event.",
    guards=[has_key, within_read_rate, without_body, accepts_runs],
    before_request=known_query,
    security=[KEY],
    tags=["chat"],
)
@described(
    *("plan_upgrade_required", "not_found", "conversation_busy", "cursor_expired", "server_shutdown"),
    parameters=_PARAMETERS,
    content={"text/event-stream": _EVENT},
    examples={"form 1": _example("form1"), "form 2": _example("form2")},
)
async def events(request: GatewayRequest, trace_id: TraceId) -> EventStream:
    """The run's events, each with the id of the place after it, from the beginning or from after a cursor.

    404 for what is not the account's, is unknown or erased; 410 for a cursor that is no place in this run.
    """
    services, exchange, caller = request.services, request.exchange, request.auth
    asked = form_of(exchange)
    check_plan(asked, caller)
    given = _cursor(exchange)
    found = await run_of(services, caller, trace_id)
    cursor = cursors.parse_cursor(given, trace_id) if given else None
    if given and cursor is None:
        raise _expired()
    await exchange.enter(services.account_bounds.streaming(caller))
    place = found.conversation_id
    run = await follow(request, trace_id, place, begun_at=found.begun_at, outputs=False, cursor=cursor)
    await _begun(run, ACCEPT_SECONDS if found.begun_at else TURN_SECONDS)
    if run.position.is_lost:
        raise _expired()
    form = asked or await _first_form(request, trace_id, found)
    check_plan(form, caller)
    exchange.answer_as(trace_id)
    encoder = sse.Encoder(form, found.conversation_id, trace_id)
    take = run.position.take_marked
    return EventStream(run, lambda: b"".join(entry.data(form, encoder) for entry in take()))


async def _first_form(request: GatewayRequest, trace_id: str, found: FoundRun) -> sse.Form:
    """That of the request that began the run; the deployment's where that requested none of our streams."""
    if found.form is None:  # it was in line
        found = await run_of(request.services, request.auth, trace_id)
    default = default_form(request.services.stream_form)
    return next((form for form in sse.FORMS if form == found.form), default)


async def _begun(run: RunFollower, seconds: float) -> None:
    """Wait until the user's message is saved. Raises Refusal, ClientGone."""
    try:
        async with asyncio.timeout(seconds):
            while (first := run.position.first) is None:
                await wait_for(run)
    except TimeoutError:
        raise Refusal("overloaded", "The run cannot be read just now.") from None
    if isinstance(first, Broken):
        if first.code == "conversation_not_found":  # erased meanwhile
            raise no_such_run()
        raise refused_by(first)


def _cursor(exchange: Exchange) -> str:
    """The cursor that was sent, "" for none. A header is from the last connection, a query from the first.

    Raises Refusal.
    """
    header = exchange.header(CURSOR_HEADER.lower().encode())
    if len(header) > 1:
        raise invalid(CURSOR_HEADER, "This header is given twice.")
    given = query.parameters(exchange, "cursor").get("cursor", "")
    return (header[0].decode("latin-1").strip() if header else "") or given


def _expired() -> Refusal:
    return Refusal("cursor_expired", "This is no place in the stream of this run.")
