"""One leader at a time: an advisory lock of Postgres, held by a session that must not be silent.

The leader sends a statement now and then. Postgres ends a session that was silent for longer, so a process
that is stopped loses the lock, and another takes over. Should the stopped one go on, its session is gone, and
what it still tries to write is refused by the position it states.

The same session listens to a channel, so that the leader learns what it has to do.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from conversations.database import (
    DatabaseError,
    bounded,
    listen,
    notifications,
    open_session,
    try_to_lead,
)
from runtime.following import follow
from runtime.logs import get_logger
from runtime.postgres import Connection

RETRY_SECONDS = 0.5
_BEATS_IN_A_SILENCE = 3.5

GATHER_SECONDS = 0.02
"""After an append, so long is waited for others to share the step: a run makes several, close together."""

REST_SECONDS = 0.055
"""So long after a step no other begins: the more is appended, the more a step takes, and not the more steps.

GATHER_SECONDS + REST_SECONDS + a step's own time <= 0.1 s, the greatest delay of read models
"""

Work = Callable[[], Awaitable[None]]


class NoSession(Exception):  # noqa: N818 - a state, shown by a health check
    """Postgres has not answered for too long."""


class LeaderRole(msgspec.Struct, frozen=True, kw_only=True):
    """What is led: the advisory lock that its leader holds, and the channel that it listens to.

    A leader that is stopped has lost the lock after `silence_seconds`.
    """

    lock: int
    channel: str
    silence_seconds: int


class Leadership:
    """Runs `work` while this process leads; `notify` gets what arrives on its channel meanwhile."""

    def __init__(
        self, database_url: str, name: str, role: LeaderRole, notify: Callable[[list[str]], None]
    ) -> None:
        self.leading = False
        self._database_url = database_url
        self._name = name
        self._role = role
        self._beat_seconds = role.silence_seconds / _BEATS_IN_A_SILENCE
        self._notify = notify
        self._answered_at = float("-inf")
        self._logger = get_logger("leadership")

    def check(self) -> None:
        """A health check without a round trip. Raises NoSession while there is no session with Postgres."""
        if time.monotonic() - self._answered_at > self._role.silence_seconds:
            raise NoSession("no session with Postgres")

    async def run(self, work: Work) -> None:
        """Stand by, lead, stand by again, until cancelled. `work` is cancelled when the lock is lost."""

        async def stand_by_and_lead() -> None:
            seconds = self._role.silence_seconds
            async with open_session(self._database_url, self._name, silence_seconds=seconds) as session:
                await self._take(session)
                await self._lead(session, work)
            await asyncio.sleep(RETRY_SECONDS)

        log = self._logger
        await follow(
            stand_by_and_lead, DatabaseError, retry_seconds=RETRY_SECONDS, log=log, problem="session_lost"
        )

    async def _take(self, session: Connection) -> None:
        self._logger.info("standing_by")
        while True:
            leads = await try_to_lead(session, self._role.lock)
            self._answered_at = time.monotonic()
            if leads:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _lead(self, session: Connection, work: Work) -> None:
        await listen(session, self._role.channel)
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
        sent_at = time.monotonic()
        while True:
            if came := await notifications(session, seconds=sent_at + self._beat_seconds - time.monotonic()):
                await asyncio.sleep(GATHER_SECONDS)
                self._notify(came)
                await asyncio.sleep(REST_SECONDS)
            if time.monotonic() - sent_at >= self._beat_seconds:
                with bounded(session):
                    await session.execute("SELECT 1")
                sent_at = self._answered_at = time.monotonic()
