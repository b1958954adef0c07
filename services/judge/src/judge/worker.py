"""The judge process: it loads what judges only where an agent has runs judged."""

import asyncio
import time

from msgspec.structs import replace

from bus.errors import BusUnavailable
from conversations.database import DatabaseError, bounded, open_session
from conversations.judged.judged_runs import is_any_judged
from conversations.shard_leases import NoSession
from judge.settings import Settings
from runtime.following import follow
from runtime.health import HealthChecks, serve_health
from runtime.logs import get_logger
from runtime.postgres import DatabaseUnavailable, acting_as, open_pool
from runtime.worker import until_stopped

_CONNECTIONS = 4
IDLE_SECONDS = 5.0
_UNHEALTHY_SECONDS = 60.0
_RETRY_SECONDS = 1.0


async def work(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Judge until `stop` is set."""
    settings = replace(settings, database_url=acting_as(settings.database_url, "judge"))
    judge = JudgeProcess(settings, name, stop)
    async with serve_health(judge.health, settings.host, settings.health_port) as port:
        get_logger("judge").info("ready", health_port=port)
        await until_stopped(stop, judge.run)


class JudgeProcess:
    """One process's share of what is judged. There are connections only while there is something to judge."""

    def __init__(self, settings: Settings, name: str, stop: asyncio.Event) -> None:
        self._settings = settings
        self._name = name
        self._stop = stop
        self._answered_at = float("-inf")
        self.health = HealthChecks({"postgres": self._check})

    async def run(self) -> None:
        """Until cancelled."""
        away = (DatabaseUnavailable, DatabaseError, BusUnavailable)
        log = get_logger("judge")
        await follow(self._judge, away, retry_seconds=_RETRY_SECONDS, log=log, problem="cannot_judge")

    async def _judge(self) -> None:
        async with open_session(self._settings.database_url, self._name) as session:
            with bounded(session):
                found = await is_any_judged(session)
        self._answered()
        if found:
            await self._work()
        else:
            await asyncio.sleep(IDLE_SECONDS)

    async def _work(self) -> None:
        # Imported here: its evaluators take memory that a deployment without them need not have.
        from bus import Bus
        from experiments.reruns import Reruns
        from judge.judge_runs import RunJudging

        settings = self._settings
        async with (
            open_pool(settings.database_url, max_size=_CONNECTIONS) as pool,
            Bus.connect(settings.nats_url, name=self._name, on_lost=self._stop.set) as bus,
        ):
            await RunJudging(pool, Reruns(bus), self._answered).run()

    def _answered(self) -> None:
        self._answered_at = time.monotonic()

    async def _check(self) -> None:
        if time.monotonic() - self._answered_at > _UNHEALTHY_SECONDS:
            raise NoSession("nothing was heard from Postgres for too long")
