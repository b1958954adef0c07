"""Start runs in playground conversations, and cancel runs, as an operator.

A playground conversation is one of the account's, and its runs are like all others: stored, limited, counted,
sent to webhooks. They have the form `playground`, and the conversation the metadata `playground`, so that
everybody sees what it is. A conversation with anybody else's message is only forked, never continued.
"""

import asyncio
import os
from datetime import datetime, timedelta

from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import NewMessage, RunReference
from agentchat.administration.agent_rows import AgentRow, find_agent
from agentchat.administration.checked_input import parse_id, validate
from agentchat.bus.commands import describe_conversation, fork_conversation
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import frames
from agentchat.contracts.admin_errors import Conflict, Disallowed, Invalid, NotFound, Unavailable
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import (
    CancelRequested,
    ChatRequested,
    DescribeConversation,
    ForkConversation,
)
from agentchat.contracts.timings import ACCEPT_SECONDS, LINE_SECONDS, LINE_SLACK_SECONDS
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.rebuild_request import CANCELLED, rebuild_request
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.directory.prompt_variables import check_context, list_missing_variables
from agentchat.runtime import logs

FORM = "playground"
TAG = "playground"
_NOT_TAKEN = "no worker was available in time"
_NOT_A_PLAYGROUND = "not a playground conversation: fork it at one of its messages to continue from there"


async def send_message(admin: Admin, agent_id: str, new: NewMessage) -> RunReference:
    """Send a message to an agent in a playground conversation.

    The message is saved when this returns, unless it waits in line. Raises NotFound, Invalid, Conflict where
    the conversation is somebody else's, Disallowed, Unavailable.
    """
    new = validate(new)
    if new.fork_at is not None and new.conversation_id is None:
        raise Invalid("fork_at", "needs the conversation_id that it is a message of")
    async with admin.connection() as conn:
        row = await find_agent(conn, agent_id, new.version)
    check_context(new.context)
    if missing := list_missing_variables(row.settings.variables, new.context):
        raise Invalid("context", f"needs values for {', '.join(missing)}")
    trace_id = os.urandom(16).hex()
    with translate_errors():
        conversation_id = await _find_conversation(admin, row.account_id, new, trace_id)
        now = await read_server_time(admin.pool)
        request = _build_request(row, new, conversation_id, trace_id, now)
        await _submit_request(admin, request)
        if request.new_conversation or new.fork_at is not None:
            await _tag_conversation(admin, request)
    async with admin.connection() as conn:
        after = {"account_id": row.account_id, "agent_id": row.agent_id, "version": row.version}
        await admin.note(
            conn, "say", "conversation", request.conversation_id, after=after | {"trace_id": trace_id}
        )
    return RunReference(
        conversation_id=request.conversation_id,
        trace_id=trace_id,
        agent_id=row.agent_id,
        version=row.version,
    )


async def cancel(admin: Admin, conversation_id: str) -> RunReference:
    """Cancel the run of a conversation that is under way, or waits for a person.

    Raises NotFound, Conflict if there is none, Unavailable.
    """
    conversation_id, log = parse_id("conversation", conversation_id), Log(admin.pool)
    bus = admin.need_bus()
    with translate_errors():
        conversation = await _read(log, conversation_id)
        if conversation.account_id is None or conversation.erased:
            raise NotFound("conversation", conversation_id)
        run = conversation.active
        if run is None:
            raise Conflict("no run of the conversation is under way")
        asked = CancelRequested(trace_id=run.trace_id, account_id=conversation.account_id)
        await bus.traces.cancel(asked)
        conversation = await _read(log, conversation_id)
        waiting = conversation.run(run.trace_id)
        if waiting is not None and waiting.pending:  # no worker has it who would receive the cancellation
            await bus.queues.request_chat(rebuild_request(conversation, waiting, CANCELLED + waiting.attempt))
    async with admin.connection() as conn:
        await admin.note(conn, "cancel", "conversation", conversation_id, after={"trace_id": run.trace_id})
    return RunReference(
        conversation_id=conversation_id,
        trace_id=run.trace_id,
        agent_id=run.agent_id,
        version=run.agent_version,
    )


async def _read(log: Log, conversation_id: str) -> Conversation:
    try:
        return await log.load_conversation(conversation_id)
    except UnreadableEvent as error:
        raise Conflict(f"the conversation cannot be read: {error}") from None


async def _find_conversation(admin: Admin, account_id: str, new: NewMessage, trace_id: str) -> str | None:
    """Find the conversation that the message continues; None for a new one."""
    if new.conversation_id is None:
        return None
    known = await _read(Log(admin.pool), new.conversation_id.lower())
    if known.erased or known.account_id != account_id:
        raise NotFound("conversation", new.conversation_id)
    if new.fork_at is not None:
        return await _fork(admin, account_id, known.conversation_id, new.fork_at.lower(), trace_id)
    own = [run for run in known.runs if not run.inherited]
    if not own or any(run.form != FORM for run in own):
        raise Conflict(_NOT_A_PLAYGROUND)
    return known.conversation_id


async def _fork(admin: Admin, account_id: str, source_id: str, at: str, trace_id: str) -> str | None:
    """Fork the conversation; None if nothing precedes the message, so a new one is the same."""
    command = ForkConversation(
        trace_id=trace_id, account_id=account_id, conversation_id=make_id(), source_id=source_id, at=at
    )
    answer = await fork_conversation(admin.need_bus().rpc, command)
    match answer.outcome:
        case "forked":
            return command.conversation_id
        case "nothing_said":
            return None
        case "unknown_message":
            raise Invalid("fork_at", "is no message of the conversation")
        case "busy":
            raise Disallowed("conversation_busy")
        case "too_large":
            raise Disallowed("conversation_too_large")
        case "unreadable":
            raise Conflict("the conversation cannot be read")
        case _:
            raise NotFound("conversation", source_id)


def _build_request(
    row: AgentRow, new: NewMessage, conversation_id: str | None, trace_id: str, now: str
) -> ChatRequested:
    deadline = datetime.fromisoformat(now) + timedelta(seconds=ACCEPT_SECONDS)
    return ChatRequested(
        trace_id=trace_id,
        attempt=1,
        account_id=row.account_id,
        agent_id=row.agent_id,
        agent_version=row.version,
        conversation_id=conversation_id or make_id(),
        new_conversation=conversation_id is None,
        message_id=make_id(),
        message=new.message.replace("\x00", "\ufffd"),
        form=FORM,
        context=new.context or None,
        requested_at=now,
        deadline=deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    )


async def _submit_request(admin: Admin, request: ChatRequested) -> None:
    """Publish the request and wait until its message is saved.

    The consumer of the request is `orchestrator.inbox.inbox.Inbox.handle`.

    Raises:
        Disallowed: The run was refused.
        Unavailable, BusUnavailable
    """
    bus, loop = admin.need_bus(), asyncio.get_running_loop()
    begun: asyncio.Future[frames.Accepted | frames.Refused] = loop.create_future()

    def on_frame(frame: frames.Frame) -> None:
        if isinstance(frame, frames.Queued):
            patience.reschedule(loop.time() + LINE_SECONDS + LINE_SLACK_SECONDS)
        elif isinstance(frame, frames.Accepted | frames.Refused) and not begun.done():
            begun.set_result(frame)

    following = await bus.traces.follow_trace(request.trace_id, on_frame)
    try:
        async with asyncio.timeout(ACCEPT_SECONDS) as patience:
            await bus.queues.request_chat(request)
            frame = await begun
    except TimeoutError:
        raise Unavailable(_NOT_TAKEN) from None
    finally:
        await following.close()
    if isinstance(frame, frames.Refused):
        raise Disallowed(frame.code)


async def _tag_conversation(admin: Admin, request: ChatRequested) -> None:
    """Tag the conversation as a playground's, for lists."""
    command = DescribeConversation(
        trace_id=request.trace_id,
        account_id=request.account_id,
        conversation_id=request.conversation_id,
        metadata={TAG: admin.actor},
    )
    try:
        await describe_conversation(admin.need_bus().rpc, command)
    except BusUnavailable as error:
        logs.get_logger("administration").warning("playground_not_tagged", reason=str(error))
