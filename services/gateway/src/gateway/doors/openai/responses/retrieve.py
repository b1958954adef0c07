"""GET /openai/v1/responses/{response_id}: a response read again, or its events, from behind any of them."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts.examples import TRACE
from conversations.aggregate.canonical_stream import replayed
from conversations.queries.find_run import Found, load_run
from directory.caller import Caller
from gateway.access.admission import within_read_rate
from gateway.access.auth import provide_caller
from gateway.doors.openai.completions import has_bearer_key
from gateway.doors.openai.description import SECURITY, TAG
from gateway.doors.openai.responses import output, wire
from gateway.doors.openai.responses.conversation import found_response, response_id, shown_id
from gateway.doors.openai.responses.description import CONTENT
from gateway.http import query
from gateway.http.exchange import Exchange, of
from gateway.http.problems import Refusal, invalid
from gateway.http.responses import Answer
from gateway.http.strict_json import without_body
from gateway.openapi.described import described
from gateway.parts import Parts, parts_of
from gateway.runs.event_stream import EventStream
from gateway.runs.registry import accepts_runs

_MOST_DIGITS = 15
ResponseId = Annotated[
    str,
    PathParameter(
        description="The response's id.",
        schema_extra={"pattern": "^resp_[0-9a-f]{32}$"},
        examples=[Example(value=response_id(TRACE))],
    ),
]
_PARAMETERS = (
    {
        "name": "stream",
        "in": "query",
        "description": "Whether its events are wanted.",
        "schema": {"enum": ["true", "false"]},
    },
    {
        "name": "starting_after",
        "in": "query",
        "description": "The `sequence_number` to go on behind, of a stream.",
        "schema": {"type": "integer", "minimum": 0},
    },
)


@get(
    "/openai/v1/responses/{response_id:str}",
    operation_id="getResponse",
    summary="Get a response again.",
    description="At any gateway, for as long as its conversation exists; its events under way as they come.",
    response_description="The response, as far as it is.",
    guards=[has_bearer_key, within_read_rate, without_body, accepts_runs],
    dependencies={"caller": Provide(provide_caller, sync_to_thread=False)},
    security=[SECURITY],
    tags=[TAG["name"]],
)
@described("not_found", "conversation_busy", parameters=_PARAMETERS, content=CONTENT)
async def retrieve_response(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], response_id: ResponseId
) -> Answer[wire.Response] | EventStream:
    """404 for what is not the account's, is unknown or erased."""
    parts, exchange = parts_of(request), of(request.scope)
    streamed, after = _asked(exchange)
    trace_id, found = await found_response(parts, caller, response_id)
    if not streamed:
        return Answer(await response_of(parts, trace_id, found))
    if found.begun_at is None:
        raise Refusal("conversation_busy", "The response stands in line.")
    await exchange.enter(parts.account_bounds.streaming(caller))
    following = parts.runs.follow(
        trace_id,
        found.conversation_id,
        streaming=True,
        outputs=True,
        from_beginning=True,
        after_version=found.begun_at - 1,
    )
    run = await exchange.enter(following)
    exchange.watch(run.leave)
    exchange.answer_as(trace_id)
    begun = await response_of(parts, trace_id, found, begun_only=True)
    events = output.Output(begun, after)
    return EventStream(run, lambda: events.encode(run.take()))


async def response_of(
    parts: Parts, trace_id: str, found: Found, *, begun_only: bool = False
) -> wire.Response:
    """A response as far as the log has it. Raises Refusal: 404; StoreUnavailable, UnreadableEvent."""
    loaded = None if found.begun_at is None else await load_run(parts.pool, trace_id)
    if loaded is None and found.begun_at is not None:  # erased meanwhile
        raise Refusal("not_found", "There is no such response.")
    response = wire.Response(
        id=response_id(trace_id),
        created_at=0 if loaded is None else int(datetime.fromisoformat(loaded[1].requested_at).timestamp()),
        status="queued" if loaded is None else "in_progress",
        model="" if loaded is None else loaded[1].agent_id,
        conversation=wire.ConversationRef(id=shown_id(found.conversation_id)),
    )
    return response if loaded is None or begun_only else output.response_of(response, replayed(loaded[1]))


def _asked(exchange: Exchange) -> tuple[bool, int]:
    """Whether events are wanted, and behind which. Raises Refusal."""
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
