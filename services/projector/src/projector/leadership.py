"""One leader at a time: an advisory lock of Postgres, held by a session that must keep speaking.

The leader says something every two seconds. Postgres ends a session that was silent for seven, so a process
that is stopped loses the lock, and another takes over within ten. Should the stopped one go on, its session
is gone, and what it still tries to write is refused by the position it states.

The same session listens for the recorder's notifications, so that the leader hears of appends.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from conversations.database import (
    EVENTS_TABLE,
    DatabaseError,
    bounded,
    listen,
    notifications,
    open_session,
    try_to_lead,
)
from runtime.logs import get_logger
from runtime.postgres import Connection

SILENCE_SECONDS = 7
BEAT_SECONDS = 2.0
RETRY_SECONDS = 0.5

GATHER_SECONDS = 0.02
"""After an append, so long is waited for others to share the step: a run makes several, close together."""

REST_SECONDS = 0.055
"""So long after a step no other begins: the more is appended, the more a step takes, and not the more steps.

GATHER_SECONDS + REST_SECONDS + a step's own time <= 0.1 s, what read models are to be behind at most
"""

Work = Callable[[], Awaitable[None]]


class Leadership:
    """Runs `work` while this process leads; `ring` is called after appends meanwhile."""

    def __init__(self, database_url: str, name: str, ring: Callable[[], None]) -> None:
        self.leading = False
        self._database_url = database_url
        self._name = name
        self._ring = ring
        self._logger = get_logger("projector.leadership")

    async def run(self, work: Work) -> None:
        """Stand by, lead, stand by again, until cancelled. `work` is cancelled when the lock is lost."""
        while True:
            try:
                opening = open_session(self._database_url, self._name, silence_seconds=SILENCE_SECONDS)
                async with opening as session:
                    await self._take(session)
                    await self._lead(session, work)
            except DatabaseError as error:
                self._logger.warning("session_lost", reason=str(error).strip().partition("\n")[0])
            await asyncio.sleep(RETRY_SECONDS)

    async def _take(self, session: Connection) -> None:
        self._logger.info("standing_by")
        while True:
            if await try_to_lead(session):
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _lead(self, session: Connection, work: Work) -> None:
        await listen(session, EVENTS_TABLE)
        self._logger.info("leading")
        self.leading = True
        working = asyncio.ensure_future(work())
        holding = asyncio.ensure_future(self._hold(session))
        try:
            await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
            else:
                await holding
        finally:
            self.leading = False
            working.cancel()
            holding.cancel()
            await asyncio.gather(working, holding, return_exceptions=True)
            self._logger.info("leading_no_more")

    async def _hold(self, session: Connection) -> None:
        said = time.monotonic()
        while True:
            if await notifications(session, seconds=said + BEAT_SECONDS - time.monotonic()):
                await asyncio.sleep(GATHER_SECONDS)
                self._ring()
                await asyncio.sleep(REST_SECONDS)
            if time.monotonic() - said >= BEAT_SECONDS:
                with bounded(session):
                    await session.execute("SELECT 1")
                said = time.monotonic()
