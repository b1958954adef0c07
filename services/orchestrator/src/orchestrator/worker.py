"""The orchestrator process: what it is made of, and how it starts and stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec.structs import replace

from bus import Bus
from conversations.leases import Leases
from conversations.store import open_store
from conversations.waiting import WaitingLine
from directory.known_key import refuse_unknown_key
from directory.parameters import DEFAULT_PROVIDER
from directory.secrets import sealer_of
from knowledge.embedders import embedder_of
from knowledge.embeddings import usable
from limits.limiter import Limiter
from orchestrator.agents import Agents
from orchestrator.checking import serving_checks
from orchestrator.commands import serving_commands
from orchestrator.exhausted import end_exhausted
from orchestrator.heartbeat import beat
from orchestrator.inbox import Inbox
from orchestrator.listing import ToolListings
from orchestrator.models import Models, defaults_of
from orchestrator.parts import Parts
from orchestrator.schema_checks import SchemaChecks
from orchestrator.settings import Settings
from orchestrator.what_if import serving_what_ifs
from runtime import logs
from runtime.health import Health, serve_health
from runtime.postgres import open_pool
from runtime.roles import acting_as

_DRAIN_SECONDS = 4.0
_POOL = 8
_LEASE_POOL = 2
_RENEWAL_POOL = 1


async def work(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Work off REQUESTS until `stop` is set; runs that cannot end by then are handed over."""
    settings = replace(settings, database_url=acting_as(settings.database_url, "orchestrator"))
    async with _parts(settings, name, stop) as parts, asyncio.TaskGroup() as background:
        health = Health({"nats": parts.bus.ping, "postgres": parts.store.ping})
        async with (
            serving_commands(parts),
            serving_checks(parts),
            serving_what_ifs(parts),
            serve_health(health, settings.host, settings.health_port) as port,
        ):
            following = await parts.bus.follow_cancels(parts.assignments.cancel)
            beating = background.create_task(beat(parts))
            line = background.create_task(parts.line.follow(settings.database_url))
            background.create_task(
                parts.bus.follow_max_deliveries(lambda message: end_exhausted(parts, message), stop=stop)
            )
            background.create_task(_drain(parts))
            logs.get_logger("worker").info("ready", health_port=port, run_slots=settings.run_slots)
            inbox = Inbox(parts)
            ready, slots = parts.leases.readiness, parts.run_slots
            await parts.bus.consume("REQUESTS", inbox.handle, slots=slots, stop=stop, readiness=ready)
            await parts.assignments.wait_until_none()
            beating.cancel()
            line.cancel()
            await following.close()


async def _drain(parts: Parts) -> None:
    """Runs get a few seconds to come to the end of their step; then others go on with them."""
    await parts.stop.wait()
    parts.assignments.interrupt("shutdown", waiting_only=True)
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await parts.assignments.wait_until_none()
    except TimeoutError:
        parts.assignments.interrupt("shutdown")


@asynccontextmanager
async def _parts(settings: Settings, name: str, stop: asyncio.Event) -> AsyncIterator[Parts]:
    sealer = sealer_of(settings.secret_key, settings.previous_secret_keys)
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(embedder_of(settings))
        # Opened one after the other, so that they are closed in the opposite order; none of them is slow.
        bus = await stack.enter_async_context(Bus.connect(settings.nats_url, name=name, on_lost=stop.set))
        store = await stack.enter_async_context(open_store(settings.database_url))
        pool = await stack.enter_async_context(open_pool(settings.database_url, min_size=2, max_size=_POOL))
        # Not the pool that searches and waiting lines use: tenants decide how long those take.
        lease_pool = await stack.enter_async_context(
            open_pool(settings.database_url, min_size=1, max_size=_LEASE_POOL)
        )
        renewals = await stack.enter_async_context(
            open_pool(settings.database_url, min_size=1, max_size=_RENEWAL_POOL)
        )
        await refuse_unknown_key(pool, sealer)
        limiter = Limiter(settings.redis_url, instance=name)
        stack.push_async_callback(limiter.aclose)
        models = Models(defaults_of(settings), settings.guard())
        stack.push_async_callback(models.aclose)
        await models.of(DEFAULT_PROVIDER)
        schema_checks = SchemaChecks()
        stack.push_async_callback(schema_checks.aclose)
        yield Parts(
            bus=bus,
            store=store,
            leases=Leases(lease_pool, name, renewals=renewals),
            line=WaitingLine(pool, name),
            limiter=limiter,
            agents=Agents(pool, sealer),
            listings=ToolListings(bus),
            models=models,
            pool=pool,
            embedder=await usable(pool, embedder),
            schema_checks=schema_checks,
            name=name,
            run_slots=settings.run_slots,
            stop=stop,
        )
