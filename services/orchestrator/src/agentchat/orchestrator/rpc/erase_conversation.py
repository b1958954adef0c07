"""Erase conversations: on command, and after a while those that no list shows.

A run under way is cancelled first, and its worker gets a few seconds to end it. If nobody works on the run or
its worker does not respond, the erasure ends it, and later appends of its worker are refused. Only the newest
run of the conversation is loaded.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import events
from agentchat.contracts.messages import CancelRequested, EraseConversation
from agentchat.conversations.aggregate.conversation import Conversation, Run, evolve_all
from agentchat.conversations.aggregate.run_ends import cancel
from agentchat.conversations.errors import VersionConflict
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries.unlisted_conversations import list_unlisted
from agentchat.orchestrator.run.endings import publish_end
from agentchat.orchestrator.run.run_log import get_run
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable
from agentchat.runtime.retry_loops import repeat

_LOOK_SECONDS = 0.1

_RETENTION_LOOK_SECONDS = 60.0


async def erase(services: WorkerServices, command: EraseConversation) -> bool:
    """Erase a conversation. Return True if this command has erased it, now or earlier.

    Raises:
        DatabaseUnavailable, BusUnavailable
    """
    end = asyncio.get_running_loop().time() + services.timings.erase_cancel_seconds
    found = await services.log.load_newest_run(command.conversation_id)
    if not found.is_open_to(command):
        return found.erased_by == command.trace_id
    async with _go_first_in_line(services, command):
        while found.is_open_to(command):
            if await _is_in_use(services, command, found):
                return False
            run = found.active
            if run is None or not await _has_ended(services, command, run, end):
                with contextlib.suppress(VersionConflict):
                    await _end_and_erase(services, command, found)
                    return True
            found = await services.log.load_newest_run(command.conversation_id)
    # Another command was first, or this command succeeded but its reply was lost.
    return found.erased_by == command.trace_id


async def _is_in_use(services: WorkerServices, command: EraseConversation, found: Conversation) -> bool:
    """Return True if a run is open, or a message has been saved since the command's `idle_since`."""
    if command.idle_since is None:
        return False
    return found.active is not None or await services.log.has_message_since(found.id, command.idle_since)


@contextlib.asynccontextmanager
async def _go_first_in_line(services: WorkerServices, command: EraseConversation) -> AsyncIterator[None]:
    """Let no other run start while the block runs: requests in line find the conversation gone."""
    try:
        await services.line.join_before_all(command.conversation_id, command.trace_id)
        yield
    finally:
        with contextlib.suppress(DatabaseUnavailable):
            await services.line.leave(command.trace_id)


async def _has_ended(services: WorkerServices, command: EraseConversation, run: Run, end: float) -> bool:
    """Cancel the run and wait until it has ended, at most until `end`, while its worker lives."""
    asked = False
    while asyncio.get_running_loop().time() < end and await services.leases.has_live_lease(run.trace_id):
        if not asked:
            asked = True
            await services.bus.traces.cancel(
                CancelRequested(trace_id=run.trace_id, account_id=command.account_id)
            )
        await asyncio.sleep(_LOOK_SECONDS)
        if not await services.log.is_under_way(command.conversation_id, run.trace_id):
            return True
    return False


async def _end_and_erase(
    services: WorkerServices, command: EraseConversation, conversation: Conversation
) -> None:
    """End the run and erase the conversation. Raises VersionConflict if the run has progressed."""
    now = await read_server_time(services.pool)
    run = conversation.active
    end = cancel(run, now) if run is not None else ()
    erasure = events.ConversationErased(trace_id=command.trace_id, at=now, account_id=command.account_id)
    await services.store.append(conversation, [*end, erasure])
    if run is not None:
        ended = evolve_all(conversation, end)
        await publish_end(services, command.account_id, get_run(ended, run.trace_id))


async def keep_removing(services: WorkerServices, kept_seconds: float) -> None:
    """Remove unlisted conversations until cancelled. Every worker does so."""
    log = logs.get_logger("retention")

    async def remove() -> None:
        if removed := await remove_unlisted(services, kept_seconds):
            log.info("unlisted_removed", conversations=removed)

    await repeat(
        remove,
        min(_RETENTION_LOOK_SECONDS, kept_seconds),
        (DatabaseUnavailable, BusUnavailable),
        log=log,
        problem="unlisted_removal_failed",
    )


async def remove_unlisted(services: WorkerServices, kept_seconds: float) -> int:
    """Erase conversations whose last event is older than `kept_seconds`; return how many.

    Raises:
        DatabaseUnavailable, BusUnavailable
    """
    removed = 0
    async for each in list_unlisted(services.pool, idle_seconds=kept_seconds):
        command = EraseConversation(
            trace_id=os.urandom(16).hex(), account_id=each.account_id, conversation_id=each.conversation_id
        )
        removed += await erase(services, command)
    return removed
