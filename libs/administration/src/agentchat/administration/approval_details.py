"""Build what a person needs to decide about a tool call, and what came of it. Pure."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from agentchat.contracts import approval_bodies
from agentchat.contracts.values import ToolSpec
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_approvals import FoundApproval

OUTPUT_CHARACTERS = 4_000


class ToolDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as the model was offered it, with the hints of its server."""

    description: str
    read_only: bool
    idempotent: bool
    destructive: bool | None = None
    open_world: bool | None = None


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an approved call. `output` is cut after 4,000 characters; `none`: the run ended first."""

    state: Literal["running", "succeeded", "failed", "none"]
    output: str = ""
    ms: int = 0


class ApprovalDetails(approval_bodies.ApprovalRecord, frozen=True, kw_only=True, omit_defaults=True):
    """An approval with its tool, and with the call's result once it is approved.

    `same_pending` are the account's other pending approvals of this tool with the same input, 100 at most.
    """

    tool_details: ToolDetails | None = None
    same_pending: tuple[str, ...] = ()
    result: CallResult | None = None


def get_asking_tool(found: FoundApproval) -> ToolSpec | None:
    """Return the tool that asks a person, as the model was offered it; None for another approval."""
    _, approval = approval_rules.find_approval(found.run, found.approval.id) or (None, None)
    tool = getattr(approval and approval.requested, "offered_tool", None)
    return tool if isinstance(tool, ToolSpec) else None


def find_tools_hash(found: FoundApproval) -> str | None:
    """Find the hash of the tools that the model was offered when it made the call."""
    _, approval = approval_rules.find_approval(found.run, found.approval.id) or (None, None)
    if approval is None:
        return None
    rounds = (each for each in found.run.rounds if each.number == approval.requested.round)
    return next((each.tools_sha256 for each in rounds), None)


def build_details(
    found: FoundApproval, spec: ToolSpec | None, pending: Iterable[approval_bodies.ApprovalRecord]
) -> ApprovalDetails:
    """Add to an approval its tool, the pending ones that are like it, and its call's result."""
    approval = found.approval
    return ApprovalDetails(
        **{name: getattr(approval, name) for name in approval_bodies.ApprovalRecord.__struct_fields__},
        tool_details=None if spec is None else _build_tool(spec),
        same_pending=tuple(
            each.id
            for each in pending
            if each.id != approval.id
            and (each.tool, each.input, each.elicitation)
            == (approval.tool, approval.input, approval.elicitation)
        ),
        result=_build_result(found.run, approval.id),
    )


def _build_tool(spec: ToolSpec) -> ToolDetails:
    return ToolDetails(
        description=spec.description,
        read_only=spec.read_only,
        idempotent=spec.idempotent,
        destructive=None if spec.destructive is msgspec.UNSET else spec.destructive,
        open_world=None if spec.open_world is msgspec.UNSET else spec.open_world,
    )


def _build_result(run: Run, approval_id: str) -> CallResult | None:
    """Build the result of a call that runs after its approval; None if it does not."""
    call, approval = approval_rules.find_approval(run, approval_id) or (None, None)
    if call is None or approval is None or approval.decided is None:
        return None
    if approval.decided.decision != "approved":
        return None
    if call.output is None:
        return CallResult(state="running" if run.state == "running" else "none")
    output = call.output[:OUTPUT_CHARACTERS]
    return CallResult(state="failed" if call.is_error else "succeeded", output=output, ms=call.ms)
