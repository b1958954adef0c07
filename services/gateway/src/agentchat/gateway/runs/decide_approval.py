"""Decide about a tool call as the holder of a key of its account, whatever a body says."""

from agentchat.administration.admin_approvals import normalize_decision
from agentchat.administration.checked_input import validate
from agentchat.bus.commands import decide_approval
from agentchat.bus.rpc import Rpc
from agentchat.contracts import approval_bodies, ids
from agentchat.contracts.messages import DecideApproval
from agentchat.contracts.ownership import may_use
from agentchat.contracts.values import Decider
from agentchat.conversations.queries.find_approvals import FoundApproval, find_approval
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.runtime import failpoints
from agentchat.runtime.postgres import Pool


async def find_owned_approval(pool: Pool, caller: Caller, approval_id: str) -> FoundApproval:
    """Find the caller's approval. Raises Refusal, with one message for every reason; DatabaseUnavailable."""
    approval_id = approval_id.lower()
    found = await find_approval(pool, approval_id) if ids.is_uuid(approval_id) else None
    if found is None or not may_use(caller, found):
        raise Refusal("not_found", "There is no such approval.")
    return found


async def decide(
    rpc: Rpc,
    caller: Caller,
    approval: approval_bodies.ApprovalRecord,
    body: approval_bodies.DecisionBody,
) -> None:
    """Record the decision, unless there is one. Raises Refusal, BusUnavailable.

    Crosses to the orchestrator: `orchestrator.rpc.record_decision` records it and, after the last one,
    resumes the run.
    """
    failpoints.reach("gateway-before-decision")
    answer = await decide_approval(
        rpc,
        DecideApproval(
            trace_id=approval.trace_id,
            account_id=caller.account_id,
            user_id=caller.user_id,
            conversation_id=approval.conversation_id,
            approval_id=approval.id,
            decision=body.decision,
            by=Decider(kind="account", id=caller.key_id),
            on_behalf_of=body.on_behalf_of,
            input=body.input,
            reason=body.reason,
        ),
    )
    failpoints.reach("gateway-decided")
    if answer.code == "invalid_request":
        raise build_field_refusal("input", answer.detail or "It does not fit the tool.")
    if answer.code is not None:
        raise Refusal(answer.code, answer.detail)


def clean_decision(body: approval_bodies.DecisionBody) -> approval_bodies.DecisionBody:
    """Return the decision as it can be stored. Raises Invalid."""
    return normalize_decision(validate(body))
