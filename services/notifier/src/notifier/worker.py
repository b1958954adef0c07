"""The notifier process: stand by, lead, and load what sends only where there is an endpoint."""

import asyncio
from collections.abc import Collection

from msgspec.structs import replace

from conversations.database import NOTIFIER_LOCK, DatabaseError, bounded, open_session
from conversations.leadership import RETRY_SECONDS, Leadership, Office
from notifier.settings import Settings
from runtime.health import HealthChecks, serve_health
from runtime.logs import get_logger
from runtime.postgres import DatabaseUnavailable, acting_as, open_pool
from runtime.worker import until_stopped
from webhooks import outbox
from webhooks.webhook_rows import CHANNEL

_CONNECTIONS = 5
_FORGET_SECONDS = 3600.0
_FORGET_AT_ONCE = 5_000
_OFFICE = Office(lock=NOTIFIER_LOCK, channel=CHANNEL, silence_seconds=30)


async def work(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Stand by or lead until `stop` is set."""
    settings = replace(settings, database_url=acting_as(settings.database_url, "notifier"))
    notifier = Notifier(settings, name)
    async with serve_health(notifier.health, settings.host, settings.health_port) as port:
        get_logger("notifier").info("ready", health_port=port)
        await until_stopped(stop, notifier.run)


class Notifier:
    """One process's share: everything if it leads, nothing else than being ready to if it does not."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._changed: set[str] = set()
        self._ringing = asyncio.Event()
        self._logger = get_logger("notifier")
        self._leadership = Leadership(settings.database_url, name, _OFFICE, self._ring)
        self.health = HealthChecks({"postgres": self._check})

    async def run(self) -> None:
        """Until cancelled. Raises SettingsError where the secret key cannot be used."""
        await self._leadership.run(self._lead)

    async def _lead(self) -> None:
        forgetting = asyncio.create_task(self._forget())
        try:
            await self._send()
        finally:
            forgetting.cancel()

    async def _forget(self) -> None:
        """Delete old deliveries once an hour, also while no endpoint is enabled."""
        while True:
            try:
                async with open_session(self._settings.database_url, self._name) as session:
                    deleted = _FORGET_AT_ONCE
                    while deleted == _FORGET_AT_ONCE:
                        with bounded(session):
                            deleted = await outbox.forget(session, _FORGET_AT_ONCE)
            except DatabaseError as error:
                self._logger.warning("cannot_forget", reason=str(error))
            await asyncio.sleep(_FORGET_SECONDS)

    async def _send(self) -> None:
        while True:
            self._changed.clear()
            self._ringing.clear()
            try:
                if await self._has_endpoints():
                    await self._serve()
                else:
                    await self._ringing.wait()
            except* (DatabaseUnavailable, DatabaseError) as errors:
                self._logger.warning("cannot_serve", reason=str(errors.exceptions[0]))
                await asyncio.sleep(RETRY_SECONDS)

    async def _has_endpoints(self) -> bool:
        """On a session that ends with the question: one that idles is of no use, and takes memory."""
        async with open_session(self._settings.database_url, self._name) as session:
            with bounded(session):
                return await outbox.any_enabled(session)

    async def _serve(self) -> None:
        from notifier.serving import Serving

        settings = self._settings
        # All that it commits is done again, should the server lose it.
        async with open_pool(settings.database_url, max_size=_CONNECTIONS, durable=False) as pool:
            serving = Serving(settings.database_url, self._name, pool, settings.sealer(), settings.guard())
            await serving.run(self._changes)

    async def _changes(self) -> Collection[str]:
        await self._ringing.wait()
        self._ringing.clear()
        changed, self._changed = self._changed, set()
        return changed

    def _ring(self, endpoint_ids: list[str]) -> None:
        self._changed.update(endpoint_ids)
        self._ringing.set()

    async def _check(self) -> None:
        self._leadership.check()
