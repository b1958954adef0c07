"""Elect the projector that does the work: its session holds an advisory lock of Postgres.

Postgres ends a session that was silent for too long, so a leader that is suspended loses the lock, and
another projector takes over. If the suspended one continues, its session is gone, and what it still tries to
write is refused because of the positions that it states.

The same session listens for the notifications of `conversations.event_store.append_writer`, so that followers
begin at once.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine

from agentchat.conversations.postgres_sessions import (
    LEADER_LOCK,
    DatabaseError,
    cut_after,
    listen,
    open_session,
    wait_for_notifications,
)
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import Connection
from agentchat.runtime.retry_loops import follow
from agentchat.runtime.task_cancellation import wait_first

RETRY_SECONDS = 0.5
"""Seconds between two attempts to take the lock, and before a lost session is opened again."""

CHECK_SECONDS = 1.0
"""The leader's session executes a statement at least this often."""

SILENCE_SECONDS = 4
"""Postgres ends a session that was silent for this long.

SILENCE_SECONDS + RETRY_SECONDS <= 5 s, the longest time without a leader after one was stopped.
"""

REST_SECONDS = 0.065
"""The time after a step in which no other begins.

Under load a step takes more events instead. NOTIFY_SECONDS of the writer + REST_SECONDS + a step's own time
<= 0.1 s, the greatest delay of read models.
"""


class Leader:
    """Runs `work` while this process leads.

    `notify` is called after notifications on `channel`, by `conversations.event_store.append_writer`.
    """

    def __init__(self, database_url: str, name: str, *, channel: str, notify: Callable[[], None]) -> None:
        self.is_leading = False
        self._database_url = database_url
        self._name = name
        self._channel = channel
        self._notify = notify
        self._logger = get_logger("agentchat.projector.leader_election")

    async def run(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Stand by and lead in turns until cancelled."""

        async def lead_once() -> None:
            async with open_session(
                self._database_url, self._name, silence_seconds=SILENCE_SECONDS
            ) as session:
                await self._wait_for_lock(session)
                await listen(session, self._channel)
                await self._lead(session, work)

        await follow(
            lead_once, DatabaseError, retry_seconds=RETRY_SECONDS, log=self._logger, problem="session_lost"
        )

    async def _wait_for_lock(self, session: Connection) -> None:
        self._logger.info("standing_by")
        while True:
            with cut_after(session):
                cursor = await session.execute("SELECT pg_try_advisory_lock(%s)", [LEADER_LOCK])
                if await cursor.fetchone() == (True,):
                    return
            await asyncio.sleep(RETRY_SECONDS)

    async def _lead(self, session: Connection, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._logger.info("leading")
        self.is_leading = True
        try:
            await wait_first(work(), self._hold(session))
        finally:
            self.is_leading = False
            # Free the lock at once, before the server notices that the session is gone.
            with contextlib.suppress(DatabaseError), cut_after(session):
                await session.execute("SELECT pg_advisory_unlock(%s)", [LEADER_LOCK])
            self._logger.info("stopped_leading")

    async def _hold(self, session: Connection) -> None:
        """Pass on notifications, and notice a session that is gone. Raises psycopg.Error."""
        while True:
            with cut_after(session):
                await session.execute("SELECT 1")
            checked_at = time.monotonic()
            while (left := checked_at + CHECK_SECONDS - time.monotonic()) > 0:
                if await wait_for_notifications(session, seconds=left):
                    self._notify()
                    await asyncio.sleep(REST_SECONDS)
