"""Return the results of a client's tools to the run that waits for them."""

from collections.abc import Sequence

from agentchat.bus.commands import return_tool_results
from agentchat.contracts import ids
from agentchat.contracts.messages import ReturnToolResults
from agentchat.contracts.values import ClientToolResult, Decider
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_approvals import find_requesting_run
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.gateway.http.problems import Refusal, build_field_refusal, check_size
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.owned_run import find_owned_run

MAX_RESULT_BYTES = 256 * 1024


async def return_results(
    request: JsonRequest,
    results: Sequence[ClientToolResult],
    *,
    trace_id: str | None = None,
    agent_id: str | None = None,
) -> tuple[str, Run]:
    """Record the results, unless they are recorded; return the conversation's id and the run.

    The run is found by the ids of its calls. It must have the `trace_id` and be of the agent `agent_id`, if
    given.

    Crosses to the orchestrator: `orchestrator.rpc.record_decision` records them and resumes the run.

    Raises:
        Refusal: 409 if no run of the caller waits for one of them; 400, 413.
        BusUnavailable, DatabaseUnavailable, UnreadableEvent
    """
    services, caller, unknown = request.services, request.auth, build_unknown_call(results[0].id)
    for result in results:
        check_size("results", result.output, MAX_RESULT_BYTES)
    request_id = ids.find_request_id(results[0].id)
    waiting = None if request_id is None else await find_requesting_run(services.pool, request_id)
    if waiting is None or trace_id not in (None, waiting):
        raise unknown
    try:
        found = await find_owned_run(services.pool, caller, waiting)
    except Refusal:
        raise unknown from None
    if agent_id is not None:
        loaded = await load_run(services.pool, waiting)
        if loaded is None or loaded[1].agent_id != agent_id:
            raise unknown
    request.context.conversation_id = found.conversation_id
    answer = await return_tool_results(
        services.bus.rpc,
        ReturnToolResults(
            trace_id=waiting,
            account_id=caller.account_id,
            user_id=caller.user_id,
            conversation_id=found.conversation_id,
            results=tuple(results),
            by=Decider(kind="account", id=caller.key_id),
        ),
    )
    if answer.code == "invalid_request":
        raise build_field_refusal("results", answer.detail or "Some results are missing.")
    if answer.code is not None:
        raise Refusal(answer.code, answer.detail)
    loaded = await load_run(services.pool, waiting)
    if loaded is None:  # erased meanwhile
        raise unknown
    return loaded


async def check_no_run_waits(request: JsonRequest, results: Sequence[ClientToolResult], field: str) -> None:
    """Raise Refusal, 400, if a run waits for these results, which stand before a new message.

    The message would end that run, and the results would be lost. Raises DatabaseUnavailable.
    """
    services = request.services
    for result in results:
        request_id = ids.find_request_id(result.id)
        waiting = None if request_id is None else await find_requesting_run(services.pool, request_id)
        loaded = None if waiting is None else await load_run(services.pool, waiting)
        if loaded is None or result.id not in {call.call_id for call in loaded[1].pending}:
            continue
        try:
            await find_owned_run(services.pool, request.auth, loaded[1].trace_id)
        except Refusal:  # somebody else's
            continue
        message = f"Send only the result of {result.id}, and the new message after the reply to it."
        raise build_field_refusal(field, message)


def list_request_ids(results: Sequence[ClientToolResult]) -> list[str]:
    """Return the ids of the requests for these results."""
    return [found for each in results if (found := ids.find_request_id(each.id)) is not None]


def build_unknown_call(call_id: str) -> Refusal:
    """Build the refusal of a result for a call that does not exist, or is somebody else's."""
    return Refusal("tool_result_conflict", f"No tool call {call_id[:100]} waits for a result.")
