"""A run that waits for a person goes on: what is decided about its calls comes by the protocol that requested
the run.

A repeated decision is safe: the run is then sent again from after its wait, whatever its state.
"""

from conversations.aggregate.approvals import needed
from conversations.aggregate.conversation import Run
from conversations.claims.idempotency import Claim
from conversations.queries.find_run import load_run
from directory.caller import Caller
from gateway.approvals.decide_approval import decide, owned, storable
from gateway.chat.admitted_request import AdmittedRequest
from gateway.chat.launch_run import has_begun, wait_for
from gateway.chat.run_request import RunRequest
from gateway.gateway_services import GatewayServices
from gateway.http.problem_responses import Refusal
from gateway.runs.after_pause import AfterPause, PausePoint
from gateway.runs.followed_run import RunFollower
from gateway.traces.owned_run import follow

REFUSALS = ("not_found", "approval_forbidden", "approval_decided", "approval_expired")
"""What a decision is refused with."""

_MOST = 64
_TOO_LATE = ("approval_expired", "approval_decided")


async def resume(request: AdmittedRequest, requested: RunRequest) -> tuple[Claim, RunFollower, AfterPause]:
    """Have it decided as `requested` has it, and follow the run from after its wait until it has been
    answered.

    Its place among the account's runs is for the worker to take. Raises Refusal, ClientGone, BusUnavailable,
    DatabaseUnavailable, UnreadableEvent.
    """
    services, exchange, caller = request.services, request.exchange, request.auth
    await request.slot.give_back()
    async with services.account_bounds.reading(caller):
        conversation_id, run = await _decided(services, caller, requested)
    after_pause = AfterPause(run, max(_wait_of(run, verdict.approval_id) for verdict in requested.verdicts))
    await exchange.enter(services.account_bounds.streaming(caller))
    live = await follow(request, run.trace_id, conversation_id, after_pause=after_pause)
    exchange.answer_as(run.trace_id)
    while not has_begun(live):
        await wait_for(live)
    claim = Claim(
        account_id=caller.account_id,
        key_hash="",
        trace_id=run.trace_id,
        conversation_id=conversation_id,
        publication=1,
        mine=False,
        seconds=0.0,
        now=caller.now,
    )
    return claim, live, after_pause


async def _decided(services: GatewayServices, caller: Caller, requested: RunRequest) -> tuple[str, Run]:
    """The run with its conversation, once all is decided that was asked for. Raises as `resume`."""
    if len(requested.verdicts) > _MOST:
        raise Refusal("invalid_request", f"More than {_MOST} decisions are sent at once.")
    found = [(await owned(services, caller, verdict.approval_id)).approval for verdict in requested.verdicts]
    if len({approval.trace_id for approval in found}) > 1:
        raise Refusal("invalid_request", "These decisions are of several runs.")
    if any(approval.agent_id != requested.agent_id for approval in found):
        raise Refusal("not_found", "There is no such approval of this agent.")
    if requested.decides_all:
        _, run = await _loaded(services, found[0].trace_id)
        if missing := {approval.id for approval in needed(run)} - {approval.id for approval in found}:
            raise Refusal("invalid_request", f"Of what the run waits for, {', '.join(missing)} is missing.")
    for verdict, approval in zip(requested.verdicts, found, strict=True):
        try:
            await decide(services, caller, approval, storable(verdict.body))
        except Refusal as refusal:
            if not (verdict.is_dismissal and refusal.row.code in _TOO_LATE):
                raise
    return await _loaded(services, found[0].trace_id)


async def _loaded(services: GatewayServices, trace_id: str) -> tuple[str, Run]:
    loaded = await load_run(services.pool, trace_id)
    if loaded is None:  # erased meanwhile
        raise Refusal("not_found", "There is no such approval.")
    return loaded


def _wait_of(run: Run, approval_id: str) -> PausePoint:
    return next(
        PausePoint(each.number, approval.wait)
        for each in run.rounds
        for call in each.calls
        for approval in call.approvals
        if approval.id == approval_id.lower()
    )
