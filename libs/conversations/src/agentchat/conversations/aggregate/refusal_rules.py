"""Apply the rules by which a request without a run is refused. Pure."""

import msgspec

from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import ApprovalNeeded
from agentchat.conversations.aggregate import approval_rules
from agentchat.conversations.aggregate.conversation import MAX_BYTES, MAX_EVENTS, Conversation, Run


class Rejected(msgspec.Struct, frozen=True):
    """Nothing is appended; `code` is one of `contracts.errors`.

    `approvals` are those that the conversation waits for, `running_trace_id` is the run under way in it.
    """

    code: str
    message: str
    approvals: tuple[ApprovalNeeded, ...] = ()
    running_trace_id: str | None = None


NOT_FOUND = Rejected(code="conversation_not_found", message="No such conversation.")
_FULL = Rejected(
    code="conversation_full",
    message=(
        f"The conversation has {MAX_EVENTS:,} events or {MAX_BYTES // 2**20} MiB: start a new one with a"
        " summary of it, or fork it at an earlier message."
    ),
)
_GONE_ON = Rejected(
    code="conversation_busy", message="The conversation changed since you loaded it. Load it again."
)
_BUSY = "A message of this conversation is being answered."
_NO_FILES = "attachments: a message that joins the reply under way cannot have files. Send it later."
_EXPIRED = Rejected(code="overloaded", message="No worker was available in time. Try again.")


def refuse_request(conversation: Conversation, request: ChatRequested, *, expired: bool) -> Rejected | None:
    """Return why a request without a run is refused; None if it is not."""
    active, on_busy = conversation.active, request.on_busy
    if expired:
        return _EXPIRED
    if conversation.is_full:
        return _FULL
    waits = active is not None and active.pending and on_busy != "interrupt"
    if active is not None and waits and approval_rules.on_new_message(active) == "refuse":
        return _reject_undecided(active)
    if active is not None and on_busy == "refuse":
        return Rejected(code="conversation_busy", message=_BUSY, running_trace_id=active.trace_id)
    if _has_gone_on(conversation, request):
        return _GONE_ON
    if active is not None and not active.pending and on_busy == "steer" and request.attachments:
        return Rejected(code="unsupported_attachment", message=_NO_FILES)
    return None


def _reject_undecided(run: Run) -> Rejected:
    ids = tuple(ApprovalNeeded(id=each.id) for each in approval_rules.list_needed_approvals(run))
    return Rejected(
        code="approval_pending",
        message="A tool call in this conversation waits for approval. Decide it first.",
        approvals=ids,
    )


def _has_gone_on(conversation: Conversation, request: ChatRequested) -> bool:
    """Return True if the conversation is not as the caller shows it.

    Clients omit failed attempts that produced no output. The claim of an earlier try may have been taken over
    for a request that shows what it begins with.
    """
    if request.history:
        return conversation.version > 0
    if request.after is None:
        return False
    for run in reversed(conversation.runs):
        if run.reply is not None:
            return run.reply.id != request.after
        if run.state == "running" and request.on_busy in ("interrupt", "steer"):
            continue  # the client does not show it yet, or in part
        if run.state == "running" or run.rounds or run.user_text.strip() != request.message.strip():
            return True
    return True
