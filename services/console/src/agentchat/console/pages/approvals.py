"""Approvals: tool calls that need approval, with what surrounds them, and the decisions."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_agents, admin_approvals
from agentchat.administration.checked_input import converted
from agentchat.bus.commands import list_tools
from agentchat.bus.errors import BusUnavailable
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of, note_list, note_read
from agentchat.console.frame.forms import FormField, SchemaForm
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.contracts import http
from agentchat.contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound
from agentchat.conversations.queries.threads import SavedMessage, find_thread, list_messages
from agentchat.directory.display_names import load_display_names

_STATES = ("pending", "approved", "denied", "expired", "cancelled")
_CONTEXT_MESSAGES = 6
_CONTEXT_VERSIONS = 60
"""Messages are looked for among so many events before the conversation's last."""
_CONTEXT_BYTES = 65_536
_NO_SCHEMA = (
    "cannot be read: the tool's server does not answer, or does not have the tool any more. "
    "Approve it as it is, or try again"
)
INPUT = "input."
"""What the names of the fields of a tool's input begin with: a tool may have a field `reason` of its own."""


class ShownApproval(msgspec.Struct, frozen=True, kw_only=True):
    """`agent` and `account` are names, or ids where they are deleted. `fields` are of the tool's input, or of
    what the tool asks for; None where they are not to be changed, or the tool's server does not answer.

    `trouble` is what a decision came to that was not taken, `reason` the one that was written for it.
    """

    approval: http.Approval
    agent: str
    account: str
    context: tuple[SavedMessage, ...] = ()
    fields: tuple[FormField, ...] | None = None
    is_whole: bool = False
    trouble: str = ""
    reason: str = ""

    @property
    def can_be_decided(self) -> bool:
        return self.approval.status == "pending"


@get("/approvals", role=Role.VIEWER)
async def get_approvals(
    request: AnyRequest, status: str = "pending", account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """The inbox. `status` is one of an approval's, or `all`."""
    found = await admin_approvals.page(
        admin_of(request),
        status=status if status in _STATES else None,
        account_id=account_id or None,
        after=cursor,
    )
    await note_list(request, "approvals", (each.conversation_id for each in found.items))
    shown = await _shown(request, found.items)
    return page(
        request,
        "approvals.html",
        title="Approvals",
        shown=shown,
        status=status,
        account_id=account_id or "",
        states=(*_STATES, "all"),
        next_cursor=found.after,
        newest=found.items[0].id if found.items else "",
        shown_count=len(found.items),
    )


@get("/approvals/news", role=Role.VIEWER)
async def get_news(
    request: AnyRequest, newest: str = "", shown: int = 0, account_id: str | None = None
) -> Response[Any]:
    """The part that says what has come and gone since the inbox was loaded."""
    found = await admin_approvals.page(
        admin_of(request), status="pending", account_id=account_id or None, limit=100
    )
    ids = [each.id for each in found.items]
    fresh = ids.index(newest) if newest in ids else sum(each > newest for each in ids)
    gone = max(0, shown - (len(ids) - fresh))
    return page(request, "parts/approvals_news.html", fresh=fresh, gone=gone, account_id=account_id or "")


@get("/approvals/{approval_id:str}", role=Role.VIEWER)
async def get_approval(request: AnyRequest, approval_id: FromPath[str]) -> Response[Any]:
    """One of them, with the conversation around it and its input as a form."""
    approval = await admin_approvals.get(admin_of(request), approval_id)
    return _answer(request, await _whole(request, approval))


@post("/approvals/{approval_id:str}/decision", status_code=200, role=Role.APPROVER)
async def post_decision(request: AnyRequest, approval_id: FromPath[str]) -> Response[Any]:
    """Decide. What is not taken is said next to the form, with all that was written in it."""
    given = await request.form()
    approval = await admin_approvals.get(admin_of(request), approval_id)
    try:
        body = await _decision(request, approval, given)
        approval = await admin_approvals.decide(admin_of(request), approval_id, body)
    except NotFound:
        raise
    except (Disallowed, Conflict):  # by somebody else, meanwhile
        approval = await admin_approvals.get(admin_of(request), approval_id)
        trouble = (
            "Not taken: somebody was faster." if approval.decision else "Not taken: it is no longer open."
        )
        return _answer(request, await _whole(request, approval, trouble=trouble))
    except AdminError as error:
        problem = error if isinstance(error, Invalid) else None
        shown = await _whole(request, approval, given, problem, trouble=f"Not taken: {error}")
        return _answer(request, shown)
    if request.headers.get("hx-request"):
        return _answer(request, (await _shown(request, [approval]))[0])
    return Redirect(f"/approvals/{approval_id}", status_code=303)


def _answer(request: AnyRequest, shown: ShownApproval) -> Response[Any]:
    template = "parts/approval_card.html" if request.headers.get("hx-request") else "approval.html"
    return page(request, template, title=f"Approval of {shown.approval.tool.name}", each=shown)


async def _decision(request: AnyRequest, approval: http.Approval, given: FormMultiDict) -> http.DecisionBody:
    """Return the decision, with `input` only if it was changed. Raises Invalid, AdminError."""
    body: dict[str, Any] = {"decision": given.get("decision", "")}
    if reason := str(given.get("reason", "")).strip():
        body["reason"] = reason
    if body["decision"] == "approved" and "has_input" in given:
        form, values = await _form(request, approval)
        if form is None:
            raise Invalid("input", _NO_SCHEMA)
        sent = input_of(given)
        if approval.elicitation is not None:
            body["input"] = form.read(sent)
        elif (edited := form.edited(sent, values)) != values:
            body["input"] = edited
    return converted(http.DecisionBody, body)


async def _whole(
    request: AnyRequest,
    approval: http.Approval,
    given: FormMultiDict | None = None,
    problem: Invalid | None = None,
    trouble: str = "",
) -> ShownApproval:
    shown = (await _shown(request, [approval]))[0]
    (form, values), context = await asyncio.gather(
        _form(request, approval), _context(request, approval.conversation_id)
    )
    prefixed = None if given is None or "has_input" not in given else input_of(given)
    fields = form.fields(values, prefixed, problem) if form and shown.can_be_decided else None
    reason = "" if given is None else str(given.get("reason", ""))
    return msgspec.structs.replace(
        shown, context=context, fields=fields, is_whole=True, trouble=trouble, reason=reason
    )


async def _form(request: AnyRequest, approval: http.Approval) -> tuple[SchemaForm | None, dict[str, Any]]:
    """The form of the call's input and what it is filled with; None where nobody knows its schema."""
    if approval.elicitation is not None:
        schema = approval.elicitation.requested_schema
        return (None if schema is None else SchemaForm(schema)), {}
    try:
        agent = await admin_agents.current(admin_of(request), approval.agent_id)
        listed = await list_tools(
            services_of(request).bus.rpc, agent.account_id, approval.agent_id, agent.version
        )
    except (AdminError, BusUnavailable):
        return None, approval.input
    schemas = [each.input_schema for each in listed.tools if each.name == approval.tool.name]
    return (SchemaForm(schemas[0]) if schemas else None), approval.input


async def _context(request: AnyRequest, conversation_id: str) -> tuple[SavedMessage, ...]:
    pool = services_of(request).pool
    thread = await find_thread(pool, conversation_id)
    if thread is None:
        return ()
    await note_read(request, conversation_id, thread.account_id)
    found = await list_messages(
        pool,
        conversation_id,
        after=max(0, thread.version - _CONTEXT_VERSIONS),
        until=thread.version,
        limit=_CONTEXT_VERSIONS,
        max_bytes=_CONTEXT_BYTES,
    )
    return found.messages[-_CONTEXT_MESSAGES:]


async def _shown(request: AnyRequest, approvals: Collection[http.Approval]) -> tuple[ShownApproval, ...]:
    names = await load_display_names(services_of(request).pool, (), {each.agent_id for each in approvals})
    return tuple(
        ShownApproval(
            approval=each,
            agent=names.agents.get(each.agent_id, f"{each.agent_id} (deleted)"),
            account=names.owners.get(each.agent_id, ""),
        )
        for each in approvals
    )


def input_of(given: FormMultiDict) -> FormMultiDict:
    """The fields of a form that belong to the input."""
    pairs = given.multi_items()
    return FormMultiDict([(key.removeprefix(INPUT), text) for key, text in pairs if key.startswith(INPUT)])


HANDLERS = (get_approvals, get_news, get_approval, post_decision)
