"""What waits for a person: lists from the read model, one approval from the log itself, and decisions.

A list may lag by the projector's second; a single approval never does.
"""

from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, PathParameter

from administration.admin_approvals import STATES, fit
from contracts import http, ids
from contracts.examples import AGENT, APPROVAL, AT, CONVERSATION, KEY, TRACE
from contracts.values import Decider, Elicitation
from conversations.queries.finding_approvals import list_approvals
from gateway.access.account_bounds import within_reads_at_once
from gateway.access.admission import within_read_rate
from gateway.access.auth import KEY as SECURITY
from gateway.access.auth import has_key
from gateway.approvals import decide_approval
from gateway.approvals.decide_approval import owned
from gateway.gateway_request import GatewayRequest
from gateway.http import query
from gateway.http.paging import NextCursor, PageRequest, next_cursor, paged_by
from gateway.http.problem_responses import invalid
from gateway.http.query import known_query
from gateway.openapi.described import described, parameter

ApprovalId = Annotated[
    str,
    PathParameter(
        description="The id of an approval of the account.", format="uuid", examples=[Example(value=APPROVAL)]
    ),
]
_STATUS = parameter("query", "status", "Only those of this status.", enum=STATES)
_CONVERSATION = parameter("query", "conversation_id", "Only those of this conversation.", format="uuid")


DecisionData = Annotated[
    http.DecisionBody,
    BodyKwarg(
        schema_extra={  # an `input` is of approved calls alone
            "anyOf": [
                {"properties": {"decision": {"const": "approved"}}},
                {"properties": {"input": {"type": "null"}}},
            ]
        },
        examples=[
            Example(id="approved", summary="As the model asked", value={"decision": "approved"}),
            Example(
                id="edited",
                summary="With another input, complete",
                value={"decision": "approved", "input": {"order_id": "ORD-1001"}},
            ),
            Example(
                id="answered",
                summary="To an elicitation, with what it asks for",
                value={"decision": "approved", "input": {"country": "AT"}},
            ),
            Example(
                id="denied",
                summary="Not to be run",
                value={"decision": "denied", "reason": "It has left the warehouse."},
            ),
        ],
    ),
]


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals, the newest first."""

    data: tuple[http.Approval, ...]
    next_cursor: NextCursor


_PENDING = http.Approval(
    id=APPROVAL,
    status="pending",
    trace_id=TRACE,
    conversation_id=CONVERSATION,
    agent_id=AGENT,
    tool=http.ApprovalTool(name="cancel_order", server="shop"),
    input={"order_id": "ORD-1001"},
    requested_at=AT,
    expires_at="2026-11-28T09:30:00.123456Z",
)
_APPROVED = msgspec.structs.replace(
    _PENDING,
    status="approved",
    decision=http.DecisionMade(decision="approved", by=Decider(kind="account", id=KEY), at=AT),
)
_ASKS = msgspec.structs.replace(
    _PENDING,
    tool=http.ApprovalTool(name="update_shipping_address", server="shop"),
    elicitation=Elicitation(
        message="In which country?",
        requested_schema={
            "type": "object",
            "properties": {"country": {"type": "string"}},
            "required": ["country"],
        },
    ),
)


@get(
    "/",
    operation_id="listApprovals",
    summary="List the tool calls that a person has to allow, the newest first.",
    description="The list may lag by a moment; one approval never does.",
    response_description="A page of them.",
    dependencies={"paging": paged_by(str)},
)
@described(
    parameters=[_STATUS, _CONVERSATION],
    examples={"last": ApprovalPage(data=(_PENDING,), next_cursor=None)},
)
async def list_of_account(request: GatewayRequest, paging: NamedDependency[PageRequest]) -> ApprovalPage:
    given = query.parameters(request.exchange, "status", "conversation_id")
    status, conversation_id = given.get("status"), given.get("conversation_id")
    if status is not None and status not in STATES:
        raise invalid("status", f"This must be one of {', '.join(STATES)}.")
    if conversation_id is not None and not ids.is_uuid(conversation_id.lower()):
        raise invalid("conversation_id", "This must be a UUID.")
    limit = paging.limit
    rows = await list_approvals(
        request.services.pool,
        request.auth.account_id,
        status=status,
        conversation_id=conversation_id and conversation_id.lower(),
        after=paging.after,
        limit=limit + 1,
    )
    more = rows[limit - 1].id if len(rows) > limit else None
    return ApprovalPage(data=tuple(rows[:limit]), next_cursor=next_cursor(more))


@get(
    "/{approval_id:str}",
    operation_id="getApproval",
    summary="Get one approval.",
    response_description="The approval.",
    guards=[within_reads_at_once],
)
@described("not_found", examples={"pending": _PENDING, "asks": _ASKS, "approved": _APPROVED})
async def get_one(request: GatewayRequest, approval_id: ApprovalId) -> http.Approval:
    return (await owned(request.services, request.auth, approval_id)).approval


@post(
    "/{approval_id:str}/decision",
    status_code=200,
    operation_id="decideApproval",
    summary="Approve or deny a tool call, or answer what its tool asks.",
    description="The same decision again has the same answer; another is refused. With the last decision "
    "that a run waits for it goes on: its stream by `GET /v1/chat/{trace_id}/events`.",
    response_description="It is decided.",
)
@described(
    *("not_found", "approval_forbidden", "approval_decided", "approval_expired"),
    examples={"approved": _APPROVED},
)
async def decide(request: GatewayRequest, approval_id: ApprovalId, data: DecisionData) -> http.Approval:
    """POST /v1/approvals/{approval_id}/decision. Who decides is the key's account, whatever the body says."""
    services, decision = request.services, fit(data)
    found = await owned(services, request.auth, approval_id)
    await decide_approval.decide(services, request.auth, found.approval, decision)
    return (await owned(services, request.auth, approval_id)).approval


ROUTER = Router(
    "/v1/approvals",
    route_handlers=[list_of_account, get_one, decide],
    guards=[has_key, within_read_rate],
    before_request=known_query,
    security=[SECURITY],
    tags=["approvals"],
)
