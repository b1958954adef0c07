"""What else writes to conversations than their runs: commands of their accounts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import assert_never

from bus import BusUnavailable, Declined
from contracts import subjects, wire
from contracts.messages import (
    ApprovalAnswered,
    Command,
    DecideApproval,
    DescribeAnswered,
    DescribeConversation,
    EraseAnswered,
    EraseConversation,
    ForkAnswered,
    ForkConversation,
)
from contracts.timings import COMMAND_SECONDS
from conversations.aggregate import title_and_metadata
from conversations.aggregate.conversation import Conversation
from conversations.database import server_now
from conversations.errors import TooMuchLoaded, UnknownEvent, UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from orchestrator.orchestrator_services import Parts
from orchestrator.rpc.erasing import erase
from orchestrator.rpc.fork_command import fork
from orchestrator.rpc.record_decision import decide
from runtime import logs
from runtime.postgres import DatabaseUnavailable

QUEUE = "orchestrators"
Answer = EraseAnswered | DescribeAnswered | ApprovalAnswered | ForkAnswered


async def describe(parts: Parts, command: DescribeConversation) -> DescribeAnswered:
    """Obey it once, however often it is given.

    Raises DatabaseUnavailable, UnknownEvent: another worker, of a newer release, is to be asked.
    """
    while True:
        conversation = await _load(parts, command.conversation_id)
        decided = title_and_metadata.describe(conversation, command, await server_now(parts.pool))
        if isinstance(decided, DescribeAnswered):
            return decided
        try:
            # Not through the cache: a conversation that holds something unreadable is described too.
            await parts.store.append_stored(
                conversation.conversation_id, conversation.version, mapper.stored([decided])
            )
        except VersionConflict:
            continue
        return DescribeAnswered(outcome="described", version=conversation.version + 1)


async def _load(parts: Parts, conversation_id: str) -> Conversation:
    """The conversation; without those of its events that cannot be decoded. Raises as `describe`."""
    try:
        return await parts.store.load(conversation_id)
    except UnknownEvent:
        raise
    except UnreadableEvent:
        return await parts.store.load_readable(conversation_id)


class Commands:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._running = 0
        self._none = asyncio.Event()
        self._none.set()

    async def handle(self, data: bytes) -> bytes:
        """Take one command to its end.

        Raises msgspec.DecodeError for what is none, Declined where a worker of a newer release is to take it.
        """
        command = wire.decode_command(data)
        with (
            self._counted(),
            logs.bound(
                trace_id=command.trace_id,
                conversation_id=command.conversation_id,
                account_id=command.account_id,
            ),
            self._parts.loads.loading_for(command.account_id),
        ):
            answer = await self._answer(command)
            log = logs.get_logger("commands")
            log.info("command_answered", command=type(command).__name__, outcome=_outcome(answer))
            return wire.encode(answer)

    async def wait_until_none(self) -> None:
        await self._none.wait()

    async def _answer(self, command: Command) -> Answer:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                return await _obeyed(self._parts, command)
        except (DatabaseUnavailable, BusUnavailable, TimeoutError, TooMuchLoaded) as error:
            logs.get_logger("commands").warning("not_obeyed", reason=str(error))
            return _unavailable(command)
        except UnknownEvent as error:
            raise Declined(str(error)) from error

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._running += 1
        self._none.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._none.set()


def _outcome(answer: Answer) -> str:
    return answer.code or "decided" if isinstance(answer, ApprovalAnswered) else answer.outcome


async def _obeyed(parts: Parts, command: Command) -> Answer:
    match command:
        case EraseConversation():
            return EraseAnswered(outcome="erased" if await erase(parts, command) else "not_found")
        case DescribeConversation():
            return await describe(parts, command)
        case DecideApproval():
            return await decide(parts, command)
        case ForkConversation():
            return await fork(parts, command)
        case _:
            assert_never(command)


def _unavailable(command: Command) -> Answer:
    match command:
        case EraseConversation():
            return EraseAnswered(outcome="unavailable")
        case DescribeConversation():
            return DescribeAnswered(outcome="unavailable")
        case DecideApproval():
            return ApprovalAnswered(code="overloaded", detail="It cannot be decided just now.")
        case ForkConversation():
            return ForkAnswered(outcome="unavailable")
        case _:
            assert_never(command)


@contextlib.asynccontextmanager
async def serving_commands(parts: Parts) -> AsyncIterator[None]:
    """Serve commands while the block runs; what was begun is brought to its end."""
    commands = Commands(parts)
    serving = await parts.bus.rpc.serve(subjects.ALL_COMMANDS, QUEUE, commands.handle)
    try:
        yield
    finally:
        await serving.close()
        await commands.wait_until_none()
