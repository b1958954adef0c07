"""The run that a path names, if it is the caller's, and how it is followed."""

from typing import Annotated

from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts import ids
from contracts.cursors import Cursor
from contracts.examples import TRACE
from conversations.queries.find_run import FoundRun, find_run
from directory.caller import Caller
from gateway.gateway_request import GatewayRequest
from gateway.gateway_services import GatewayServices
from gateway.http.problem_responses import Refusal
from gateway.runs.after_pause import AfterPause
from gateway.runs.followed_run import RunFollower

TraceId = Annotated[
    str,
    PathParameter(
        description="The X-Trace-Id of the request that began the run.",
        schema_extra={"pattern": "^[0-9a-f]{32}$"},
        examples=[Example(value=TRACE)],
    ),
]


async def run_of(parts: GatewayServices, caller: Caller, trace_id: str) -> FoundRun:
    """The caller's run or request in line.

    Raises Refusal, in the same words for every reason that it is not found; DatabaseUnavailable.
    """
    known = ids.is_trace_id(trace_id)
    found = await find_run(parts.pool, trace_id) if known else None
    if found is None or found.account_id != caller.account_id:
        raise no_such_run()
    return found


async def follow(
    request: GatewayRequest,
    trace_id: str,
    conversation_id: str,
    *,
    begun_at: int | None = None,
    outputs: bool = True,
    cursor: Cursor | None = None,
    after_pause: AfterPause | None = None,
) -> RunFollower:
    """Follow a run from its beginning, wherever it stands, until the request has been answered.

    `begun_at`: the version of its conversation with which it begins, if known; the rest as `Runs.follow` has
    it. Raises Stopping, BusUnavailable.
    """
    following = request.services.runs.follow(
        trace_id,
        conversation_id,
        streaming=True,
        outputs=outputs,
        from_beginning=True,
        cursor=cursor,
        after_pause=after_pause,
        after_version=0 if begun_at is None else begun_at - 1,
    )
    run = await request.exchange.enter(following)
    request.exchange.watch(run.leave)
    return run


def no_such_run() -> Refusal:
    """The answer for a run that does not exist, is another account's, or was erased."""
    return Refusal("not_found", "There is no such run.")
