"""List, read and decide approvals.

The list comes from a read model and may be a second old; one approval comes from the log.
"""

from typing import Annotated, Literal

import msgspec
from litestar import get, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, PathParameter, QueryParameter

from agentchat.administration.admin_approvals import normalize_decision
from agentchat.contracts import approval_bodies, ids
from agentchat.contracts.values import ApprovalDecision
from agentchat.conversations.queries.find_approvals import list_approvals
from agentchat.gateway.access.checks import may_act, may_read
from agentchat.gateway.http.pagination import Cursor, Limit, NextCursor, decode_position, take_first_page
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.decide_approval import decide, find_owned_approval

ApprovalId = Annotated[
    str,
    PathParameter(description="The id of an approval of the account.", schema_extra={"format": "uuid"}),
]
Status = Literal["pending", ApprovalDecision]
DecisionData = Annotated[
    approval_bodies.DecisionBody,
    BodyKwarg(
        examples=[
            Example(summary="As the model asked", value={"decision": "approved"}),
            Example(
                summary="With another input, complete; or with what an elicitation asks for",
                value={"decision": "approved", "input": {"order_id": "ORD-1001"}},
            ),
            Example(
                summary="Not to be run",
                value={"decision": "denied", "reason": "It has left the warehouse."},
            ),
        ],
    ),
]


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals, the newest first."""

    data: tuple[approval_bodies.ApprovalRecord, ...]
    next_cursor: NextCursor


@get(
    "/v1/approvals",
    operation_id="listApprovals",
    summary="List the tool calls that need approval, the newest first.",
    guards=[may_act],
    opt={"scope": "read"},
)
async def list_of_account(
    request: JsonRequest,
    limit: Limit = 20,
    cursor: Cursor = None,
    status: Annotated[Status | None, QueryParameter(description="Only those of this status.")] = None,
    conversation_id: Annotated[
        str | None, QueryParameter(description="Only those of this conversation.")
    ] = None,
) -> ApprovalPage:
    """Return a page of approvals. The list may lag by a moment; one approval never does."""
    if conversation_id is not None and not ids.is_uuid(conversation_id.lower()):
        raise build_field_refusal("conversation_id", "This must be a UUID.")
    rows = await list_approvals(
        request.services.pool,
        request.auth.account_id,
        user_id=request.auth.user_id,
        status=status,
        conversation_id=conversation_id and conversation_id.lower(),
        after=decode_position(cursor, str),
        limit=limit + 1,
    )
    data, cursor = take_first_page(rows, limit, lambda row: row.id)
    return ApprovalPage(data=data, next_cursor=cursor)


@get(
    "/v1/approvals/{approval_id:str}",
    operation_id="getApproval",
    summary="Get one approval.",
    guards=[may_read],
)
async def get_one(request: JsonRequest, approval_id: ApprovalId) -> approval_bodies.ApprovalRecord:
    """Return one approval as it is now."""
    return (await find_owned_approval(request.services.pool, request.auth, approval_id)).approval


@post(
    "/v1/approvals/{approval_id:str}/decision",
    status_code=200,
    operation_id="decideApproval",
    summary="Approve or deny a tool call, or answer what its tool asks.",
    guards=[may_act],
    opt={"scope": "approve"},
)
async def decide_one(
    request: JsonRequest, approval_id: ApprovalId, data: DecisionData
) -> approval_bodies.ApprovalRecord:
    """Record the decision. Sending the same decision again returns the same response; another is refused.

    After the last decision that a run waits for, the run continues: read it by `GET
    /v1/chat/{trace_id}/events`.
    """
    services, decision = request.services, normalize_decision(data)
    found = await find_owned_approval(services.pool, request.auth, approval_id)
    request.context.conversation_id = found.approval.conversation_id
    await decide(services.bus.rpc, request.auth, found.approval, decision)
    return (await find_owned_approval(services.pool, request.auth, approval_id)).approval
