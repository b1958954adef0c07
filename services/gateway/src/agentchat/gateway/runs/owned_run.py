"""Find the caller's run that a path names, and follow it."""

from typing import Annotated

from litestar.params import PathParameter

from agentchat.contracts import ids
from agentchat.contracts.ownership import may_use
from agentchat.contracts.stream_cursors import Cursor
from agentchat.conversations.queries.find_by_trace import FoundRun, find_run
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.after_pause import AfterPause
from agentchat.gateway.runs.event_stream import RunFollower
from agentchat.gateway.runs.run_request import ViewKind
from agentchat.runtime.postgres import Pool

TraceId = Annotated[
    str,
    PathParameter(
        description="The X-Trace-Id of the request that began the run.",
        schema_extra={"pattern": "^[0-9a-f]{32}$"},
    ),
]


async def find_owned_run(pool: Pool, caller: Caller, trace_id: str) -> FoundRun:
    """Find the caller's run or queued request.

    Raises Refusal, in the same words for every reason that it is not found; DatabaseUnavailable.
    """
    is_known = ids.is_trace_id(trace_id)
    found = await find_run(pool, trace_id) if is_known else None
    if found is None or not may_use(caller, found):
        raise make_run_not_found()
    return found


async def follow_stored_run(
    request: JsonRequest,
    trace_id: str,
    conversation_id: str,
    *,
    begun_at: int | None = None,
    outputs: bool = True,
    cursor: Cursor | None = None,
    after_pause: AfterPause | None = None,
) -> RunFollower:
    """Follow a run from its beginning, wherever it stands, until the request has been answered.

    `begun_at`: the version of its conversation with which it begins, if known. Other arguments: as those of
    `FollowedRuns.follow`. Raises Stopping, BusUnavailable.
    """
    run = await request.services.runs.follow(
        trace_id,
        conversation_id,
        ViewKind(outputs=outputs, reasoning=outputs),
        from_beginning=True,
        cursor=cursor,
        after_pause=after_pause,
        after_version=0 if begun_at is None else begun_at - 1,
    )
    request.context.held.push_async_callback(run.aclose)
    return run


def make_run_not_found() -> Refusal:
    """Build the refusal for a run that does not exist, is another account's or user's, or was erased."""
    return Refusal("not_found", "There is no such run.")
