"""Beginning a conversation with a copy of another one's past, on its account's command.

A long past is stored in pieces, so that other appends go on; nobody finds the fork before its last piece is
stored. Its source is only read, as far as it may be copied. Whoever is asked again goes on where another was
killed, and what nobody goes on with is removed. Accounts take turns.
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence

from contracts import events
from contracts.messages import ForkAnswered, ForkConversation
from contracts.timings import COMMAND_SECONDS
from conversations.aggregate import forking
from conversations.database import server_now
from conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from conversations.event_store import mapper
from conversations.event_store.log import Log, LogEntry, bytes_of, in_thread_if_large
from conversations.event_store.store import ConversationStore
from conversations.queries.unlisted import abandoned_forks
from orchestrator.orchestrator_services import Parts
from runtime.logs import get_logger
from runtime.postgres import Pool
from runtime.shared_task import shared

ABANDONED_SECONDS = 60.0
"""A command takes COMMAND_SECONDS at most, and is given again for less than this."""


async def fork(parts: Parts, command: ForkConversation) -> ForkAnswered:
    """Obey it once, however often it is given: whoever is asked again meanwhile awaits the same task.

    Raises DatabaseUnavailable, TimeoutError, and UnknownEvent: a worker of a newer release is to be asked.
    """
    task = parts.forks.get(command)
    if task is None:
        task = parts.forks[command] = shared(_obeyed(parts, command))
        task.add_done_callback(lambda _: parts.forks.pop(command))
    return await asyncio.shield(task)


async def _obeyed(parts: Parts, command: ForkConversation) -> ForkAnswered:
    async with asyncio.timeout(COMMAND_SECONDS):
        while True:
            version, decided = await _decide(parts, command)
            if isinstance(decided, ForkAnswered):
                return decided
            with contextlib.suppress(VersionConflict):
                await _store(parts, command, version, decided)
                return ForkAnswered(outcome="forked", version=version + len(decided))


async def _decide(
    parts: Parts, command: ForkConversation
) -> tuple[int, list[tuple[str, bytes]] | ForkAnswered]:
    """The version that the fork has come to, and what is to be stored after it."""
    try:
        async with parts.fork_decisions.turn(command.account_id):
            begun = await parts.log.beginning(command.conversation_id, forking.PIECE)
            version = begun[-1].version if begun else 0
            stored = await in_thread_if_large(_events, begun)
            if answered := forking.answer_of(stored, version, command):
                return version, answered
            source, is_whole = await _source(parts, command, forking.until_version(stored, command))
            now = await server_now(parts.pool)

            def decided() -> list[tuple[str, bytes]] | ForkAnswered:
                past = _events(source)
                if stored:
                    found = forking.rest(stored, version, past, command)
                else:
                    sizes = [len(entry.state) for entry in source]
                    found = forking.fork(past, sizes, command, now, is_whole=is_whole)
                return found if isinstance(found, ForkAnswered) else mapper.stored(found)

            # In a thread, one at a time: it may be thousands of events.
            return version, await asyncio.to_thread(decided)
    except UnknownEvent:
        raise
    except UnreadableEvent as error:
        get_logger("commands").warning("fork_unreadable", reason=str(error))
        return 0, ForkAnswered(outcome="unreadable")


async def _source(
    parts: Parts, command: ForkConversation, until_version: int | None
) -> tuple[list[LogEntry], bool]:
    """The events that are copied, or a page more than may be; and whether these are all that were wanted."""
    source: list[LogEntry] = []
    pages = parts.log.pages(command.source_id, until_version=until_version, account_id=command.account_id)
    async with contextlib.aclosing(pages):
        async for page in pages:
            source += page
            if len(source) > forking.MAX_EVENTS or bytes_of(source) > forking.MAX_BYTES:
                return source, False
    return source, True


def _events(entries: Sequence[LogEntry]) -> list[events.Event]:
    return [entry.event for entry in entries]


async def remove_abandoned(
    pool: Pool, store: ConversationStore, *, seconds: float = ABANDONED_SECONDS
) -> int:
    """Erase the forks that were begun so long ago and lack copies; returns how many.

    Raises DatabaseUnavailable.
    """
    log, removed = Log(pool), 0
    for conversation_id in await abandoned_forks(pool, seconds=seconds):
        version = (await log.beginning(conversation_id, 0))[-1].version
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
    parts: Parts, command: ForkConversation, version: int, facts: Sequence[tuple[str, bytes]]
) -> None:
    """In pieces, one fork's at a time, with as long a pause after each as it took. Raises VersionConflict."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(facts), forking.PIECE):
        piece = facts[start : start + forking.PIECE]
        async with parts.fork_pieces.turn(command.account_id):
            began = loop.time()
            await parts.store.append_stored(command.conversation_id, version + start, piece)
            if len(facts) > forking.PIECE:
                await asyncio.sleep(loop.time() - began)
