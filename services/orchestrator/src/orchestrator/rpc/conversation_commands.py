"""What else writes to conversations than their runs: commands of their accounts."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar, assert_never

from bus.errors import BusUnavailable, Declined
from contracts import events, messages, subjects, wire
from contracts.timings import COMMAND_SECONDS
from conversations.aggregate import giving_feedback, title_and_metadata
from conversations.aggregate.conversation import Conversation
from conversations.database import server_now
from conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from orchestrator.orchestrator_services import Parts
from orchestrator.rpc.erasing import erase
from orchestrator.rpc.fork_command import fork
from orchestrator.rpc.record_decision import decide
from runtime import logs
from runtime.postgres import DatabaseUnavailable

QUEUE = "orchestrators"
Answer = (
    messages.EraseAnswered
    | messages.DescribeAnswered
    | messages.ApprovalAnswered
    | messages.ForkAnswered
    | messages.FeedbackAnswered
)
C = TypeVar("C", messages.DescribeConversation, messages.GiveFeedback)
A = TypeVar("A", messages.DescribeAnswered, messages.FeedbackAnswered)


async def describe(parts: Parts, command: messages.DescribeConversation) -> messages.DescribeAnswered:
    """Obey it once, however often it is given. Raises as `_said`."""
    answer = await _said(parts, command, title_and_metadata.describe)
    if isinstance(answer, int):
        return messages.DescribeAnswered(outcome="described", version=answer)
    return answer


async def give_feedback(parts: Parts, command: messages.GiveFeedback) -> messages.FeedbackAnswered:
    """Store the feedback once, however often the command is given. Raises as `_said`."""
    answer = await _said(parts, command, giving_feedback.give)
    if isinstance(answer, int):
        return messages.FeedbackAnswered(outcome="recorded", version=answer)
    return answer


async def _said(
    parts: Parts, command: C, rule: Callable[[Conversation, C, str], events.Event | A]
) -> A | int:
    """What the rule answers; or the version of the event that it has to append, which then is stored.

    Raises DatabaseUnavailable, UnknownEvent: another worker, of a newer release, is to be asked.
    """
    while True:
        conversation = await _load(parts, command.conversation_id)
        decided = rule(conversation, command, await server_now(parts.pool))
        if isinstance(decided, messages.DescribeAnswered | messages.FeedbackAnswered):
            return decided
        try:
            # Not through the cache: a conversation that holds something unreadable takes it too.
            await parts.store.append_stored(
                conversation.conversation_id, conversation.version, mapper.stored([decided])
            )
        except VersionConflict:
            continue
        return conversation.version + 1


async def _load(parts: Parts, conversation_id: str) -> Conversation:
    """The conversation; without those of its events that cannot be decoded. Raises as `_said`."""
    try:
        return await parts.store.load(conversation_id)
    except UnknownEvent:
        raise
    except UnreadableEvent:
        return await parts.store.load_readable(conversation_id)


def serving_commands(parts: Parts) -> AbstractAsyncContextManager[None]:
    """Serve commands while the block runs, any number at a time; what was begun is brought to its end."""
    return parts.bus.rpc.serving(subjects.ALL_COMMANDS, QUEUE, partial(_handle, parts))


async def _handle(parts: Parts, data: bytes) -> bytes:
    """Raises DecodeError for what is none, Declined where a worker of a newer release is to take it."""
    command = wire.decode_command(data)
    log = logs.get_logger("commands")
    with (
        logs.bound(
            trace_id=command.trace_id,
            conversation_id=command.conversation_id,
            account_id=command.account_id,
        ),
    ):
        answer: Answer
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                answer = await _obeyed(parts, command)
        except (DatabaseUnavailable, BusUnavailable, TimeoutError) as error:
            log.warning("not_obeyed", reason=str(error))
            answer = _unavailable(command)
        except UnknownEvent as error:
            raise Declined(str(error)) from error
        log.info("command_answered", command=type(command).__name__, outcome=_outcome(answer))
        return wire.encode(answer)


def _outcome(answer: Answer) -> str:
    return answer.code or "decided" if isinstance(answer, messages.ApprovalAnswered) else answer.outcome


async def _obeyed(parts: Parts, command: messages.Command) -> Answer:
    match command:
        case messages.EraseConversation():
            return messages.EraseAnswered(outcome="erased" if await erase(parts, command) else "not_found")
        case messages.DescribeConversation():
            return await describe(parts, command)
        case messages.DecideApproval():
            return await decide(parts, command)
        case messages.ForkConversation():
            return await fork(parts, command)
        case messages.GiveFeedback():
            return await give_feedback(parts, command)
        case _:
            assert_never(command)


def _unavailable(command: messages.Command) -> Answer:
    match command:
        case messages.EraseConversation():
            return messages.EraseAnswered(outcome="unavailable")
        case messages.DescribeConversation():
            return messages.DescribeAnswered(outcome="unavailable")
        case messages.DecideApproval():
            return messages.ApprovalAnswered(code="overloaded", detail="It cannot be decided just now.")
        case messages.ForkConversation():
            return messages.ForkAnswered(outcome="unavailable")
        case messages.GiveFeedback():
            return messages.FeedbackAnswered(outcome="unavailable")
        case _:
            assert_never(command)
