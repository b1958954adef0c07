"""Wiring: one process that takes calls from TOOLS and answers `chat.tools.list` and `chat.tools.check`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import httpx2
from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.contracts import subjects
from agentchat.contracts.ids import new_id
from agentchat.directory.secrets import Sealer, refuse_unknown_key
from agentchat.directory.tool_authorizations import LOCKED_SECONDS
from agentchat.net_guard import Guard
from agentchat.runtime import logs, telemetry
from agentchat.runtime.health import HealthChecks, serve_health
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, acting_as, open_pool, ping
from agentchat.tool_runner.authorization.authorization_links import AuthorizationLinks
from agentchat.tool_runner.authorization.authorization_requests import AuthorizationHttp
from agentchat.tool_runner.authorization.tokens import AT_ONCE, Authorizations
from agentchat.tool_runner.calls.executor import Executor
from agentchat.tool_runner.calls.handler import HELD_PER_SLOT, CallHandler
from agentchat.tool_runner.calls.result_quota import ResultQuota
from agentchat.tool_runner.database_clock import DatabaseClock
from agentchat.tool_runner.journal import Journal
from agentchat.tool_runner.servers.agent_servers import AgentServers
from agentchat.tool_runner.servers.server_pool import ServerPool
from agentchat.tool_runner.settings import ToolRunnerSettings
from agentchat.tool_runner.tools.listing import Checking, Listing

DRAIN_SECONDS = 8.0
_CLOSE_SECONDS = 1.0
_CLEAN_SECONDS = 600.0
SERVICE = "tool-runner"


class NatsLostError(Exception):
    """The connection to NATS will not come back by itself; a new process has to make one."""


async def work(
    settings: ToolRunnerSettings, name: str, guard: Guard, sealer: Sealer, stop: asyncio.Event
) -> None:
    """Run until `stop` is set and the calls under way are done, or 8 s have passed. Raises NatsLostError."""
    settings = replace(settings, database_url=acting_as(settings.database_url, "tool_runner"))
    logs.configure(SERVICE, settings.log_level)
    # The MCP client logs answers that it cannot parse, with what they held.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    telemetry.configure(SERVICE, settings.otlp_endpoint)
    lost = asyncio.Event()

    def on_lost() -> None:
        lost.set()
        stop.set()

    async with (
        _directory(settings, sealer) as pool,
        Bus.connect(settings.nats_url, name=SERVICE, on_lost=on_lost) as bus,
        _authorizations(settings, sealer, guard) as authorizations,
        _servers(guard, authorizations) as servers,
    ):
        journal = Journal(pool, f"{name}/{new_id()}")
        links = AuthorizationLinks(authorizations, settings.redirect_uri)
        agents = AgentServers(pool, sealer)
        await _consume(settings, bus, pool, journal, agents, servers, links, stop)
    if lost.is_set():
        raise NatsLostError


@contextlib.asynccontextmanager
async def _directory(settings: ToolRunnerSettings, sealer: Sealer) -> AsyncIterator[Pool]:
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
    executor = Executor(agents, servers)
    handler = CallHandler(bus, executor, journal, DatabaseClock(pool), ResultQuota(), settings.slots)
    followed = [
        await bus.rpc.serve(subjects.TOOLS_LIST, SERVICE, Listing(agents, servers).answer),
        await bus.rpc.serve(subjects.TOOLS_CHECK, SERVICE, Checking(agents, servers).answer),
        await bus.rpc.serve(subjects.TOOLS_AUTHORIZE, SERVICE, links.begin),
        await bus.rpc.serve(subjects.TOOLS_AUTHORIZED, SERVICE, links.finish),
        await bus.traces.follow_cancels(executor.cancel),
    ]
    limit = asyncio.timeout(None)
    aside = [
        asyncio.create_task(servers.tidy()),
        asyncio.create_task(_clean(journal)),
        asyncio.create_task(_drain(handler, executor, limit, stop)),
    ]
    try:
        async with _health(settings, bus, pool), limit:  # ready once it answers
            await bus.queues.consume("TOOLS", handler.handle, slots=settings.slots * HELD_PER_SLOT, stop=stop)
    except TimeoutError:
        logs.get_logger(SERVICE).warning("drain_cut_short")
    finally:
        for task in aside:
            task.cancel()
        for subscription in followed:
            await subscription.close()


async def _drain(
    handler: CallHandler, executor: Executor, limit: asyncio.Timeout, stop: asyncio.Event
) -> None:
    """Give the calls that run their time, then a moment to report that they were interrupted."""
    await stop.wait()
    logs.get_logger(SERVICE).info("draining")
    handler.close()
    await asyncio.sleep(DRAIN_SECONDS)
    executor.interrupt()
    limit.reschedule(asyncio.get_running_loop().time() + _CLOSE_SECONDS)


async def _clean(journal: Journal) -> None:
    while True:
        with contextlib.suppress(DatabaseUnavailable):
            await journal.delete_old()
        await asyncio.sleep(_CLEAN_SECONDS)


@contextlib.asynccontextmanager
async def _authorizations(
    settings: ToolRunnerSettings, sealer: Sealer, guard: Guard
) -> AsyncIterator[Authorizations]:
    """On connections of their own: one is held while an authorization server is waited for."""
    http = AuthorizationHttp(guard, httpx2.create_ssl_context())
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
async def _servers(guard: Guard, authorizations: Authorizations) -> AsyncIterator[ServerPool]:
    servers = ServerPool(guard, httpx2.create_ssl_context(), authorizations)
    try:
        yield servers
    finally:
        await servers.close(_CLOSE_SECONDS)


@contextlib.asynccontextmanager
async def _health(settings: ToolRunnerSettings, bus: Bus, pool: Pool) -> AsyncIterator[None]:
    health = HealthChecks({"nats": bus.ping, "postgres": lambda: ping(pool)})
    async with serve_health(health, settings.host, settings.health_port) as port:
        logs.get_logger(SERVICE).info("ready", health_port=port, slots=settings.slots)
        yield
