"""Compose, start and stop the projector process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from math import nan

from msgspec.structs import replace

from agentchat.bus import nats_users
from agentchat.bus.bus import Bus
from agentchat.conversations import erasures
from agentchat.conversations.event_store.shared_log import SharedLog
from agentchat.conversations.leases.waiting_line import count_waiters
from agentchat.conversations.postgres_sessions import EVENTS_TABLE
from agentchat.conversations.projections.read_model_follower import Follower
from agentchat.conversations.projections.read_models import build_projections
from agentchat.conversations.queries.find_approvals import count_waiting_runs
from agentchat.files import file_removal
from agentchat.files.object_store import ObjectStore
from agentchat.projector import delete_users_and_accounts, erasure_step, feed_publisher, retention_step
from agentchat.projector.follower_loop import LogFollower
from agentchat.projector.leader_election import Leader
from agentchat.projector.run_sweeper import Sweeper
from agentchat.projector.settings import ProjectorSettings
from agentchat.runtime import metrics
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.logs import get_logger
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, act_as, open_pool
from agentchat.runtime.prices import load_prices
from agentchat.runtime.retry_loops import follow
from agentchat.runtime.task_cancellation import wait_first
from agentchat.webhooks import budget_notices, delivery_projection, delivery_queue
from agentchat.webhooks.budget_notices import BudgetNotices
from agentchat.webhooks.webhook_sender import DeliverySender

_CONNECTIONS = 4
"""Three followers of the log and one for all else. Each session takes 4.5 MiB of Postgres."""
_IDLE_CONNECTION_SECONDS = 20.0
_MEASURE_SECONDS = 10.0
_OLD_DELIVERIES_BATCH = 5000
_OLD_DELIVERIES_POLL_SECONDS = 3600.0


async def work(settings: ProjectorSettings, name: str, stop: asyncio.Event) -> None:
    """Lead or stand by until `stop` is set."""
    settings = replace(settings, database_url=act_as(settings.database_url, "projector"))
    async with (
        _keep_streams(settings, name, stop),
        Bus.connect(settings.nats_url, name=name, on_lost=stop.set, replicas=settings.nats_replicas) as bus,
        # Not durable: a commit that the server loses is repeated.
        open_pool(
            settings.database_url,
            max_size=_CONNECTIONS,
            durable=False,
            idle_seconds=_IDLE_CONNECTION_SECONDS,
        ) as pool,
    ):
        projector = Projector(settings, name, bus, pool)
        async with serve_health(projector.health, settings.host, settings.health_port) as port:
            get_logger("projector").info("ready", health_port=port)
            await wait_first(stop.wait(), projector.run())


@asynccontextmanager
async def _keep_streams(settings: ProjectorSettings, name: str, stop: asyncio.Event) -> AsyncIterator[None]:
    """Keep streams and consumers, on a connection of the user who may create them."""
    if settings.nats_provisioner_url is None:
        if not nats_users.may_provision(nats_users.parse_user(settings.nats_url)):
            get_logger("projector").error("streams_not_provisioned", unset="AGENTCHAT_NATS_PROVISIONER_URL")
        yield
        return
    url, name = settings.nats_provisioner_url, f"{name} provisioner"
    async with Bus.connect(url, name=name, on_lost=stop.set, replicas=settings.nats_replicas):
        yield


async def _delete_old_deliveries(pool: Pool) -> bool:
    """Delete a batch of old deliveries; return True if there are more."""
    return await delivery_queue.delete_old_deliveries(pool, _OLD_DELIVERIES_BATCH) >= _OLD_DELIVERIES_BATCH


class Projector:
    """The followers of the log and the sweeper: one process does the work, others stand by."""

    def __init__(self, settings: ProjectorSettings, name: str, bus: Bus, pool: Pool) -> None:
        database_url = settings.database_url
        self._log = log = SharedLog(pool)
        objects = ObjectStore(settings.files_url)
        self._pool = pool
        prices = load_prices(settings.prices)
        projections = build_projections(prices)
        self._follower = Follower(pool, log, (*projections, erasures.PROJECTION))
        self._erasing = LogFollower(
            "erasures",
            erasure_step.ErasureStep(bus, pool, objects).step,
            poll_seconds=erasure_step.POLL_SECONDS,
        )
        self._retention = retention_step.RetentionStep(bus, pool)
        metrics.RETENTION_LAG.set_function(lambda: self._retention.lag if self._leader.is_leading else 0)
        self._tidying = (
            LogFollower(
                "deletions",
                delete_users_and_accounts.DeletionStep(bus, log, pool, objects).step,
                poll_seconds=delete_users_and_accounts.POLL_SECONDS,
            ),
            LogFollower("retention", self._retention.step, poll_seconds=retention_step.POLL_SECONDS),
            LogFollower(
                "old tombstones",
                partial(erasure_step.delete_tombstones, pool),
                poll_seconds=erasure_step.TOMBSTONES_POLL_SECONDS,
            ),
            LogFollower(
                "files",
                partial(file_removal.sweep_files, pool, objects),
                poll_seconds=file_removal.POLL_SECONDS,
            ),
            LogFollower(
                "budgets",
                BudgetNotices(pool, prices.currency).step,
                poll_seconds=budget_notices.POLL_SECONDS,
            ),
            LogFollower(
                "old deliveries",
                partial(_delete_old_deliveries, pool),
                poll_seconds=_OLD_DELIVERIES_POLL_SECONDS,
            ),
        )
        self._feed = feed_publisher.FeedPublisher(bus, log, pool, on_erasure=self._erasing.wake)
        self._sender = DeliverySender(pool, settings.build_sealer(), settings.build_webhook_guard(), name)
        self._deliveries = delivery_projection.DeliveryProjection(
            pool, log, on_inserted=self._sender.wake, on_erased=self._sender.forget
        )
        self._is_rehearsal = settings.rehearsal
        followings = (
            LogFollower("read models", self._follower.step),
            LogFollower("events feed", self._feed.step),
            LogFollower("webhook deliveries", self._deliveries.step),
        )
        self._followings = followings[:1] if settings.rehearsal else followings
        self._sweeper = Sweeper(bus, log, pool)
        self._leader = Leader(database_url, name, channel=EVENTS_TABLE, notify=self._wake_followers)
        metrics.LEADING.set_function(lambda: self._leader.is_leading)
        for following in self._followings:
            metrics.LAG.labels(following.name).set_function(partial(self._measure_lag, following))
        self.health = HealthChecks({"postgres": log.ping, "nats": bus.ping, "log": self._check_lag})

    async def run(self) -> None:
        """Lead or stand by until cancelled."""
        await self._leader.run(self._lead)

    async def _lead(self) -> None:
        self._follower.forget_positions()
        self._deliveries.forget_position()
        self._feed.forget_end()
        async with asyncio.TaskGroup() as tasks:
            for following in self._followings:
                tasks.create_task(following.run())
            tasks.create_task(self._keep_measuring())
            if self._is_rehearsal:
                return
            for other in (self._erasing, *self._tidying):
                tasks.create_task(other.run())
            tasks.create_task(self._sweeper.run())
            tasks.create_task(self._sender.run())

    async def _keep_measuring(self) -> None:
        """Measure the waiting messages and approvals, for the metrics of the leader."""
        try:
            await follow(
                self._measure,
                DatabaseUnavailable,
                retry_seconds=_MEASURE_SECONDS,
                log=get_logger("projector"),
                problem="cannot_measure",
            )
        finally:  # another process sets them from now on
            metrics.WAITING_LINE.set(0)
            metrics.APPROVALS.set(0)

    async def _measure(self) -> None:
        metrics.WAITING_LINE.set(await count_waiters(self._pool))
        metrics.APPROVALS.set(await count_waiting_runs(self._pool))
        await asyncio.sleep(_MEASURE_SECONDS)

    def _measure_lag(self, following: LogFollower) -> float:
        return following.lag if self._leader.is_leading else nan

    def _wake_followers(self) -> None:
        self._log.note_append()
        for following in self._followings:
            following.wake()

    async def _check_lag(self) -> None:
        """Raise LogLag if a follower has been behind for too long."""
        if self._leader.is_leading:
            watched = self._followings if self._is_rehearsal else (*self._followings, self._erasing)
            for following in watched:
                following.check()
