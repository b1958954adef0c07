"""Resume a run that waits: decisions and tool results come by the protocol that started it.

Repeating them is safe: the run is then streamed again from after its pause, whatever its state.
"""

from collections.abc import Sequence

from agentchat.contracts import wire
from agentchat.conversations.aggregate.approval_rules import list_needed_approvals
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.idempotency.idempotency_keys import Claim
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.gateway.access.authentication import check_scope
from agentchat.gateway.access.checks import get_admitted
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, JsonRequest
from agentchat.gateway.runs.after_pause import AfterPause, PausePoint
from agentchat.gateway.runs.decide_approval import clean_decision, decide, find_owned_approval
from agentchat.gateway.runs.owned_run import follow_stored_run
from agentchat.gateway.runs.return_results import list_request_ids, return_results
from agentchat.gateway.runs.run_request import RunRequest
from agentchat.gateway.runs.submit_request import StartedRun, submit_request
from agentchat.runtime.postgres import Pool

_MAX_DECISIONS = 64
_TOO_LATE = ("approval_expired", "approval_decided")


async def submit_or_resume(request: JsonRequest, run_request: RunRequest) -> StartedRun:
    """Submit a request, or resume the run that it decides about. Raises as `submit_request`."""
    if run_request.verdicts or run_request.tool_results:
        if len(wire.encode((run_request.verdicts, run_request.tool_results))) > MAX_BODY_BYTES:
            raise Refusal("message_too_large", f"The results have more than {MAX_BODY_BYTES} bytes.")
        return await resume_run(request, run_request)
    return await submit_request(request, run_request)


async def resume_run(request: JsonRequest, run_request: RunRequest) -> StartedRun:
    """Record the decisions or the tool results, then follow the resumed run.

    Its place among the account's runs is for the worker to take.

    Raises Refusal, BusUnavailable, DatabaseUnavailable, UnreadableEvent.
    """
    caller, results = request.auth, run_request.tool_results
    if not results:
        check_scope(caller, "approve")
    await get_admitted(request).slot.give_back()
    async with request.services.account_bounds.hold_read(caller):
        if results:
            conversation_id, run = await return_results(request, results, agent_id=run_request.agent_id)
            request_ids = list_request_ids(results)
        else:
            conversation_id, run = await _decide_all(request, run_request)
            request_ids = [verdict.approval_id.lower() for verdict in run_request.verdicts]
    return await follow_resumed_run(request, conversation_id, run, request_ids)


async def follow_resumed_run(
    request: JsonRequest, conversation_id: str, run: Run, request_ids: Sequence[str]
) -> StartedRun:
    """Follow a run from after the pause for these requests: approvals, or calls of a client's tools.

    Raises Refusal, BusUnavailable, UnreadableEvent.
    """
    caller = request.auth
    after_pause = AfterPause(run, max(_pause_of(run, each) for each in request_ids))
    await request.context.enter(request.services.account_bounds.hold_stream(caller))
    follower = await follow_stored_run(request, run.trace_id, conversation_id, after_pause=after_pause)
    request.context.trace_id = run.trace_id
    await follower.wait_until_saved()
    claim = Claim(
        account_id=caller.account_id,
        trace_id=run.trace_id,
        conversation_id=conversation_id,
        now=caller.now,
        mine=False,
    )
    return StartedRun(claim, follower, after_pause)


async def _decide_all(request: JsonRequest, run_request: RunRequest) -> tuple[str, Run]:
    """Return the run with its conversation, once every decision is recorded. Raises as `resume_run`."""
    services, caller, verdicts = request.services, request.auth, run_request.verdicts
    if len(verdicts) > _MAX_DECISIONS:
        raise Refusal("invalid_request", f"Send at most {_MAX_DECISIONS} decisions at once.")
    found = [
        (await find_owned_approval(services.pool, caller, verdict.approval_id)).approval
        for verdict in verdicts
    ]
    request.context.conversation_id = found[0].conversation_id
    if len({approval.trace_id for approval in found}) > 1:
        raise Refusal("invalid_request", "These decisions are of several runs.")
    if any(approval.agent_id != run_request.agent_id for approval in found):
        raise Refusal("not_found", "There is no such approval of this agent.")
    if run_request.decides_all:
        _, run = await _load(services.pool, found[0].trace_id)
        if missing := {approval.id for approval in list_needed_approvals(run)} - {
            approval.id for approval in found
        }:
            raise Refusal("invalid_request", f"The run also waits for {', '.join(missing)}.")
    for verdict, approval in zip(verdicts, found, strict=True):
        try:
            await decide(services.bus.rpc, caller, approval, clean_decision(verdict.body))
        except Refusal as refusal:
            if not (verdict.is_dismissal and refusal.row.code in _TOO_LATE):
                raise
    return await _load(services.pool, found[0].trace_id)


async def _load(pool: Pool, trace_id: str) -> tuple[str, Run]:
    loaded = await load_run(pool, trace_id)
    if loaded is None:  # erased meanwhile
        raise Refusal("not_found", "There is no such approval.")
    return loaded


def _pause_of(run: Run, approval_id: str) -> PausePoint:
    return next(
        PausePoint(each.number, approval.wait)
        for each in run.rounds
        for call in each.calls
        for approval in call.approvals
        if approval.id == approval_id
    )
