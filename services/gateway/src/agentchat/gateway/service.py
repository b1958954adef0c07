"""Run the gateway process: open what the handlers need, serve until stopped, drain."""

import asyncio
import contextlib
from functools import partial

from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.idempotency.claim_writer import Claims
from agentchat.directory.agent_config import is_reasoning_shown
from agentchat.directory.api_keys import Callers, KeyUseRecorder
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.gateway import app
from agentchat.gateway.access.quotas import FigureCache
from agentchat.gateway.access.reads_and_streams import AccountBounds
from agentchat.gateway.access.wrong_key_limit import WrongKeys
from agentchat.gateway.admin.admin_services import open_admin_access
from agentchat.gateway.runs.follow_frames import FollowedRuns
from agentchat.gateway.services import DemoAccess, GatewayServices
from agentchat.gateway.settings import GatewaySettings
from agentchat.limits import Limiter
from agentchat.net_guard.guarded_download import Downloader
from agentchat.runtime import metrics, postgres, uvicorn_server
from agentchat.runtime.client_address import parse_networks
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.postgres import act_as
from agentchat.runtime.prices import load_prices

POSTGRES_CONNECTIONS = 8


async def run(settings: GatewaySettings, name: str, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain: within 10 s."""
    settings = replace(settings, database_url=act_as(settings.database_url, "gateway"))
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus, pool = await asyncio.gather(
            enter(Bus.connect(settings.nats_url, name=name, on_lost=stop.set)),
            enter(postgres.open_pool(settings.database_url, max_size=POSTGRES_CONNECTIONS)),
        )
        limiter = Limiter(
            settings.redis_url,
            instance=name,
            on_fallback=lambda reason: metrics.DECIDED_LOCALLY.labels(reason=reason).inc(),
        )
        stack.push_async_callback(limiter.aclose)
        callers = await enter(contextlib.aclosing(Callers(pool, await enter(KeyUseRecorder(pool)))))
        claims = await enter(contextlib.aclosing(Claims(pool)))
        figures = await enter(contextlib.aclosing(FigureCache(pool)))
        conversation_log = Log(pool)
        runs = FollowedRuns(bus, conversation_log, partial(is_reasoning_shown, pool))
        metrics.OPEN_STREAMS.set_function(lambda: len(runs))
        await enter(runs.run_ticker())
        services = GatewayServices(
            pool=pool,
            callers=callers,
            wrong_keys=WrongKeys(),
            trusted_proxies=parse_networks(settings.trusted_proxies),
            limiter=limiter,
            figures=figures,
            account_bounds=AccountBounds(),
            sealer=settings.make_sealer() if settings.secret_key is not None else None,
            stream_form=settings.stream_form,
            stop=stop,
            claims=claims,
            bus=bus,
            log=conversation_log,
            files=FileStore(pool, ObjectStore(settings.files_url)),
            runs=runs,
            health=HealthChecks({"postgres": lambda: postgres.ping(pool), "nats": bus.ping}),
            advisory=HealthChecks({"redis": limiter.ping}),
            webhook_guard=settings.build_webhook_guard(),
            downloader=Downloader(settings.build_file_guard()),
            currency=load_prices(settings.prices).currency,
            demo=_build_demo_access(settings),
        )
        admin = await enter(open_admin_access(settings, bus))
        if settings.health_port is not None:
            await enter(serve_health(services.health, settings.host, settings.health_port))
        await uvicorn_server.serve(
            app.build(services, admin, is_rehearsal=settings.rehearsal),
            settings.host,
            settings.port,
            stop,
            on_stop=runs.drain,
            grace_s=9.0,
            http=settings.http_parser,
            max_connections=uvicorn_server.limit_to_open_files(settings.max_connections),
        )


def _build_demo_access(settings: GatewaySettings) -> DemoAccess | None:
    if settings.demo_key is None or settings.demo_agent_id is None:
        return None
    return DemoAccess(settings.demo_key, settings.demo_agent_id)
