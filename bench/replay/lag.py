"""How far the read models are behind while messages come at an even rate, with a projector at work."""

import asyncio
import bisect
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator

import psycopg

from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.event_store.store import ConversationStore, open_store
from ops.ports import Ports
from ops.stack import Servers
from runtime.postgres import Pool, connection, open_pool

PER_SECOND = 100
_SECONDS = 20
_THREADS = 50
_LOOK_SECONDS = 0.001
_READY_SECONDS = 60.0
_AT = "2026-11-21T09:00:00.000000Z"


async def lags(servers: Servers) -> list[float]:
    """Seconds from an append's confirmation until the message is in the read model, sorted."""
    async with (
        projector(servers),
        open_pool(servers.database_url) as pool,
        open_store(servers.database_url) as store,
    ):
        threads = [await _began(store) for _ in range(_THREADS)]
        await followed(pool)
        seen: list[tuple[int, float]] = []
        looking = asyncio.create_task(_look(pool, seen))
        appended = await _write(store, threads)
        await followed(pool)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        async with connection(pool) as conn:
            query = "SELECT message_id, position FROM messages WHERE message_id = ANY(%s)"
            rows = await (await conn.execute(query, [list(appended)])).fetchall()
    positions = [position for position, _ in seen]
    when = {name: seen[bisect.bisect_left(positions, position)][1] for name, position in rows}
    return sorted(max(0.0, when[name] - at) for name, at in appended.items())


async def _write(store: ConversationStore, threads: list[Conversation]) -> dict[str, float]:
    """When each message was confirmed, by its id."""
    appended: dict[str, float] = {}

    async def append(index: int) -> None:
        message = events.MessageSaved(
            trace_id=new_id(),
            at=_AT,
            message_id=new_id(),
            role="assistant",
            agent_id="a",
            content="Yes. " * 40,
        )
        threads[index] = await store.append(threads[index], [message])
        appended[message.message_id] = time.monotonic()

    began, tasks = time.monotonic(), list[asyncio.Task[None]]()
    for number in range(PER_SECOND * _SECONDS):
        await asyncio.sleep(began + number / PER_SECOND - time.monotonic())
        index = number % _THREADS
        if number >= _THREADS:
            await tasks[number - _THREADS]  # of the same thread
        tasks.append(asyncio.create_task(append(index)))
    await asyncio.gather(*tasks)
    return appended


async def _look(pool: Pool, seen: list[tuple[int, float]]) -> None:
    """Note when the read model's position changes."""
    async with connection(pool, seconds=_SECONDS * 10) as conn:
        while True:
            row = await (await conn.execute(_POSITION)).fetchone()
            if row and (not seen or seen[-1][0] != row[0]):
                seen.append((row[0], time.monotonic()))
            await asyncio.sleep(_LOOK_SECONDS)


async def _began(store: ConversationStore) -> Conversation:
    began = events.ConversationStarted(trace_id=new_id(), at=_AT, account_id="account-1")
    return await store.append(Conversation(conversation_id=new_id()), [began])


async def followed(pool: Pool, seconds: float = _READY_SECONDS) -> None:
    """Wait until the read models have all of the log."""
    async with asyncio.timeout(seconds), connection(pool, seconds=seconds) as conn:
        while await (await conn.execute(_BEHIND)).fetchone() != (False,):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def projector(servers: Servers) -> AsyncIterator[None]:
    """A projector at work on these servers, in a process of its own."""
    with contextlib.closing(Ports()) as ports:
        environ = os.environ | {
            "AGENTCHAT_DATABASE_URL": servers.database_url,
            "AGENTCHAT_NATS_URL": servers.nats_url,
            "AGENTCHAT_HEALTH_PORT": str(ports.free()),
            "AGENTCHAT_LOG_LEVEL": "error",
        }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "projector", env=environ)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def emptied(database_url: str) -> None:
    """Remove the log, and what was made of it."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(
            "TRUNCATE conversation_events, projection_positions, parked_events, conversations, messages,"
            " open_runs, usage, runs, tools, erasures"
        )


_POSITION = "SELECT position FROM projection_positions WHERE name = 'messages'"

_BEHIND = """
SELECT coalesce((SELECT position FROM projection_positions WHERE name = 'messages'), 0)
       < (SELECT max(notification_id) FROM conversation_events)
"""
