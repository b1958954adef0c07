"""Execute the commands of accounts on their conversations. Sent by `bus.commands`."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeVar, assert_never

from agentchat.bus.errors import BusUnavailable, RequestDeclined
from agentchat.contracts import events, messages, subjects, wire
from agentchat.contracts.timings import COMMAND_SECONDS
from agentchat.conversations.aggregate import description_rules, feedback_rules
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.orchestrator.rpc.erase_conversation import erase
from agentchat.orchestrator.rpc.fork_command import fork
from agentchat.orchestrator.rpc.record_decision import record_decision
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable

QUEUE = "orchestrators"
Answer = (
    messages.EraseAnswered
    | messages.DescribeAnswered
    | messages.ApprovalAnswered
    | messages.ForkAnswered
    | messages.FeedbackAnswered
)
_UNAVAILABLE: dict[type, Answer] = {
    messages.EraseConversation: messages.EraseAnswered(outcome="unavailable"),
    messages.DescribeConversation: messages.DescribeAnswered(outcome="unavailable"),
    messages.DecideApproval: messages.ApprovalAnswered(
        code="overloaded", detail="The decision cannot be recorded at the moment. Try again."
    ),
    messages.ReturnToolResults: messages.ApprovalAnswered(
        code="overloaded", detail="The results cannot be recorded at the moment. Try again."
    ),
    messages.ForkConversation: messages.ForkAnswered(outcome="unavailable"),
    messages.GiveFeedback: messages.FeedbackAnswered(outcome="unavailable"),
}
C = TypeVar("C", messages.DescribeConversation, messages.GiveFeedback)
A = TypeVar("A", messages.DescribeAnswered, messages.FeedbackAnswered)


async def _append_by_rule(
    services: WorkerServices, command: C, rule: Callable[[Conversation, C, str], events.Event | A]
) -> A | int:
    """Return the answer of the rule, or append its event and return the event's version.

    Raises:
        DatabaseUnavailable
        UnknownEvent: A worker of a newer release must be asked.
    """
    while True:
        conversation = await _load(services, command.conversation_id)
        decided = rule(conversation, command, await read_server_time(services.pool))
        if isinstance(decided, messages.DescribeAnswered | messages.FeedbackAnswered):
            return decided
        try:
            # Bypasses the cache, so that a conversation with an unreadable event can be described too.
            await services.store.append_stored(
                conversation.conversation_id, conversation.version, mapper.encode_pairs([decided])
            )
        except VersionConflict:
            continue
        return conversation.version + 1


async def _load(services: WorkerServices, conversation_id: str) -> Conversation:
    """Load the conversation, without the events that cannot be decoded. Raises as `_append_by_rule`."""
    try:
        return await services.store.load(conversation_id)
    except UnknownEvent:
        raise
    except UnreadableEvent:
        return await services.store.load_readable(conversation_id)


def serve_commands(services: WorkerServices) -> AbstractAsyncContextManager[None]:
    """Serve commands while the block runs, any number at once; started ones are finished."""
    return services.bus.rpc.serve_until_closed(subjects.ALL_COMMANDS, QUEUE, partial(_handle, services))


async def _handle(services: WorkerServices, data: bytes) -> bytes:
    """Execute a command. Raises DecodeError, or Declined if a newer release must execute it."""
    command = wire.decode_command(data)
    log = logs.get_logger("commands")
    with (
        logs.bind_context(
            trace_id=command.trace_id,
            conversation_id=command.conversation_id,
            account_id=command.account_id,
        ),
    ):
        answer: Answer
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                answer = await _execute(services, command)
        except (DatabaseUnavailable, BusUnavailable, TimeoutError) as error:
            log.warning("command_failed", reason=str(error))
            answer = _UNAVAILABLE[type(command)]
        except UnknownEvent as error:
            raise RequestDeclined(str(error)) from error
        log.info("command_answered", command=type(command).__name__, outcome=_get_outcome(answer))
        return wire.encode(answer)


def _get_outcome(answer: Answer) -> str:
    return answer.code or "decided" if isinstance(answer, messages.ApprovalAnswered) else answer.outcome


async def _execute(services: WorkerServices, command: messages.Command) -> Answer:
    match command:
        case messages.EraseConversation():
            return messages.EraseAnswered(outcome="erased" if await erase(services, command) else "not_found")
        case messages.DescribeConversation():
            described = await _append_by_rule(services, command, description_rules.describe_conversation)
            if isinstance(described, int):
                return messages.DescribeAnswered(outcome="described", version=described)
            return described
        case messages.DecideApproval() | messages.ReturnToolResults():
            return await record_decision(services, command)
        case messages.ForkConversation():
            return await fork(services, command)
        case messages.GiveFeedback():
            given = await _append_by_rule(services, command, feedback_rules.give_feedback)
            if isinstance(given, int):
                return messages.FeedbackAnswered(outcome="recorded", version=given)
            return given
        case _:
            assert_never(command)
