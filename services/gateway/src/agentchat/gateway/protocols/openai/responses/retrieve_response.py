"""Read a response again, or its events after a number: GET /openai/v1/responses/{response_id}."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from litestar import Response, get, post
from litestar.params import PathParameter, QueryParameter
from msgspec.structs import replace

from agentchat.contracts.messages import CancelRequested
from agentchat.contracts.updates import Update
from agentchat.conversations.aggregate.approval_rules import build_pause
from agentchat.conversations.aggregate.canonical_stream import has_reasoning, replay_updates
from agentchat.conversations.queries.find_by_trace import FoundRun, load_run
from agentchat.directory.agent_config import is_reasoning_shown
from agentchat.gateway.access.checks import may_act_as_openai
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.openai.responses import previous_response, response_output, response_types
from agentchat.gateway.runs.after_pause import AfterPause, cut_at_client_pause
from agentchat.gateway.runs.event_stream import STREAM_HEADERS, EventStream
from agentchat.gateway.runs.owned_run import follow_stored_run
from agentchat.runtime.postgres import Pool

ResponseId = Annotated[str, PathParameter(description="The response's id.")]
Stream = Annotated[bool, QueryParameter(description="Whether its events are wanted.")]
StartingAfter = Annotated[
    int | None,
    QueryParameter(description="The `sequence_number` to continue after, of a stream.", ge=0, lt=10**15),
]


@get(
    "/responses/{response_id:str}",
    operation_id="getResponse",
    summary="Get a response again, or its events.",
    guards=[may_act_as_openai],
)
async def retrieve_response(
    request: JsonRequest,
    response_id: ResponseId,
    stream: Stream = False,
    starting_after: StartingAfter = None,
) -> Response[response_types.Response]:
    """Return the response, or stream its events, at any gateway, for as long as its conversation exists."""
    pool = request.services.pool
    if starting_after is not None and not stream:
        raise build_field_refusal("starting_after", "`starting_after` requires `stream=true`.")
    named, found = await previous_response.find_response(pool, request.auth, response_id)
    if stream and found.begun_at is None:
        raise Refusal("conversation_busy", "The response is queued.")
    if stream:
        await request.context.enter(request.services.account_bounds.hold_stream(request.auth))
    after = -1 if starting_after is None else starting_after
    stored = await _load_response(pool, named, found)
    begun, after_pause = stored.begun, stored.after_pause
    if found.begun_at is None or (not stream and stored.response.status != "in_progress"):
        return Response(stored.response)
    if stored.is_paused:  # the run may have gone on, in another response
        events = response_output.ResponseOutput(begun, after, after_pause).encode(stored.updates)
        rest: Response[Any] = Response(events, headers=STREAM_HEADERS)
        return rest
    conversation_id, begun_at = found.conversation_id, found.begun_at
    run = await follow_stored_run(
        request, named.trace_id, conversation_id, begun_at=begun_at, after_pause=after_pause
    )
    if not stream:  # the log has complete rounds only
        return Response(response_output.build_response(begun, run.take(), after_pause))
    request.context.trace_id = named.trace_id
    output = response_output.ResponseOutput(begun, after, after_pause)
    return EventStream(run, lambda: output.encode(run.take()))


@post(
    "/responses/{response_id:str}/cancel",
    status_code=200,
    operation_id="cancelResponse",
    summary="Cancel a response that is under way or queued.",
    guards=[may_act_as_openai],
)
async def cancel_response(request: JsonRequest, response_id: ResponseId) -> response_types.Response:
    """Cancel the response. One that has ended stays as it is."""
    services = request.services
    named, found = await previous_response.find_response(services.pool, request.auth, response_id)
    response = (await _load_response(services.pool, named, found)).response
    if response.status in ("queued", "in_progress"):
        await services.bus.traces.cancel(
            CancelRequested(trace_id=named.trace_id, account_id=request.auth.account_id)
        )
    return response


class StoredResponse(NamedTuple):
    """A response as far as the log has it.

    `begun` is the response as it began, after the pause `after_pause`, if any. `is_paused`: it ended with
    calls of the client's tools.
    """

    response: response_types.Response
    begun: response_types.Response
    after_pause: AfterPause | None = None
    updates: Sequence[Update] = ()
    is_paused: bool = False


async def _load_response(pool: Pool, named: previous_response.Named, found: FoundRun) -> StoredResponse:
    """Load a response.

    Raises Refusal: 404; DatabaseUnavailable, UnreadableEvent.
    """
    begun = response_types.Response(
        id=previous_response.build_response_id(named.trace_id, named.pause),
        created_at=found.requested_at or 0,
        status="queued",
        model=found.model or "",
        conversation=response_types.ConversationRef(
            id=previous_response.encode_conversation_id(found.conversation_id)
        ),
    )
    if found.begun_at is None:
        return StoredResponse(begun, begun)
    loaded = await load_run(pool, named.trace_id)
    if loaded is None:  # erased meanwhile
        raise previous_response.make_response_not_found()
    _, run = loaded
    created = int(datetime.fromisoformat(run.requested_at).timestamp())
    model = run.requested_model or run.agent_id
    begun = replace(begun, status="in_progress", created_at=created, model=model)
    paused = cut_at_client_pause(run, named.pause)
    shown = paused or run
    shows_reasoning = has_reasoning(run) and await is_reasoning_shown(pool, run.agent_id)
    updates = [
        *replay_updates(shown, reasoning=shows_reasoning),
        *([build_pause(shown)] if shown.pending else []),
    ]
    if (after_pause := previous_response.find_pause(run, named)) is not None:
        updates = after_pause.take_rest(updates)
    stored = response_output.build_response(begun, updates, after_pause)
    after_pause = previous_response.find_pause(run, named)
    return StoredResponse(stored, begun, after_pause, updates, is_paused=paused is not None)
