"""Apply the rules of feedback on a reply. Pure.

Called by `orchestrator.rpc.conversation_commands`.
"""

from typing import Any

from agentchat.contracts import events
from agentchat.contracts.messages import FeedbackAnswered, GiveFeedback
from agentchat.contracts.values import MAX_FEEDBACK
from agentchat.conversations.aggregate.conversation import Conversation


def give_feedback(
    conversation: Conversation, command: GiveFeedback, now: str
) -> events.FeedbackGiven | events.FeedbackWithdrawn | FeedbackAnswered:
    """Return the event to append; or the answer, if there is nothing to append.

    A run in progress does not matter. Repeating the same feedback changes nothing, so a command may be sent
    again.
    """
    run = conversation.run(command.trace_id)
    if (
        not conversation.is_open_to(command)
        or run is None
        or run.reply is None
        or run.reply.id != command.message_id
    ):
        return FeedbackAnswered(outcome="not_found")
    known = next((each for each in run.feedback if each.on_behalf_of == command.on_behalf_of), None)
    whose: dict[str, Any] = {
        "trace_id": command.trace_id,
        "at": now,
        "message_id": command.message_id,
        "by": command.by,
        "on_behalf_of": command.on_behalf_of,
    }
    unchanged = FeedbackAnswered(outcome="recorded", version=conversation.version)
    if command.score is None:
        return unchanged if known is None else events.FeedbackWithdrawn(**whose)
    given = events.FeedbackGiven(**whose, score=command.score, label=command.label, comment=command.comment)
    if known is not None and _get_content(known) == _get_content(given):
        return unchanged
    if conversation.is_full:
        return FeedbackAnswered(outcome="full")
    if known is None and len(run.feedback) >= MAX_FEEDBACK:
        return FeedbackAnswered(outcome="too_many")
    return given


def _get_content(given: events.FeedbackGiven) -> tuple[float, str | None, str | None]:
    return given.score, given.label, given.comment
