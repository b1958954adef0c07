"""Join, read again, or resume the stream of a run, at any gateway: GET /v1/chat/{trace_id}/events.

An extension of the specification, whose own streams have no ids (decision 17).
"""

import asyncio
from typing import Annotated

from litestar import get
from litestar.params import HeaderParameter, QueryParameter
from msgspec.structs import replace

from agentchat.contracts import sse_encoder, stream_cursors
from agentchat.contracts.timings import ACCEPT_SECONDS
from agentchat.contracts.updates import Broken
from agentchat.conversations.queries.find_by_trace import FoundRun
from agentchat.gateway.access.checks import may_follow
from agentchat.gateway.access.stream_form import read_stream_form
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.chat import FORMS, StreamForm
from agentchat.gateway.runs.event_stream import EVENTS, EventStream, RunFollower, build_run_refusal
from agentchat.gateway.runs.owned_run import TraceId, find_owned_run, follow_stored_run, make_run_not_found
from agentchat.gateway.runs.submit_request import TURN_SECONDS

LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        description="The id of the last event that was read; the stream continues after it.",
    ),
]
CursorParameter = Annotated[str | None, QueryParameter(description="The same; the header wins.")]


@get(
    "/v1/chat/{trace_id:str}/events",
    media_type="text/event-stream",
    operation_id="chatEvents",
    summary="Join a stream, read it again, or resume one that broke off.",
    responses=EVENTS,
    guards=[may_follow],
)
async def follow_chat(
    request: JsonRequest,
    trace_id: TraceId,
    stream_form: StreamForm = None,  # noqa: ARG001 - read by `read_stream_form`
    last_event_id: LastEventId = None,
    cursor: CursorParameter = None,
) -> EventStream:
    """Stream the run's events, each with an `id:`, from the beginning or after the given id.

    Works at any gateway, for runs of both chat endpoints: as the events come, or later for as long as the
    conversation exists. An id means the same at all gateways and in all forms. Events that a gateway sends
    about itself (`server_shutdown`) have none. 404 for a run that is unknown, erased, or another account's;
    410 for an id of another run.
    """
    services, caller = request.services, request.auth
    if "x-stream-form" in request.headers:
        read_stream_form(request)
    given = (
        last_event_id or ""
    ).strip() or cursor  # a header is from the last connection, a query from the first
    found = await find_owned_run(services.pool, caller, trace_id)
    if found.begun_at is not None:
        request.context.conversation_id = found.conversation_id
    place = stream_cursors.parse_cursor(given, trace_id) if given else None
    if given and place is None:
        raise _make_cursor_expired()
    await request.context.enter(request.services.account_bounds.hold_stream(caller))
    conversation_id, begun_at = found.conversation_id, found.begun_at
    # The form of a request that waits is known later, and may be the one with outputs.
    has_outputs = begun_at is None or _read_form(request, found) == "full"
    if place is not None and not has_outputs:
        place = replace(place, extras=0)
    run = await follow_stored_run(
        request, trace_id, conversation_id, begun_at=begun_at, outputs=has_outputs, cursor=place
    )
    await _wait_until_begun(run, ACCEPT_SECONDS if begun_at else TURN_SECONDS)
    if run.position.is_lost:
        raise _make_cursor_expired()
    if begun_at is None:
        found = await find_owned_run(services.pool, caller, trace_id)
    form = _read_form(request, found)
    request.context.trace_id = trace_id
    encoder = sse_encoder.Encoder(form, conversation_id, trace_id)
    take = run.position.take_marked
    return EventStream(run, lambda: b"".join(entry.encode(form, encoder) for entry in take()))


def _read_form(request: JsonRequest, found: FoundRun) -> sse_encoder.Form:
    """Return the form in the header; without one, that of the run's request, or the deployment's."""
    requested = next((name for name, form in FORMS.items() if form == found.form), None)
    return FORMS[read_stream_form(request, requested)]


async def _wait_until_begun(run: RunFollower, seconds: float) -> None:
    """Wait until the user's message is saved. Raises Refusal."""
    try:
        async with asyncio.timeout(seconds):
            while (first := run.position.first) is None:
                await run.wait()
    except TimeoutError:
        raise Refusal("overloaded", "The run cannot be read just now.") from None
    if isinstance(first, Broken):
        if first.code == "conversation_not_found":  # erased meanwhile
            raise make_run_not_found()
        raise build_run_refusal(first)


def _make_cursor_expired() -> Refusal:
    return Refusal("cursor_expired", "Last-Event-ID does not belong to this run.")
