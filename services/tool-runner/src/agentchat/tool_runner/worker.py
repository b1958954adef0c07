"""Wire the process: consume calls from TOOLS and answer the `chat.tools.*` requests."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.contracts import subjects
from agentchat.contracts.ids import make_id
from agentchat.directory.secret_encryption import Sealer, refuse_unknown_key
from agentchat.directory.tool_authorizations import LOCKED_SECONDS
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.net_guard import Guard
from agentchat.net_guard.guarded_session import get_tls_context
from agentchat.runtime import logs, tracing
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, act_as, open_pool, ping
from agentchat.runtime.retry_loops import repeat
from agentchat.tool_runner.authorization.authorization_http import AuthorizationHttp
from agentchat.tool_runner.authorization.authorization_links import AuthorizationLinks
from agentchat.tool_runner.authorization.tokens import AT_ONCE, Authorizations
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import HELD_PER_SLOT, CallHandler
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.tool_servers import ServerPool
from agentchat.tool_runner.settings import ToolRunnerSettings
from agentchat.tool_runner.tools.listing import ToolLister

DRAIN_SECONDS = 8.0
_CLOSE_SECONDS = 1.0
_CLEAN_SECONDS = 600.0
SERVICE = "tool-runner"


class NatsLostError(Exception):
    """The connection to NATS was lost for good; only a new process can connect again."""


async def run_tool_runner(
    settings: ToolRunnerSettings, name: str, guard: Guard, sealer: Sealer, stop: asyncio.Event
) -> None:
    """Run until `stop` is set, then give running calls 8 s to finish.

    Raises:
        NatsLostError
    """
    settings = replace(settings, database_url=act_as(settings.database_url, "tool_runner"))
    logs.configure(SERVICE, settings.log_level)
    # The MCP client logs responses that it cannot parse, with their content.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    tracing.configure(SERVICE, settings.otlp_endpoint)
    lost = asyncio.Event()

    def on_lost() -> None:
        lost.set()
        stop.set()

    async with (
        _open_directory(settings, sealer) as pool,
        Bus.connect(settings.nats_url, name=SERVICE, on_lost=on_lost) as bus,
        _open_authorizations(settings, sealer, guard) as authorizations,
        _open_servers(guard, authorizations) as servers,
    ):
        journal = Journal(pool, f"{name}/{make_id()}")
        links = AuthorizationLinks(authorizations, settings.redirect_uri)
        agents = AgentServers(pool, sealer, settings.gateway_url.rstrip("/"))
        await _consume(settings, bus, pool, journal, agents, servers, links, stop)
    if lost.is_set():
        raise NatsLostError


@contextlib.asynccontextmanager
async def _open_directory(settings: ToolRunnerSettings, sealer: Sealer) -> AsyncIterator[Pool]:
    async with open_pool(settings.database_url) as pool:
        await refuse_unknown_key(pool, sealer)
        yield pool


async def _consume(
    settings: ToolRunnerSettings,
    bus: Bus,
    pool: Pool,
    journal: Journal,
    agents: AgentServers,
    servers: ServerPool,
    links: AuthorizationLinks,
    stop: asyncio.Event,
) -> None:
    executor = Executor(bus, agents, servers, journal, DatabaseClock(pool), settings.slots)
    files = FileStore(pool, ObjectStore(settings.files_url))
    handler, lister = CallHandler(bus, executor, ResultQuota(), files), ToolLister(agents, servers)
    # The other sides: bus.commands.list_tools and check_tools (orchestrator and administration),
    # administration.admin_authorizations (authorize), gateway.api.oauth_callback (authorized).
    cancels = await bus.traces.follow_cancels(executor.cancel)
    cancels.look_again()
    followed = [
        await bus.rpc.serve(subjects.TOOLS_LIST, SERVICE, lister.answer_list),
        await bus.rpc.serve(subjects.TOOLS_CHECK, SERVICE, lister.answer_check),
        await bus.rpc.serve(subjects.TOOLS_AUTHORIZE, SERVICE, links.begin),
        await bus.rpc.serve(subjects.TOOLS_AUTHORIZED, SERVICE, links.finish),
        cancels,
    ]
    limit = asyncio.timeout(None)
    background = [
        asyncio.create_task(servers.tidy()),
        asyncio.create_task(
            repeat(
                journal.delete_old,
                _CLEAN_SECONDS,
                DatabaseUnavailable,
                log=logs.get_logger(SERVICE),
                problem="cannot_clean",
            )
        ),
        asyncio.create_task(_drain(executor, limit, stop)),
    ]
    try:
        async with _serve_health(settings, bus, pool), limit:  # ready once requests are answered
            # The other side is orchestrator.tools.tool_calls.RunToolCalls, which publishes ToolRequested.
            await bus.queues.consume("TOOLS", handler.handle, slots=settings.slots * HELD_PER_SLOT, stop=stop)
    except TimeoutError:
        logs.get_logger(SERVICE).warning("drain_cut_short")
    finally:
        for task in background:
            task.cancel()
        for subscription in followed:
            await subscription.close()


async def _drain(executor: Executor, limit: asyncio.Timeout, stop: asyncio.Event) -> None:
    """Give running calls 8 s to finish, then 1 s to report that they were interrupted."""
    await stop.wait()
    logs.get_logger(SERVICE).info("draining")
    executor.close()
    await asyncio.sleep(DRAIN_SECONDS)
    executor.interrupt()
    limit.reschedule(asyncio.get_running_loop().time() + _CLOSE_SECONDS)


@contextlib.asynccontextmanager
async def _open_authorizations(
    settings: ToolRunnerSettings, sealer: Sealer, guard: Guard
) -> AsyncIterator[Authorizations]:
    """Open the access tokens, with a connection pool of their own.

    A connection is held while an authorization server answers.
    """
    http = AuthorizationHttp(guard, get_tls_context())
    async with open_pool(
        settings.database_url,
        min_size=0,
        max_size=2 * AT_ONCE,
        options=f"-c statement_timeout={round(LOCKED_SECONDS * 1000)}",
    ) as pool:
        try:
            yield Authorizations(pool, sealer, http)
        finally:
            await http.aclose()


@contextlib.asynccontextmanager
async def _open_servers(guard: Guard, authorizations: Authorizations) -> AsyncIterator[ServerPool]:
    servers = ServerPool(guard, get_tls_context(), authorizations)
    try:
        yield servers
    finally:
        await servers.close(_CLOSE_SECONDS)


@contextlib.asynccontextmanager
async def _serve_health(settings: ToolRunnerSettings, bus: Bus, pool: Pool) -> AsyncIterator[None]:
    health = HealthChecks({"nats": bus.ping, "postgres": lambda: ping(pool)})
    async with serve_health(health, settings.host, settings.health_port) as port:
        logs.get_logger(SERVICE).info("ready", health_port=port, slots=settings.slots)
        yield
