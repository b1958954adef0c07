"""Fork a conversation: start one with a copy of another one's past.

The source is read as far as it may be copied, and the fork is stored by one append.
"""

import asyncio
import contextlib

from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.contracts.timings import COMMAND_SECONDS
from agentchat.conversations.aggregate import forking
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.event_log import LogEntry, sum_bytes
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime.logs import get_logger
from agentchat.runtime.shared_task import start_shared_task


async def fork(services: WorkerServices, command: ForkConversation) -> ForkAnswered:
    """Execute the command once: a repeated command waits for the same task.

    Raises:
        DatabaseUnavailable, TimeoutError
        UnknownEvent: A worker of a newer release must be asked.
    """
    task = services.forks.get(command)
    if task is None:
        task = services.forks[command] = start_shared_task(_execute(services, command))
        task.add_done_callback(lambda _: services.forks.pop(command))
    return await asyncio.shield(task)


async def _execute(services: WorkerServices, command: ForkConversation) -> ForkAnswered:
    async with asyncio.timeout(COMMAND_SECONDS):
        while True:
            decided = await _decide(services, command)
            if isinstance(decided, ForkAnswered):
                return decided
            with contextlib.suppress(VersionConflict):
                await services.store.append_stored(command.conversation_id, 0, decided)
                return ForkAnswered(outcome="forked", version=len(decided))


async def _decide(
    services: WorkerServices, command: ForkConversation
) -> list[tuple[str, bytes]] | ForkAnswered:
    """Return the events of the fork as they are stored, or the answer if there is none."""
    try:
        async with services.fork_decisions.turn(command.account_id):
            stored = await services.log.read_events(command.conversation_id)
            if answered := forking.find_answer(stored, command):
                return answered
            source, is_whole = await _load_source(services, command)
            now = await read_server_time(services.pool)

            def decide_fork() -> list[tuple[str, bytes]] | ForkAnswered:
                past, sizes = [entry.event for entry in source], [len(entry.state) for entry in source]
                found = forking.fork(past, sizes, command, now, is_whole=is_whole)
                return found if isinstance(found, ForkAnswered) else mapper.encode_pairs(found)

            # In a thread, one at a time: there may be thousands of events.
            return await asyncio.to_thread(decide_fork)
    except UnknownEvent:
        raise
    except UnreadableEvent as error:
        get_logger("commands").warning("fork_unreadable", reason=str(error))
        return ForkAnswered(outcome="unreadable")


async def _load_source(services: WorkerServices, command: ForkConversation) -> tuple[list[LogEntry], bool]:
    """Return the events to copy, and True if that is all of them.

    A source that is too large is read one page further than may be copied.
    """
    source: list[LogEntry] = []
    until_version = max(1, command.at) if isinstance(command.at, int) else None
    pages = services.log.read_pages(command.source_id, until_version=until_version)
    async with contextlib.aclosing(pages):
        async for page in pages:
            source += page
            if len(source) > forking.MAX_EVENTS or sum_bytes(source) > forking.MAX_BYTES:
                return source, False
    return source, True
