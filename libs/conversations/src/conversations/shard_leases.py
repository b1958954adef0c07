"""Shards are shared by the processes that live: each holds its part of them, and one of these leads.

A lease is an advisory lock of Postgres, held by a session that must not be silent. Its process looks twice a
second how many there are, takes what is free up to its part, and gives back what it has beyond it. Postgres
ends a session that was silent for too long, so a process that is stopped loses its leases, and others take
them. Should the stopped one go on, its session is gone, and what it still tries to write is refused by the
position it states.

The same session listens to a channel, so that the process learns what it has to do.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

from conversations.database import (
    LEADER_LOCK,
    SHARD_LOCKS,
    DatabaseError,
    bounded,
    listen,
    notifications,
    open_session,
)
from conversations.projections.shards import ALL_SHARDS, SHARDS, give_back
from runtime.following import follow
from runtime.logs import get_logger
from runtime.postgres import Connection, Pool, connection

RETRY_SECONDS = 0.5

BALANCE_SECONDS = 0.5
"""From one look at the leases to the next: what is given back or free is taken after so long."""

SILENCE_SECONDS = 4
"""A session that sent nothing for so long is ended.

SILENCE_SECONDS + BALANCE_SECONDS <= 5 s, the longest that a shard is held by a process that is stopped
"""

GATHER_SECONDS = 0.02
"""After an append, so long is waited for others to share the step: a run makes several, close together."""

REST_SECONDS = 0.055
"""So long after a step no other begins: the more is appended, the more a step takes, and not the more steps.

GATHER_SECONDS + REST_SECONDS + a step's own time <= 0.1 s, the greatest delay of read models
"""

_RELEASE_SECONDS = 1.0
"""A shard is kept until the next look if the step that works on it takes longer."""

_LEAD = SHARDS
"""The number of the lease of the process that leads, next to those of the shards."""

_PRESENT = SHARDS + 1
"""The number of the lock that all of them share, so that they are counted."""

Work = Callable[[], Coroutine[None, None, None]]


class NoSession(Exception):  # noqa: N818 - a state, shown by a health check
    """Postgres has not answered for too long."""


class Holder(msgspec.Struct, frozen=True):
    """A process that shares the work: its name, the shards that it holds, and whether it leads."""

    name: str
    shards: list[int]
    leads: bool


async def holders(pool: Pool) -> list[Holder]:
    """Those that hold a lease now, by name. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_HOLDERS, [SHARD_LOCKS])).fetchall()
    return [Holder(name, [each for each in held if each in ALL_SHARDS], _LEAD in held) for name, held in rows]


class ShardLeases:
    """The leases of one process; `notify` is called after what arrives on `channel`.

    `hold` is given the shards that are held, and returns when the process works on no others.
    """

    def __init__(
        self,
        database_url: str,
        name: str,
        *,
        channel: str,
        notify: Callable[[], None],
        hold: Callable[[frozenset[int]], Awaitable[None]],
    ) -> None:
        self.shards: frozenset[int] = frozenset()
        self._leads = asyncio.Event()
        self._database_url = database_url
        self._name = name
        self._channel = channel
        self._notify = notify
        self._hold = hold
        self._logger = get_logger("shard_leases")

    @property
    def leading(self) -> bool:
        """Of all processes one does, while any lives."""
        return self._leads.is_set()

    async def run(self, work: Work, lead: Work) -> None:
        """Until cancelled: `work` while there is a session, and `lead` while this process leads."""

        async def share() -> None:
            async with open_session(
                self._database_url, self._name, silence_seconds=SILENCE_SECONDS
            ) as session:
                await self._enter(session)
                await listen(session, self._channel)
                await self._work(session, work, lead)
            await asyncio.sleep(RETRY_SECONDS)

        log = self._logger
        await follow(share, DatabaseError, retry_seconds=RETRY_SECONDS, log=log, problem="session_lost")

    async def _enter(self, session: Connection) -> None:
        """Be one of those who share; that is not next to a projector of 0.9.0."""
        self._logger.info("standing_by")
        while True:
            with bounded(session):
                given = {"lock": LEADER_LOCK, "leases": SHARD_LOCKS, "present": _PRESENT}
                row = await (await session.execute(_ENTER, given)).fetchone()
            if row == (True,):
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _work(self, session: Connection, work: Work, lead: Work) -> None:
        async def lead_when_elected() -> None:
            await self._leads.wait()
            await lead()

        tasks = [asyncio.ensure_future(each) for each in (work(), lead_when_elected(), self._keep(session))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                await each
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._set(frozenset())
            self._leads.clear()
            with contextlib.suppress(DatabaseError), bounded(session):
                async with session.transaction():
                    await give_back(session)
            self._logger.info("shares_no_more")

    async def _keep(self, session: Connection) -> None:
        while True:
            await self._balance(session)
            looked_at = time.monotonic()
            while (left := looked_at + BALANCE_SECONDS - time.monotonic()) > 0:
                if await notifications(session, seconds=left):
                    await asyncio.sleep(GATHER_SECONDS)
                    self._notify()
                    await asyncio.sleep(REST_SECONDS)

    async def _balance(self, session: Connection) -> None:
        with bounded(session):
            rows = await (await session.execute(_LOOK, [SHARD_LOCKS])).fetchall()
        held = [number for (number,) in rows]
        part = -(-SHARDS // held.count(_PRESENT))
        if len(self.shards) > part:
            await self._release(session, frozenset(sorted(self.shards)[part:]))
        free = [*(ALL_SHARDS - set(held))]
        wanted = random.sample(free, max(0, min(len(free), part - len(self.shards))))
        if _LEAD not in held:
            wanted.append(_LEAD)
        if wanted:
            await self._take(session, wanted)

    async def _take(self, session: Connection, wanted: list[int]) -> None:
        with bounded(session):
            rows = await (await session.execute(_TAKE, [wanted, SHARD_LOCKS])).fetchall()
        taken = {number for (number,) in rows}
        if _LEAD in taken:
            self._logger.info("leading")
            self._leads.set()
        if shards := taken - {_LEAD}:
            await self._set(self.shards | shards)

    async def _release(self, session: Connection, shards: frozenset[int]) -> None:
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._hold(self.shards - shards)
        except TimeoutError:
            return  # a step is under way; the next look tries it again
        with bounded(session):
            await session.execute(_RELEASE, [SHARD_LOCKS, list(shards)])
        await self._set(self.shards - shards)

    async def _set(self, shards: frozenset[int]) -> None:
        await self._hold(shards)
        if shards != self.shards:
            self.shards = shards
            self._logger.info("shards_held", shards=sorted(shards))


_ENTER = """
SELECT CASE WHEN pg_try_advisory_lock_shared(%(lock)s)
            THEN pg_try_advisory_lock_shared(%(leases)s, %(present)s) ELSE false END
"""

_LOCKS = """pg_locks
 WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid::bigint = %s
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_LOOK = f"SELECT objid::integer FROM {_LOCKS}"  # noqa: S608 - our own parts

_TAKE = "SELECT number FROM unnest(%s::integer[]) AS number WHERE pg_try_advisory_lock(%s, number)"

_RELEASE = "SELECT pg_advisory_unlock(%s, number) FROM unnest(%s::integer[]) AS number"

_HOLDERS = f"""
SELECT application_name, numbers FROM pg_stat_activity
  JOIN (SELECT pid, array_agg(objid::integer ORDER BY objid) AS numbers FROM {_LOCKS} GROUP BY pid) AS leases
 USING (pid) ORDER BY application_name
"""  # noqa: S608 - our own parts
