"""Build the lines of an end user's export: conversations, messages, tool calls, feedback."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from agentchat.contracts.files import FileLink, StoredFile
from agentchat.contracts.values import Decider, Role
from agentchat.conversations.aggregate.canonical_stream import get_client_output
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.user_summaries import EndUser, list_conversations_of_user
from agentchat.runtime.postgres import Pool

_PAGE = 100


class ExportLine(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of the lines of an export."""


class UserLine(ExportLine, frozen=True, kw_only=True, tag="user"):
    """The first line: the user, as lists of users have it."""

    user_id: str
    last_active_at: str
    conversations: int
    tokens: int
    cost: float
    unpriced: int


class ConversationLine(ExportLine, frozen=True, kw_only=True, tag="conversation"):
    """A conversation; its messages, tool calls and feedback follow."""

    conversation_id: str
    created_at: str | None
    external_id: str | None
    title: str | None
    metadata: dict[str, str]


class MessageLine(ExportLine, frozen=True, kw_only=True, tag="message"):
    """A message. One that was shown by the client at the beginning has neither id, run nor time.

    The bytes of `attachments` are at their `url`.
    """

    conversation_id: str
    role: Role
    content: str
    message_id: str | None = None
    trace_id: str | None = None
    created_at: str | None = None
    attachments: tuple[FileLink, ...] = ()


class ToolCallLine(ExportLine, frozen=True, kw_only=True, tag="tool_call"):
    """A call of a tool, with its output if there is one."""

    conversation_id: str
    trace_id: str
    name: str
    input: dict[str, Any]
    output: str | None
    created_at: str


class FeedbackLine(ExportLine, frozen=True, kw_only=True, tag="feedback"):
    """Feedback on a reply."""

    conversation_id: str
    message_id: str
    score: float
    label: str | None
    comment: str | None
    on_behalf_of: str | None
    by: Decider
    created_at: str


class ExportEnd(ExportLine, frozen=True, kw_only=True, tag="end"):
    """The last line, with the number of conversations."""

    conversations: int


async def export_user(log: Log, pool: Pool, account_id: str, user: EndUser) -> AsyncIterator[ExportLine]:
    """Yield the lines, one conversation after the other. Raises DatabaseUnavailable, UnreadableEvent."""
    yield UserLine(**msgspec.structs.asdict(user))
    exported, after = 0, ""
    while page := await list_conversations_of_user(pool, account_id, user.user_id, after=after, limit=_PAGE):
        after = page[-1]
        for conversation_id in page:
            conversation = await log.load_conversation(conversation_id)
            if not conversation.erased:
                exported += 1
                for line in list_lines(conversation):
                    yield line
    yield ExportEnd(conversations=exported)


def list_lines(conversation: Conversation) -> Iterator[ExportLine]:
    """Yield the lines of a conversation."""
    conversation_id = conversation.conversation_id
    yield ConversationLine(
        conversation_id=conversation_id,
        created_at=conversation.started_at,
        external_id=conversation.external_id,
        title=conversation.title,
        metadata=conversation.metadata,
    )
    for shown in conversation.seed:
        yield MessageLine(
            conversation_id=conversation_id,
            role=shown.role,
            content=shown.content,
            attachments=_link_files(shown.attachments),
        )
    for run in conversation.runs:
        yield from _list_lines_of_run(conversation_id, run)


def _link_files(files: Iterable[StoredFile]) -> tuple[FileLink, ...]:
    return tuple(file.to_link() for file in files)


def _list_lines_of_run(conversation_id: str, run: Run) -> Iterator[ExportLine]:
    where: dict[str, Any] = {"conversation_id": conversation_id, "trace_id": run.trace_id}
    yield MessageLine(
        **where,
        role="user",
        content=run.user_text,
        message_id=run.user_message_id,
        created_at=run.requested_at,
        attachments=_link_files(run.attachments),
    )
    for call in (call for each in run.rounds for call in each.calls):
        output = None if call.output is None else get_client_output(call)
        yield ToolCallLine(**where, name=call.name, input=call.input, output=output, created_at=call.at)
    text = run.text if run.reply is None else run.reply.content
    if text:
        reply = run.reply
        yield MessageLine(
            **where,
            role="assistant",
            content=text,
            message_id=None if reply is None else reply.id,
            created_at=run.ended_at if reply is None else reply.created_at,
        )
    for given in run.feedback:
        yield FeedbackLine(
            conversation_id=conversation_id,
            message_id=given.message_id,
            score=given.score,
            label=given.label,
            comment=given.comment,
            on_behalf_of=given.on_behalf_of,
            by=given.by,
            created_at=given.at,
        )
