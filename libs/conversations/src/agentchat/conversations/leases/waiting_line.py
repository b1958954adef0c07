"""Queue the messages of a busy conversation: first come, first served, across all workers.

A place is leased like a run. If its worker died, it is skipped once it has expired, but kept: the message
gets its old place back when it arrives at another worker.

Leaving a place notifies all workers. Each then asks, by one statement, which of its waiters are first, and
does so now and then without a notification: places expire without one.
"""

import asyncio
from collections.abc import Sequence

import msgspec
import psycopg

from agentchat.contracts.ids import make_id
from agentchat.contracts.timings import LEASE_SECONDS
from agentchat.conversations.errors import WaiterLost, WaitingLineFull
from agentchat.conversations.postgres_sessions import (
    listen,
    load_statements,
    open_session,
    wait_for_notifications,
)
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Connection, DatabaseUnavailable, Pool, acquire_connection
from agentchat.runtime.retry_loops import follow, wait_for_event

MAX_IN_CONVERSATION = 20
"""The most messages that may wait for one conversation."""

MAX_IN_ACCOUNT = 200
"""The most messages of one account that may wait, for any of its conversations."""

LOOK_SECONDS = 5.0
"""The time after which a turn is noticed if its notification was missed."""

_RETRY_SECONDS = 1.0


class _Waiter(msgspec.Struct, frozen=True):
    conversation_id: str
    first: asyncio.Event


class WaitingLine:
    """The places of one worker process. Every call raises DatabaseUnavailable."""

    def __init__(
        self,
        pool: Pool,
        worker: str,
        *,
        max_in_conversation: int = MAX_IN_CONVERSATION,
        max_in_account: int = MAX_IN_ACCOUNT,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._pool = pool
        self._bounds = {"in_conversation": max_in_conversation, "in_account": max_in_account}
        self._look_seconds = look_seconds
        self._worker = f"{worker}/{make_id()}"
        self._waiting: dict[str, _Waiter] = {}

    async def join(
        self,
        conversation_id: str,
        trace_id: str,
        asked_at: str,
        account_id: str,
        model: str | None = None,
    ) -> None:
        """Take the place of a request made at `asked_at` (ISO 8601), or keep the one it had.

        Arrival order at workers differs from request order. `model` is the requested one, for readers of the
        line. Raises WaitingLineFull, unless it had a place.
        """
        self._waiting[trace_id] = _Waiter(conversation_id, asyncio.Event())
        given = {
            "trace": trace_id,
            "conversation": conversation_id,
            "account": account_id,
            "model": model,
            "asked_at": asked_at,
            "worker": self._worker,
            "seconds": LEASE_SECONDS,
            **self._bounds,
        }
        async with acquire_connection(self._pool) as conn:
            joined = (await conn.execute(_JOIN, given)).rowcount
        if not joined:
            self.leave_to_successor(trace_id)
            raise WaitingLineFull(conversation_id)

    async def join_before_all(self, conversation_id: str, trace_id: str) -> None:
        """Take the place before the first.

        Nobody who waits or comes starts a run until it is left.
        """
        self._waiting[trace_id] = _Waiter(conversation_id, asyncio.Event())
        async with acquire_connection(self._pool) as conn:
            await conn.execute(_GO_BEFORE, [trace_id, conversation_id, self._worker, LEASE_SECONDS])

    async def is_first(self, conversation_id: str, trace_id: str) -> bool:
        """Return True if nobody waits before this trace, or nobody at all if it has no place in line."""
        return await self._find_first([trace_id], [conversation_id]) == [trace_id]

    async def wait_until_first(self, trace_id: str, seconds: float) -> bool:
        """Wait until nobody waits before this trace, which has a place here.

        Return False when time is up. Raises WaiterLost as soon as another delivery of the same request has
        left the line.
        """
        waiter = self._waiting.get(trace_id)
        if waiter is None:
            raise WaiterLost(trace_id)
        waiter.first.clear()
        if await self.is_first(waiter.conversation_id, trace_id):
            return True
        if not await wait_for_event(waiter.first, seconds):
            return False
        if self._waiting.get(trace_id) is not waiter:
            raise WaiterLost(trace_id)
        return True

    async def leave(self, trace_id: str) -> None:
        """Give up the place, because it is this trace's turn or it stops waiting."""
        self.leave_to_successor(trace_id)
        async with acquire_connection(self._pool) as conn:
            left = await (await conn.execute(_LEAVE, [trace_id])).fetchone()
            if left is not None:
                # After the commit: see `event_store.append_writer`. Waiters also poll, in case it is lost.
                await conn.execute(_NOTIFY, [_CHANNEL, left[0]])

    def leave_to_successor(self, trace_id: str) -> None:
        """Leave the place to the worker that receives the request next.

        It counts until it expires.
        """
        waiter = self._waiting.pop(trace_id, None)
        if waiter is not None:
            waiter.first.set()

    async def renew(self) -> None:
        """Renew all places of this worker for ten seconds. Call it as often as `Leases.renew`."""
        if not self._waiting:
            return
        async with acquire_connection(self._pool) as conn:
            await conn.execute(_RENEW, [LEASE_SECONDS, self._worker, list(self._waiting)])

    async def follow(self, database_url: str) -> None:
        """Wake the local waiters when they are first, until cancelled."""

        async def wake_in_turn() -> None:
            async with open_session(database_url, self._worker) as connection:
                await listen(connection, _CHANNEL)
                while True:
                    await self._wake()
                    await self._wait_for_move(connection)

        away = (psycopg.Error, DatabaseUnavailable)
        log = get_logger("agentchat.conversations.leases.waiting_line")
        await follow(
            wake_in_turn, away, retry_seconds=_RETRY_SECONDS, log=log, problem="queue_listener_failed"
        )

    async def _wait_for_move(self, connection: Connection) -> None:
        """Wait until a line with a local waiter has moved, or `look_seconds` have passed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._look_seconds
        moved = False
        while not moved and loop.time() < end:
            for name in await wait_for_notifications(connection, seconds=end - loop.time()):
                moved = moved or any(name == each.conversation_id for each in self._waiting.values())

    async def _wake(self) -> None:
        if self._waiting:
            conversation_ids = [waiter.conversation_id for waiter in self._waiting.values()]
            for trace_id in await self._find_first(list(self._waiting), conversation_ids):
                if waiter := self._waiting.get(trace_id):
                    waiter.first.set()

    async def _find_first(self, trace_ids: Sequence[str], conversation_ids: Sequence[str]) -> list[str]:
        """Return those of these traces, each of its conversation, that nobody waits before."""
        async with acquire_connection(self._pool) as conn:
            cursor = await conn.execute(_FIRST, [list(trace_ids), list(conversation_ids)])
            return [trace_id for (trace_id,) in await cursor.fetchall()]


async def count_waiters(pool: Pool) -> int:
    """Count the waiting messages of all conversations. Raises DatabaseUnavailable."""
    async with acquire_connection(pool) as conn:
        row = await (await conn.execute(_COUNT)).fetchone()
    return 0 if row is None else int(row[0])


async def delete_expired_waiters(pool: Pool) -> None:
    """Delete the places of dead workers an hour after they expired."""
    async with acquire_connection(pool) as conn:
        await conn.execute(_FORGET)


_CHANNEL = "waiting_line"

_SQL = load_statements(__file__)
_JOIN, _GO_BEFORE, _FIRST, _RENEW = (_SQL[name] for name in ("join", "go_before", "first", "renew"))

_NOTIFY = "SELECT pg_notify(%s, %s)"

_LEAVE = "DELETE FROM waiting_line WHERE trace_id = %s RETURNING conversation_id"

_COUNT = "SELECT count(*) FROM waiting_line WHERE expires_at > clock_timestamp()"

_FORGET = "DELETE FROM waiting_line WHERE expires_at < clock_timestamp() - interval '1 hour'"
