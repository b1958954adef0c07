"""The notifier process: it listens, and loads what sends only where there is an endpoint."""

import asyncio
import time
from functools import partial

from msgspec.structs import replace

from conversations.database import DatabaseError, NoSession, bounded, listen, notifications, open_session
from notifier.settings import Settings
from runtime.following import follow
from runtime.health import HealthChecks, serve_health
from runtime.logs import get_logger
from runtime.postgres import DatabaseUnavailable, acting_as, open_pool
from runtime.worker import until_stopped
from webhooks import outbox

_CONNECTIONS = 5
_LISTEN_SECONDS = 10.0
_UNHEALTHY_SECONDS = 30.0
_RETRY_SECONDS = 0.5


async def work(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Send until `stop` is set."""
    settings = replace(settings, database_url=acting_as(settings.database_url, "notifier"))
    notifier = Notifier(settings, name)
    async with serve_health(notifier.health, settings.host, settings.health_port) as port:
        get_logger("notifier").info("ready", health_port=port)
        await until_stopped(stop, notifier.run)


class Notifier:
    """One process's share of what is sent. A session listens; there is a pool only while it sends."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._wake = asyncio.Event()
        self._answered_at = float("-inf")
        self._logger = get_logger("notifier")
        self.health = HealthChecks({"postgres": self._check})

    async def run(self) -> None:
        """Until cancelled. Raises SettingsError where the secret key cannot be used."""
        retry = partial(follow, retry_seconds=_RETRY_SECONDS, log=self._logger)
        listening = asyncio.create_task(retry(self._listen, DatabaseError, problem="session_lost"))
        try:
            await retry(self._send_if_enabled, (DatabaseUnavailable, DatabaseError), problem="cannot_send")
        finally:
            listening.cancel()

    async def _send_if_enabled(self) -> None:
        self._wake.clear()
        if await self._has_endpoints():
            await self._send()
        else:
            await self._wake.wait()

    async def _has_endpoints(self) -> bool:
        """On a session that ends with the question: one that idles is of no use, and takes memory."""
        async with open_session(self._settings.database_url, self._name) as session:
            with bounded(session):
                return await outbox.any_enabled(session)

    async def _send(self) -> None:
        from notifier.dispatching import Dispatcher

        settings = self._settings
        # All that it commits is done again, should the server lose it.
        async with open_pool(settings.database_url, max_size=_CONNECTIONS, durable=False) as pool:
            sealer, guard = settings.sealer(), settings.guard()
            await Dispatcher(self._name, pool, sealer, guard, self._wake).run()

    async def _listen(self) -> None:
        async with open_session(self._settings.database_url, self._name) as session:
            await listen(session, outbox.CHANNEL)
            while True:
                self._wake.set()  # after a break too, in which notifications are lost
                self._answered_at = time.monotonic()
                while not await notifications(session, seconds=_LISTEN_SECONDS):
                    with bounded(session):
                        await session.execute("SELECT 1")
                    self._answered_at = time.monotonic()

    async def _check(self) -> None:
        if time.monotonic() - self._answered_at > _UNHEALTHY_SECONDS:
            raise NoSession("no session with Postgres")
