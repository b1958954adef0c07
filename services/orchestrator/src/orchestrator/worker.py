"""The orchestrator process: what it is made of, and how it starts and stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bus import Bus
from conversations.leases import Leases
from conversations.store import open_store
from conversations.waiting import WaitingLine
from directory.secrets import Sealer
from limits.limiter import Limiter
from orchestrator.agents import Agents
from orchestrator.exhausted import end_exhausted
from orchestrator.heartbeat import beat
from orchestrator.inbox import Inbox
from orchestrator.listing import ToolListings
from orchestrator.model import Provider
from orchestrator.parts import Parts
from orchestrator.settings import Settings
from runtime import logs
from runtime.health import Health, serve_health
from runtime.postgres import open_pool
from runtime.settings import SettingsError

_DRAIN_SECONDS = 4.0
_POOL = 8


async def work(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Work off REQUESTS until `stop` is set; runs that cannot end by then are handed over."""
    async with _parts(settings, name, stop) as parts, asyncio.TaskGroup() as background:
        health = Health({"nats": parts.bus.ping, "postgres": parts.store.ping})
        async with serve_health(health, settings.host, settings.health_port) as port:
            following = await parts.bus.follow_cancels(parts.assignments.cancel)
            beating = background.create_task(beat(parts))
            background.create_task(
                parts.bus.follow_max_deliveries(lambda message: end_exhausted(parts, message), stop=stop)
            )
            background.create_task(_drain(parts))
            logs.get_logger("worker").info("ready", health_port=port, run_slots=settings.run_slots)
            inbox = Inbox(parts)
            await parts.bus.consume("REQUESTS", inbox.handle, slots=settings.run_slots, stop=stop)
            await parts.assignments.wait_until_none()
            beating.cancel()
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
    sealer = _sealer(settings)
    async with AsyncExitStack() as stack:
        # Opened one after the other, so that they are closed in the opposite order; none of them is slow.
        bus = await stack.enter_async_context(Bus.connect(settings.nats_url, name=name, on_lost=stop.set))
        store = await stack.enter_async_context(open_store(settings.database_url))
        pool = await stack.enter_async_context(open_pool(settings.database_url, min_size=2, max_size=_POOL))
        limiter = Limiter(settings.redis_url, instance=name)
        stack.push_async_callback(limiter.aclose)
        provider = Provider()
        stack.push_async_callback(provider.aclose)
        yield Parts(
            bus=bus,
            store=store,
            leases=Leases(pool, name),
            line=WaitingLine(pool, name),
            limiter=limiter,
            agents=Agents(pool, sealer, settings.anthropic_api_key),
            listings=ToolListings(bus),
            provider=provider,
            pool=pool,
            base_url=settings.anthropic_base_url,
            stop=stop,
        )


def _sealer(settings: Settings) -> Sealer:
    try:
        return Sealer.from_setting(settings.secret_key)
    except ValueError as error:
        raise SettingsError(f"AGENTCHAT_SECRET_KEY cannot be used: {error}") from None
