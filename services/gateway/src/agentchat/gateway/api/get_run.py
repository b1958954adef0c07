"""Read the state and the result of a run: GET /v1/chat/{trace_id}."""

from litestar import get

from agentchat.contracts.errors import get_error_code
from agentchat.contracts.run_results import RunError, RunResult, RunStatus, count_tokens
from agentchat.contracts.updates import Broken, Finished
from agentchat.conversations.aggregate.approval_rules import list_client_calls, list_needed_approvals
from agentchat.conversations.aggregate.canonical_stream import (
    build_last_update,
    get_changed_model,
    list_returned_calls,
)
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.gateway.access.checks import may_act
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.owned_run import TraceId, find_owned_run, make_run_not_found


@get(
    "/v1/chat/{trace_id:str}",
    operation_id="getChat",
    summary="Get the state of a run, and its reply once that is there.",
    guards=[may_act],
)
async def get_run(request: JsonRequest, trace_id: TraceId) -> RunResult:
    """Return the run, for as long as its conversation exists.

    404 for a run that is not the account's, and for a queued request that was refused.
    """
    pool = request.services.pool
    found = await find_owned_run(pool, request.auth, trace_id)
    if found.begun_at is None:
        return RunResult(trace_id=trace_id, conversation_id=found.conversation_id, status="queued")
    request.context.conversation_id = found.conversation_id
    loaded = await load_run(pool, trace_id)
    if loaded is None:  # erased meanwhile
        raise make_run_not_found()
    return _build_result(*loaded)


def _build_result(conversation_id: str, run: Run) -> RunResult:
    status: RunStatus = run.state
    if run.pending and run.state == "running":
        status = "requires_action" if list_client_calls(run) else "waiting_for_approval"
    last = None if run.state == "running" else build_last_update(run)
    error = None
    if isinstance(last, Broken):
        error = RunError(code=last.code, message=last.message or get_error_code(last.code).title)
    return RunResult(
        trace_id=run.trace_id,
        conversation_id=conversation_id,
        status=status,
        message=run.reply if isinstance(last, Finished) else None,
        tool_calls=list_returned_calls(run) or None,
        sources=run.sources,
        usage=count_tokens(run.usage),
        model=get_changed_model(run),
        error=error,
        approvals=list_needed_approvals(run) or None,
        client_tool_calls=list_client_calls(run) or None,
        warnings=run.warnings or None,
    )
