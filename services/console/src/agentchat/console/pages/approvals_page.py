"""Show tool calls that need a person's approval, with their context, and take decisions."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_agents, admin_approvals
from agentchat.administration.approval_details import ApprovalDetails
from agentchat.administration.checked_input import convert
from agentchat.bus.commands import list_tools
from agentchat.bus.errors import BusUnavailable
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_list_read, record_read
from agentchat.console.shared.confirmation import OpenQuestion, Question, find_unconfirmed
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.schema_forms import FormField, SchemaForm
from agentchat.console.shared.template_filters import format_json
from agentchat.contracts import approval_bodies
from agentchat.contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.read_thread import SavedMessage, find_thread, list_messages
from agentchat.directory.display_names import load_display_names

_STATES = ("pending", "approved", "denied", "expired", "cancelled")
_CONTEXT_MESSAGES = 6
_CONTEXT_VERSIONS = 60
"""The messages of the context are read from this many of the last events."""
_CONTEXT_BYTES = 65_536
_NO_SCHEMA = (
    "cannot be edited: the tool server does not answer, or no longer has the tool. Approve the input "
    "unchanged, or try again"
)
INPUT = "input."
"""The prefix of the fields of a tool's input, since a tool may have a field `reason` of its own."""


class ShownApproval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval as its card shows it.

    `agent` and `account` are names, or ids if they are deleted; `user` is the end user. `details` is the
    approval with its tool and result; None in lists. `fields` are the form of the tool's input, or of the
    tool's question; None if they cannot be edited. `trouble` says why a decision was refused; `reason` is the
    reason that was written for it. `open` is the question whether the decision is meant.
    """

    approval: approval_bodies.ApprovalRecord
    details: ApprovalDetails | None = None
    agent: str
    account: str
    user: str | None = None
    context: tuple[SavedMessage, ...] = ()
    fields: tuple[FormField, ...] | None = None
    trouble: str = ""
    reason: str = ""
    open: OpenQuestion | None = None

    @property
    def can_be_decided(self) -> bool:
        """True if the approval is pending."""
        return self.approval.status == "pending"


@get("/approvals", role=Role.VIEWER, filtered=True)
async def get_approvals(
    request: AnyRequest, status: str = "pending", account_id: str | None = None, cursor: str | None = None
) -> Response[Any]:
    """List approvals. `status` is a status of an approval, or `all`."""
    found = await admin_approvals.page(
        get_admin(request),
        status=status if status in _STATES else None,
        account_id=account_id or None,
        after=cursor,
    )
    await record_list_read(request, "approvals", (each.conversation_id for each in found.items))
    shown = await _add_names(request, found.items)
    return render_page(
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


@get("/approvals/news", role=Role.VIEWER, filtered=True)
async def get_news(
    request: AnyRequest, newest: str = "", shown: int = 0, account_id: str | None = None
) -> Response[Any]:
    """Show how many approvals are new or decided since the list was loaded."""
    found = await admin_approvals.page(
        get_admin(request), status="pending", account_id=account_id or None, limit=100
    )
    ids = [each.id for each in found.items]
    fresh = ids.index(newest) if newest in ids else sum(each > newest for each in ids)
    gone = max(0, shown - (len(ids) - fresh))
    return render_page(
        request, "parts/approvals_news.html", fresh=fresh, gone=gone, account_id=account_id or ""
    )


@get("/approvals/{approval_id:str}", role=Role.VIEWER)
async def get_approval(request: AnyRequest, approval_id: FromPath[str]) -> Response[Any]:
    """Show an approval with its conversation and its input as a form."""
    approval = await admin_approvals.get(get_admin(request), approval_id)
    return _render_card(request, await _load_details(request, approval))


@post("/approvals/{approval_id:str}/decision", status_code=200, role=Role.APPROVER)
async def post_decision(request: AnyRequest, approval_id: FromPath[str]) -> Response[Any]:
    """Take a decision. A refused form comes back as it was filled in, with the reason."""
    given = await request.form()
    approval = await admin_approvals.get(get_admin(request), approval_id)
    try:
        if "back" in given:
            return _render_card(request, await _load_details(request, approval, given))
        body = await _read_decision(request, approval, given)
        if approval.status == "pending" and (
            unconfirmed := find_unconfirmed(given, build_question(approval, body))
        ):
            shown = await _load_details(request, approval)
            return _render_card(request, msgspec.structs.replace(shown, open=unconfirmed))
        approval = await admin_approvals.decide(get_admin(request), approval_id, body)
    except NotFound:
        raise
    except (Disallowed, Conflict):  # decided meanwhile
        approval = await admin_approvals.get(get_admin(request), approval_id)
        trouble = (
            "Already decided by someone else." if approval.decision else "This approval is no longer pending."
        )
        return _render_card(request, await _load_details(request, approval, trouble=trouble))
    except AdminError as error:
        problem = error if isinstance(error, Invalid) else None
        shown = await _load_details(request, approval, given, problem, trouble=f"Not saved: {error}")
        return _render_card(request, shown)
    if request.headers.get("hx-request"):
        return _render_card(request, await _load_details(request, approval))
    return Redirect(f"/approvals/{approval_id}", status_code=303)


def build_question(approval: approval_bodies.ApprovalRecord, body: approval_bodies.DecisionBody) -> Question:
    """Build the question whether a decision is meant."""
    verb, noun = ("Answer", "question") if approval.elicitation else ("Approve", "call")
    if body.decision == "denied":
        verb, reason = "Deny", f", with your reason: {body.reason}" if body.reason else ""
        denied = "The tool gets no answer" if approval.elicitation else f"{approval.tool.name} is not run"
        text, shown = f"{denied}, and the model is told so{reason}. It cannot be taken back.", ""
    elif approval.elicitation:
        text = "The tool gets this answer and continues. It cannot be taken back."
        shown = "" if body.input is None else format_json(body.input)
    else:
        changed = "your changed input" if body.input is not None else "the model's input"
        text = f"{approval.tool.name} runs on {approval.tool.server} with {changed}. It cannot be taken back."
        shown = "" if body.input is None else format_json(body.input)
    return Question(
        title=f"{verb} this {noun}?",
        text=text,
        shown=shown,
        button=f"{verb} the {noun}",
        back=f"/approvals/{approval.id}",
        in_place=True,
        look="danger" if body.decision == "denied" else "main",
    )


def _render_card(request: AnyRequest, shown: ShownApproval) -> Response[Any]:
    template = "parts/approval_card.html" if request.headers.get("hx-request") else "approval.html"
    return render_page(request, template, title=f"Approval of {shown.approval.tool.name}", each=shown)


async def _read_decision(
    request: AnyRequest, approval: approval_bodies.ApprovalRecord, given: FormMultiDict
) -> approval_bodies.DecisionBody:
    """Read the decision, with `input` only if it was changed. Raises Invalid, AdminError."""
    body: dict[str, Any] = {"decision": given.get("decision", "")}
    if reason := str(given.get("reason", "")).strip():
        body["reason"] = reason
    if body["decision"] == "approved" and "has_input" in given:
        form, values = await _build_form(request, approval)
        if form is None:
            raise Invalid("input", _NO_SCHEMA)
        sent = select_input(given)
        if approval.elicitation is not None:
            body["input"] = form.read(sent)
        elif (edited := form.apply_edits(sent, values)) != values:
            body["input"] = edited
    return convert(approval_bodies.DecisionBody, body)


async def _load_details(
    request: AnyRequest,
    approval: ApprovalDetails,
    given: FormMultiDict | None = None,
    problem: Invalid | None = None,
    trouble: str = "",
) -> ShownApproval:
    shown = (await _add_names(request, [approval]))[0]
    (form, values), context = await asyncio.gather(
        _build_form(request, approval), _load_context(request, approval.conversation_id)
    )
    prefixed = None if given is None or "has_input" not in given else select_input(given)
    fields = form.build_fields(values, prefixed, problem) if form and shown.can_be_decided else None
    reason = "" if given is None else str(given.get("reason", ""))
    return msgspec.structs.replace(
        shown, details=approval, context=context, fields=fields, trouble=trouble, reason=reason
    )


async def _build_form(
    request: AnyRequest, approval: approval_bodies.ApprovalRecord
) -> tuple[SchemaForm | None, dict[str, Any]]:
    """Build the form of the call's input, with its values; None if its schema is unknown."""
    if approval.status != "pending":
        return None, approval.input
    if approval.elicitation is not None:
        schema = approval.elicitation.requested_schema
        return (None if schema is None else SchemaForm(schema)), {}
    try:
        agent = await admin_agents.get_current(get_admin(request), approval.agent_id)
        listed = await list_tools(
            get_services(request).bus.rpc, agent.account_id, approval.agent_id, agent.version
        )
    except (AdminError, BusUnavailable):
        return None, approval.input
    schemas = [each.input_schema for each in listed.tools if each.name == approval.tool.name]
    return (SchemaForm(schemas[0]) if schemas else None), approval.input


async def _load_context(request: AnyRequest, conversation_id: str) -> tuple[SavedMessage, ...]:
    pool = get_services(request).pool
    thread = await find_thread(pool, conversation_id)
    if thread is None:
        return ()
    await record_read(request, conversation_id, thread.account_id)
    found = await list_messages(
        pool,
        conversation_id,
        after=max(0, thread.version - _CONTEXT_VERSIONS),
        until=thread.version,
        limit=_CONTEXT_VERSIONS,
        max_bytes=_CONTEXT_BYTES,
    )
    return found.messages[-_CONTEXT_MESSAGES:]


async def _add_names(
    request: AnyRequest, approvals: Collection[approval_bodies.ApprovalRecord]
) -> tuple[ShownApproval, ...]:
    pool = get_services(request).pool
    names = await load_display_names(pool, (), {each.agent_id for each in approvals})
    owners = await Log(pool).find_owners({each.conversation_id for each in approvals})
    return tuple(
        ShownApproval(
            approval=each,
            agent=names.agents.get(each.agent_id, f"{each.agent_id} (deleted)"),
            account=names.owners.get(each.agent_id, ""),
            user=owners[each.conversation_id].user_id if each.conversation_id in owners else None,
        )
        for each in approvals
    )


def select_input(given: FormMultiDict) -> FormMultiDict:
    """Return the fields of a form that belong to the tool's input."""
    pairs = given.multi_items()
    return FormMultiDict([(key.removeprefix(INPUT), text) for key, text in pairs if key.startswith(INPUT)])


HANDLERS = (get_approvals, get_news, get_approval, post_decision)
