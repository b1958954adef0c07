"""Run the console's process: open its connections, serve until it is stopped, then drain."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentchat.administration import Admin
from agentchat.bus.bus import Bus
from agentchat.console import app
from agentchat.console.live.badges import Badges
from agentchat.console.live.metrics_history import Monitor
from agentchat.console.live.prometheus_history import HistoryUnavailable, load_history
from agentchat.console.live.stream_limit import OpenStreams
from agentchat.console.pages.now.now_board import Boards
from agentchat.console.pages.now.open_runs import OpenRuns
from agentchat.console.services import ConsoleServices
from agentchat.console.settings import ConsoleSettings
from agentchat.console.shared.assets import Assets
from agentchat.console.shared.recent_views import RecentViews
from agentchat.console.shared.rendering import build_environment
from agentchat.console.shared.sessions import Sessions
from agentchat.console.shared.sign_in_limit import SignInLimit
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.knowledge.embedding.configured_embedder import open_embedder
from agentchat.ops.run_folder import RunFolder
from agentchat.runtime import logs, postgres, uvicorn_server
from agentchat.runtime.client_address import parse_networks
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.postgres import act_as

if TYPE_CHECKING:
    from agentchat.console.shared.oidc import OidcProvider

POSTGRES_CONNECTIONS = 6
_ACTOR = "console"


async def run(
    settings: ConsoleSettings, name: str, stop: asyncio.Event, run_folder: RunFolder | None = None
) -> None:
    """Serve until `stop` is set; requests under way then have 3 s to end.

    `run_folder` is the folder of the local stack that started this console, if any.
    """
    settings = replace(settings, database_url=act_as(settings.database_url, "console"))
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        bus, pool, embedder = await asyncio.gather(
            enter(Bus.connect(settings.nats_url, name=name, on_lost=stop.set)),
            enter(postgres.open_pool(settings.database_url, min_size=1, max_size=POSTGRES_CONNECTIONS)),
            enter(open_embedder(settings)),
        )
        assets, badges, monitor = Assets.read(), Badges(pool), Monitor(settings.list_targets())
        prices = settings.load_prices()
        templates = build_environment(assets, prices.currency)
        stack.callback(asyncio.create_task(_watch(monitor, settings.prometheus_url)).cancel)
        provider = _load_provider(settings)
        services = ConsoleServices(
            name=name,
            settings=settings,
            pool=pool,
            bus=bus,
            admin=Admin(
                pool=pool,
                sealer=settings.build_sealer(),
                actor=_ACTOR,
                bus=bus,
                currency=prices.currency,
                embedder=embedder,
                model_hosts=settings.build_model_guard(),
                tool_hosts=settings.build_tool_guard(),
            ),
            assets=assets,
            templates=templates,
            badges=badges,
            boards=Boards(pool, bus, monitor),
            open_runs=OpenRuns(pool, bus),
            prices=prices,
            sessions=Sessions(pool, settings.build_sealer(), settings, settings.secret_key, provider),
            sign_in_limit=SignInLimit(),
            trusted_proxies=parse_networks(settings.trusted_proxies),
            provider=provider,
            recent_views=RecentViews(),
            streams=OpenStreams(),
            monitor=monitor,
            files=FileStore(pool, ObjectStore(settings.files_url)) if settings.files_url else None,
            run_folder=run_folder,
            health=HealthChecks({"postgres": lambda: postgres.ping(pool), "nats": bus.ping}),
        )
        if settings.health_port is not None:
            await enter(serve_health(services.health, settings.host, settings.health_port))
        await uvicorn_server.serve(app.build(services), settings.host, settings.port, stop, grace_s=3.0)


async def _watch(monitor: Monitor, prometheus_url: str | None) -> None:
    if prometheus_url is not None:
        try:
            monitor.add_history(await load_history(prometheus_url))
        except HistoryUnavailable as error:
            logs.get_logger("console").warning("history_unavailable", reason=str(error))
    await monitor.run()


def _load_provider(settings: ConsoleSettings) -> "OidcProvider | None":
    # Imported only if a provider is set: authlib takes memory.
    if settings.oidc_issuer is None:
        return None
    from agentchat.console.shared.oidc import OidcProvider

    return OidcProvider(settings)
