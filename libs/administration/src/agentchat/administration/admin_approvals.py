"""List the tool calls of all accounts that need approval, and decide about them as an operator."""

from typing import get_args

import msgspec

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Page
from agentchat.administration.approval_details import (
    ApprovalDetails,
    build_details,
    find_tools_hash,
    get_asking_tool,
)
from agentchat.administration.checked_input import parse_id, validate
from agentchat.administration.query_parameters import After, Limit, OfAccount, OfConversation, OfStatus
from agentchat.administration.row_pages import build_page
from agentchat.bus.commands import decide_approval
from agentchat.contracts import approval_bodies
from agentchat.contracts.admin_errors import Disallowed, Invalid, NotFound, Unavailable
from agentchat.contracts.messages import DecideApproval
from agentchat.contracts.text_checks import clean_json, clean_text
from agentchat.contracts.values import ApprovalDecision, Decider
from agentchat.conversations.queries.find_approvals import FoundApproval, find_approval, list_approvals
from agentchat.conversations.queries.find_tool import find_tool

STATES: tuple[str, ...] = ("pending", *get_args(ApprovalDecision))
_MOST_SAME = 101


async def page(
    admin: Admin,
    *,
    status: OfStatus | None = None,
    account_id: OfAccount | None = None,
    conversation_id: OfConversation | None = None,
    after: After | None = None,
    limit: Limit = 20,
) -> Page[approval_bodies.ApprovalRecord]:
    """List the tool calls that need approval, the newest first. Raises Invalid, Unavailable."""
    if status is not None and status not in STATES:
        raise Invalid("status", f"must be one of {', '.join(STATES)}")
    with translate_errors():
        rows = await list_approvals(
            admin.pool,
            account_id,
            status=status,
            conversation_id=conversation_id,
            account_ids=admin.account_ids,
            after=after,
            limit=limit + 1,
        )
    return build_page(rows, limit)


async def get(admin: Admin, approval_id: str) -> ApprovalDetails:
    """Get an approval with its tool, others like it, and the result. Raises NotFound, Unavailable."""
    found = await _find(admin, approval_id)
    tool, sha256, spec = found.approval.tool, find_tools_hash(found), get_asking_tool(found)
    with translate_errors():
        if spec is None and sha256 is not None:
            spec = await find_tool(admin.pool, found.approval.conversation_id, sha256, tool.name)
        pending = await list_approvals(
            admin.pool, found.account_id, status="pending", tool=tool.name, limit=_MOST_SAME
        )
    return build_details(found, spec, pending)


async def decide(admin: Admin, approval_id: str, body: approval_bodies.DecisionBody) -> ApprovalDetails:
    """Approve or deny a tool call, whatever its agent's `approvers` are.

    Raises NotFound, Invalid, Disallowed, Unavailable.
    """
    body = normalize_decision(validate(body))
    found = await _find(admin, approval_id)
    command = DecideApproval(
        trace_id=found.approval.trace_id,
        account_id=found.account_id,
        conversation_id=found.approval.conversation_id,
        approval_id=found.approval.id,
        by=Decider(kind="operator", id=admin.actor),
        **msgspec.structs.asdict(body),
    )
    with translate_errors():
        answer = await decide_approval(admin.need_bus().rpc, command)
    if answer.code == "overloaded":
        raise Unavailable(answer.detail or "it cannot be decided just now")
    if answer.code == "invalid_request":
        raise Invalid("input", answer.detail or "does not fit the tool")
    if answer.code is not None:
        raise Disallowed(answer.code)
    return await get(admin, approval_id)


def normalize_decision(body: approval_bodies.DecisionBody) -> approval_bodies.DecisionBody:
    """Replace characters of a decision that cannot be stored. Raises Invalid."""
    if body.input is not None and body.decision == "denied":
        raise Invalid("input", "must be left out of a denial")
    return msgspec.structs.replace(
        body,
        input=None if body.input is None else clean_json(body.input),
        reason=body.reason and clean_text(body.reason),
        on_behalf_of=body.on_behalf_of and clean_text(body.on_behalf_of),
    )


async def _find(admin: Admin, approval_id: str) -> FoundApproval:
    approval_id = parse_id("approval", approval_id)
    with translate_errors():
        found = await find_approval(admin.pool, approval_id)
    if found is None:
        raise NotFound("approval", approval_id)
    return found
