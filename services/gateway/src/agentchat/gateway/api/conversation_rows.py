"""Build conversations, messages and feedback as callers see them."""

import msgspec

from agentchat.contracts.events import STARTED_WITH, FeedbackGiven, MessageSaved
from agentchat.contracts.feedback_bodies import RatingSummary, StoredFeedback
from agentchat.contracts.files import FileLink
from agentchat.contracts.values import FinishedCall, Role, Source
from agentchat.conversations.aggregate.canonical_stream import list_returned_calls
from agentchat.conversations.aggregate.conversation import ForkedFrom, Run
from agentchat.conversations.projections.conversations_table import build_title
from agentchat.conversations.queries.conversation_filters import ConversationRow
from agentchat.conversations.queries.find_feedback import ReplyFeedback
from agentchat.conversations.queries.read_thread import ThreadSummary
from agentchat.gateway.http.pagination import NextCursor


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a conversation; the optional fields are on the assistant's only, `attachments` on others.

    `interrupted`: its run failed or was cancelled, and this is as far as it came.
    """

    id: str
    conversation_id: str
    role: Role
    content: str
    created_at: str
    agent_id: str
    trace_id: str
    token_count: int | None = None
    interrupted: bool = False
    feedback: RatingSummary | None = None
    tool_calls: tuple[FinishedCall, ...] | None = None
    sources: tuple[Source, ...] | None = None
    attachments: tuple[FileLink, ...] = ()


class ConversationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations, the newest first."""

    data: tuple[ConversationRow, ...]
    next_cursor: NextCursor


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages, the oldest first."""

    data: tuple[MessageRow, ...]
    next_cursor: NextCursor


def build_conversation_row(conversation_id: str, found: ThreadSummary) -> ConversationRow:
    """Build the conversation from what the log has of it."""
    started, labels = found.started, found.described or found.started
    return ConversationRow(
        conversation_id=conversation_id,
        title=build_title(found.first) if labels.title is None else labels.title,
        agent_id=found.last.agent_id,
        message_count=found.count,
        created_at=started.at,
        updated_at=max(started.at, found.last.at),  # a fork copies older messages
        metadata=labels.metadata,
        forked_from=(
            ForkedFrom(found.forked.source_id, found.forked.source_version) if found.forked else None
        ),
        **{name: getattr(started, name) for name in _STARTED_WITH},
    )


_STARTED_WITH = tuple(
    name
    for name in STARTED_WITH
    if name in ConversationRow.__struct_fields__ and name not in ("title", "metadata")  # which may change
)


def build_feedback_row(conversation_id: str, given: FeedbackGiven) -> StoredFeedback:
    """Build the feedback from its event."""
    return StoredFeedback(
        message_id=given.message_id,
        conversation_id=conversation_id,
        trace_id=given.trace_id,
        score=given.score,
        label=given.label,
        comment=given.comment,
        on_behalf_of=given.on_behalf_of,
        by=given.by,
        at=given.at,
    )


def build_message_row(
    conversation_id: str,
    saved: MessageSaved,
    found: ReplyFeedback | None = None,
    run: Run | None = None,
) -> MessageRow:
    """Build the message from its event; a reply with its feedback, tool calls and sources."""
    shown = None if saved.role == "user" else run
    feedback = None
    if found is not None:
        newest = build_feedback_row(conversation_id, found.newest[0])
        feedback = RatingSummary(count=found.count, mean_score=found.mean_score, newest=newest)
    return MessageRow(
        id=saved.message_id,
        conversation_id=conversation_id,
        role=saved.role,
        content=saved.content,
        created_at=saved.at,
        agent_id=saved.agent_id,
        trace_id=saved.trace_id,
        token_count=saved.token_count,
        interrupted=saved.interrupted,
        feedback=feedback,
        tool_calls=None if shown is None else list_returned_calls(shown) or None,
        sources=None if shown is None else shown.sources,
        attachments=tuple(file.to_link() for file in saved.attachments),
    )
