"""What callers are shown of conversations and messages, with an example of each."""

import msgspec

from contracts.events import FeedbackGiven, MessageSaved
from contracts.examples import AGENT, AT, CONVERSATION, KEY, REPLY, TRACE, USER_MESSAGE
from contracts.http import Feedback, FeedbackSummary
from contracts.values import Decider, Role
from conversations.aggregate.conversation import ForkedFrom
from conversations.projections.conversations_table import TITLE_LENGTH, ConversationRow
from conversations.queries.finding_feedback import ReplyFeedback
from conversations.queries.threads import ThreadSummary
from gateway.http.paging import NextCursor


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a conversation; `token_count` and `feedback` on the assistant's only."""

    id: str
    conversation_id: str
    role: Role
    content: str
    created_at: str
    agent_id: str
    trace_id: str
    token_count: int | None = None
    feedback: FeedbackSummary | None = None


class ConversationPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of conversations, the newest first."""

    data: tuple[ConversationRow, ...]
    next_cursor: NextCursor


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages, the oldest first."""

    data: tuple[MessageRow, ...]
    next_cursor: NextCursor


def conversation_row(conversation_id: str, found: ThreadSummary) -> ConversationRow:
    given = found.described.title if found.described else None
    return ConversationRow(
        conversation_id=conversation_id,
        title=found.first.content[:TITLE_LENGTH] if given is None else given,
        agent_id=found.last.agent_id,
        message_count=found.count,
        created_at=found.started_at,
        updated_at=found.last.at,
        metadata=found.described.metadata if found.described else {},
        forked_from=(
            ForkedFrom(found.forked.source_id, found.forked.source_version) if found.forked else None
        ),
    )


def feedback_row(conversation_id: str, given: FeedbackGiven) -> Feedback:
    return Feedback(
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


def message_row(conversation_id: str, saved: MessageSaved, found: ReplyFeedback | None = None) -> MessageRow:
    feedback = None
    if found is not None:
        newest = feedback_row(conversation_id, found.newest[0])
        feedback = FeedbackSummary(count=found.count, mean_score=found.mean_score, newest=newest)
    return MessageRow(
        id=saved.message_id,
        conversation_id=conversation_id,
        role=saved.role,
        content=saved.content,
        created_at=saved.at,
        agent_id=saved.agent_id,
        trace_id=saved.trace_id,
        token_count=saved.token_count,
        feedback=feedback,
    )


EXAMPLE = ConversationRow(
    conversation_id=CONVERSATION,
    title="Where is it?",
    agent_id=AGENT,
    message_count=2,
    created_at=AT,
    updated_at=AT,
    metadata={"customer": "C-77"},
)
EXAMPLE_FORK = msgspec.structs.replace(
    EXAMPLE, forked_from=ForkedFrom("0192f0c1-7c4e-7aaa-8bbb-0000000000c0", 6)
)
_QUESTION = MessageRow(
    id=USER_MESSAGE,
    role="user",
    content="Where is it?",
    conversation_id=CONVERSATION,
    agent_id=AGENT,
    trace_id=TRACE,
    created_at=AT,
)
EXAMPLE_FEEDBACK = Feedback(
    message_id=REPLY,
    conversation_id=CONVERSATION,
    trace_id=TRACE,
    score=-1.0,
    label="wrong",
    comment="It has not left the warehouse.",
    on_behalf_of="ada@shop.example",
    by=Decider(kind="account", id=KEY),
    at=AT,
)
_REPLY = msgspec.structs.replace(
    _QUESTION,
    id=REPLY,
    role="assistant",
    content="It has shipped.",
    token_count=469,
    feedback=FeedbackSummary(count=1, mean_score=-1.0, newest=EXAMPLE_FEEDBACK),
)
EXAMPLE_PAGE = ConversationPage(data=(EXAMPLE,), next_cursor=None)
EXAMPLE_MESSAGES = MessagePage(data=(_QUESTION, _REPLY), next_cursor=None)
