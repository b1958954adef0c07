"""Beginning a conversation with a copy of another one's past, on its account's command.

A long past is stored in pieces, so that other appends go on; nobody finds the fork before its last piece is
stored. Its source is only read. Whoever is asked again goes on where another was killed, and what nobody goes
on with is removed.
"""

import asyncio
import os
from collections.abc import Sequence

from contracts import events
from contracts.messages import ForkAnswered, ForkConversation
from conversations.aggregate import forking
from conversations.database import server_now
from conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.store import ConversationStore
from conversations.unfinished_forks import abandoned_forks
from orchestrator.orchestrator_services import Parts
from runtime.logs import get_logger
from runtime.postgres import Pool

ABANDONED_SECONDS = 60.0
"""A command takes COMMAND_SECONDS at most, and is given again for less than this."""


async def fork(parts: Parts, command: ForkConversation) -> ForkAnswered:
    """Obey it once, however often it is given.

    Raises DatabaseUnavailable, UnknownEvent: another worker, of a newer release, is to be asked.
    """
    log = Log(parts.pool)
    while True:
        try:
            async with parts.fork_decisions:
                stored = [entry.event for entry in await log.all_of(command.conversation_id)]
                if answered := forking.answer_of(stored, command):
                    return answered
                source, now = await log.rows(command.source_id), await server_now(parts.pool)
                # In a thread, one at a time: it may be thousands of events.
                decided = await asyncio.to_thread(_decided, stored, source, command, now)
        except UnknownEvent:
            raise
        except UnreadableEvent as error:
            get_logger("commands").warning("fork_unreadable", reason=str(error))
            return ForkAnswered(outcome="unreadable")
        if isinstance(decided, ForkAnswered):
            return decided
        try:
            await _store(parts, command.conversation_id, len(stored), decided)
        except VersionConflict:
            continue
        return ForkAnswered(outcome="forked", version=len(stored) + len(decided))


async def remove_abandoned(
    pool: Pool, store: ConversationStore, *, seconds: float = ABANDONED_SECONDS
) -> int:
    """Erase the forks that were begun so long ago and lack copies; returns how many.

    Raises DatabaseUnavailable.
    """
    log, removed = Log(pool), 0
    for conversation_id in await abandoned_forks(pool, seconds=seconds):
        version = await log.end_of(conversation_id)
        account_id = (await log.accounts_of([conversation_id])).get(conversation_id, "")
        erased = events.ConversationErased(
            trace_id=os.urandom(16).hex(), at=await server_now(pool), account_id=account_id
        )
        try:
            await store.append_stored(conversation_id, version, mapper.stored([erased]))
        except VersionConflict:
            continue  # another worker was first, or somebody goes on with it
        removed += 1
    return removed


async def _store(
    parts: Parts, conversation_id: str, version: int, facts: Sequence[tuple[str, bytes]]
) -> None:
    """In pieces, one fork's at a time, with as long a pause after each as it took. Raises VersionConflict."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(facts), forking.PIECE):
        piece = facts[start : start + forking.PIECE]
        async with parts.fork_pieces:
            began = loop.time()
            await parts.store.append_stored(conversation_id, version + start, piece)
            if len(facts) > forking.PIECE:
                await asyncio.sleep(loop.time() - began)


def _decided(
    stored: Sequence[events.Event], source: Sequence[LogEntry], command: ForkConversation, now: str
) -> list[tuple[str, bytes]] | ForkAnswered:
    """What is to be stored. Raises UnreadableEvent."""
    past = [entry.event for entry in source]
    if forking.is_unfinished(stored):
        decided = forking.rest(stored, past, command)
    else:
        decided = forking.fork(past, [len(entry.state) for entry in source], command, now)
    return decided if isinstance(decided, ForkAnswered) else mapper.stored(decided)
