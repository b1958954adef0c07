"""All endpoints of the service, while this process leads and there is one."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection

import httpx2

from conversations.database import EVENTS_TABLE, DatabaseError, bounded, listen, notifications, open_session
from conversations.event_store.log import Log
from conversations.leadership import GATHER_SECONDS, RETRY_SECONDS
from directory.secrets import Sealer
from net_guard import Guard
from notifier.delivery_clock import Clock
from notifier.lag import report_lag
from notifier.notice_bodies import Bodies
from notifier.pages import Pages
from notifier.sender import Post, Sender
from runtime.logs import get_logger
from runtime.postgres import DatabaseUnavailable, Pool
from runtime.web import raise_open_files
from webhooks import outbox
from webhooks.outbox import EndpointTarget

REST_SECONDS = 0.25
"""So long after an append others are left to gather: what is sent together is read and recorded together."""

_TIDY_SECONDS = 30.0
_LISTEN_SECONDS = 60.0

Changes = Callable[[], Awaitable[Collection[str]]]
"""The ids of endpoints that have been changed; waits for the first."""


class Serving:
    """A sender for each enabled endpoint, and what they share."""

    def __init__(self, database_url: str, name: str, pool: Pool, sealer: Sealer, guard: Guard) -> None:
        self._database_url = database_url
        self._name = name
        self._pool = pool
        self._sealer = sealer
        self._guard = guard
        self._senders: dict[str, tuple[Sender, asyncio.Task[None]]] = {}
        self._noted: dict[str, int] = {}
        self._appended = asyncio.Event()
        self._logger = get_logger("notifier.serving")

    async def run(self, changes: Changes) -> None:
        """Until no endpoint is left that is enabled. Raises DatabaseUnavailable."""
        raise_open_files()
        log = Log(self._pool)
        clock = Clock(await outbox.now(self._pool))
        pages = Pages(log, await log.head())
        tls = httpx2.create_ssl_context()
        bodies = Bodies(log)
        self._post = Post(self._pool, log, pages, bodies, self._guard, tls, clock, self._sealer)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._listen()),
                    tasks.create_task(self._follow(pages)),
                    tasks.create_task(self._tidy(log, clock)),
                ]
                self._tasks = tasks
                await self._load(None)
                self._logger.info("serving", endpoints=len(self._senders))
                while self._senders:
                    await self._load(await changes())
                for task in background:
                    task.cancel()
        finally:
            self._senders.clear()
            await bodies.aclose()

    async def _load(self, ids: Collection[str] | None) -> None:
        found = await outbox.load(self._pool, None if ids is None else list(ids))
        for target in found:
            self._serve(target)
        for gone in set(ids or ()) - {target.id for target in found}:
            self._end(gone)

    def _serve(self, target: EndpointTarget) -> None:
        known = self._senders.get(target.id)
        if known is not None and not known[1].done():
            known[0].update(target)
            return
        sender = Sender(self._post, target)
        self._noted[target.id] = target.position
        self._senders[target.id] = (sender, self._tasks.create_task(sender.run()))

    def _end(self, endpoint_id: str) -> None:
        self._noted.pop(endpoint_id, None)
        sender = self._senders.pop(endpoint_id, None)
        if sender is not None:
            sender[1].cancel()

    async def _follow(self, pages: Pages) -> None:
        while True:
            self._appended.clear()
            try:
                page = await pages.extend()
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_follow", reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if page is None:
                await self._appended.wait()
                continue
            for sender, _ in self._senders.values():
                sender.offer(page)

    async def _listen(self) -> None:
        """Hear of appends on a session of its own, which there is only while endpoints are served."""
        while True:
            with contextlib.suppress(DatabaseError):
                async with open_session(self._database_url, self._name) as session:
                    await listen(session, EVENTS_TABLE)
                    while True:
                        self._appended.set()
                        while not await notifications(session, seconds=_LISTEN_SECONDS):
                            with bounded(session):
                                await session.execute("SELECT 1")
                        await asyncio.sleep(GATHER_SECONDS)
                        self._appended.set()
                        await asyncio.sleep(REST_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    async def _tidy(self, log: Log, clock: Clock) -> None:
        """Note how far endpoints have come that the log has had nothing for, and how far behind they are."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                clock.set(await outbox.now(self._pool))
                await self._note_positions()
                report_lag(await log.head(), [sender for sender, _ in self._senders.values()], self._name)
            except DatabaseUnavailable as error:
                self._logger.warning("cannot_tidy", reason=str(error))

    async def _note_positions(self) -> None:
        positions = {id_: sender.position for id_, (sender, _) in self._senders.items()}
        moved = {id_: position for id_, position in positions.items() if self._noted[id_] != position}
        if moved:
            await outbox.advance(self._pool, moved)
            self._noted |= {id_: position for id_, position in moved.items() if id_ in self._noted}
