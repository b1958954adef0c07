"""The gateway process: opens what the endpoints need, serves until told to stop, drains."""

import asyncio
import contextlib

from bus import Bus
from conversations.log import Log
from directory.last_used import LastUsed
from gateway import app, protocol
from gateway.parts import Parts
from gateway.runs import Runs
from gateway.settings import Settings
from limits import Limiter
from runtime import logs, postgres, web
from runtime.health import Health

POSTGRES_CONNECTIONS = 8


async def run(settings: Settings, name: str, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain: within 10 s."""
    log = logs.get_logger("gateway")
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus, pool = await asyncio.gather(
            enter(Bus.connect(settings.nats_url, name=name, on_lost=stop.set)),
            enter(postgres.open_pool(settings.database_url, max_size=POSTGRES_CONNECTIONS)),
        )
        limiter = Limiter(
            settings.redis_url,
            instance=name,
            on_fallback=lambda reason: log.warning("limits_decided_locally", reason=reason),
        )
        stack.push_async_callback(limiter.aclose)
        last_used = await enter(LastUsed(pool))
        conversation_log = Log(pool)
        runs = Runs(bus, conversation_log)
        await enter(runs.ticking())
        parts = Parts(
            pool=pool,
            last_used=last_used,
            limiter=limiter,
            bus=bus,
            log=conversation_log,
            runs=runs,
            health=Health({"postgres": lambda: postgres.ping(pool), "nats": bus.ping}),
            advisory=Health({"redis": limiter.ping}),
            stream_form=settings.stream_form,
        )
        protocol.install()
        await web.serve(app.build(parts), settings.host, settings.port, stop, on_stop=runs.drain, grace_s=9.0)
