"""Start and stop the orchestrator process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec.structs import replace

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.append_statement import Condition
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.leases.leases import Leases
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.directory.agent_config import UNCHANGED
from agentchat.directory.model_parameters import DEFAULT_PROVIDER
from agentchat.directory.secret_encryption import build_sealer, refuse_unknown_key
from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.knowledge.embedding.configured_embedder import open_embedder
from agentchat.knowledge.embedding.vectors import check_usable
from agentchat.limits.limiter import Limiter
from agentchat.orchestrator.agent_loader import Agents
from agentchat.orchestrator.heartbeat import run_heartbeat
from agentchat.orchestrator.inbox.exhausted_deliveries import end_exhausted
from agentchat.orchestrator.inbox.inbox import Inbox
from agentchat.orchestrator.models import Models, read_defaults
from agentchat.orchestrator.output.validation_processes import SchemaChecks
from agentchat.orchestrator.rpc.answer_what_if import serve_what_ifs
from agentchat.orchestrator.rpc.conversation_commands import serve_commands
from agentchat.orchestrator.rpc.erase_conversation import keep_removing
from agentchat.orchestrator.rpc.model_check import serve_checks
from agentchat.orchestrator.services import DEFAULT, Timings, WorkerServices
from agentchat.orchestrator.settings import Settings
from agentchat.orchestrator.tools.tool_list_cache import ToolListings
from agentchat.runtime import logs
from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.postgres import act_as, open_pool
from agentchat.runtime.uvicorn_server import limit_to_open_files

_POOL = 8
_LEASE_POOL = 2
_RENEWAL_POOL = 1
_AGENT_UNCHANGED = Condition(UNCHANGED, width=5)


async def run_worker(settings: Settings, name: str, stop: asyncio.Event, timings: Timings = DEFAULT) -> None:
    """Process REQUESTS until `stop` is set. Runs that cannot end by then are handed over."""
    settings = replace(settings, database_url=act_as(settings.database_url, "orchestrator"))
    async with _open_services(settings, name, stop, timings) as services, asyncio.TaskGroup() as background:
        health = HealthChecks({"nats": services.bus.ping, "postgres": services.store.ping})
        async with (
            serve_commands(services),
            serve_checks(services),
            serve_what_ifs(services),
            serve_health(health, settings.host, settings.health_port) as port,
        ):
            following = await services.bus.traces.follow_cancels(services.register.cancel)
            following.look_again()
            beating = background.create_task(run_heartbeat(services))
            line = background.create_task(services.line.follow(settings.database_url))
            background.create_task(
                services.bus.queues.follow_max_deliveries(
                    lambda message: end_exhausted(services, message), stop=stop
                )
            )
            background.create_task(_drain(services))
            removing = background.create_task(keep_removing(services, settings.unlisted_hours * 3600))
            logs.get_logger("worker").info("ready", health_port=port, run_slots=services.run_slots)
            inbox = Inbox(services)
            ready, slots = services.leases.readiness, services.run_slots
            await services.bus.queues.consume(
                "REQUESTS", inbox.handle, slots=slots, stop=stop, readiness=ready
            )
            for task in (beating, line, removing):
                task.cancel()
            await following.close()


async def _drain(services: WorkerServices) -> None:
    """Give runs `drain_seconds` to finish their step, then hand them over to other workers."""
    await services.stop.wait()
    services.register.interrupt("shutdown", waiting_only=True)
    try:
        async with asyncio.timeout(services.timings.drain_seconds):
            await services.register.wait_until_none()
    except TimeoutError:
        services.register.interrupt("shutdown")


@asynccontextmanager
async def _open_services(
    settings: Settings, name: str, stop: asyncio.Event, timings: Timings
) -> AsyncIterator[WorkerServices]:
    sealer = build_sealer(settings.secret_key, settings.previous_secret_keys)
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(open_embedder(settings))
        # Opened one after the other, so that they close in the opposite order.
        bus = await stack.enter_async_context(Bus.connect(settings.nats_url, name=name, on_lost=stop.set))
        store = await stack.enter_async_context(open_store(settings.database_url, _AGENT_UNCHANGED))
        pool = await stack.enter_async_context(open_pool(settings.database_url, max_size=_POOL))
        # A pool of their own: tenants decide how long searches in the other pool take.
        lease_pool = await stack.enter_async_context(
            open_pool(settings.database_url, min_size=1, max_size=_LEASE_POOL)
        )
        renewals = await stack.enter_async_context(
            open_pool(settings.database_url, min_size=1, max_size=_RENEWAL_POOL)
        )
        await refuse_unknown_key(pool, sealer)
        limiter = Limiter(settings.redis_url, instance=name, timeout=timings.limits_seconds)
        stack.push_async_callback(limiter.aclose)
        models = Models(read_defaults(settings), settings.guard(), sealer)
        stack.push_async_callback(models.aclose)
        await models.get_model(DEFAULT_PROVIDER)
        schema_checks = SchemaChecks()
        stack.push_async_callback(schema_checks.aclose)
        yield WorkerServices(
            bus=bus,
            store=store,
            log=Log(pool),
            leases=Leases(lease_pool, name, renewals=renewals, timings=timings.leases),
            line=WaitingLine(pool, name),
            limiter=limiter,
            agents=Agents(pool, sealer),
            listings=ToolListings(bus.rpc, give_up_seconds=timings.tools_listed_seconds),
            models=models,
            pool=pool,
            files=FileStore(pool, ObjectStore(settings.files_url)),
            embedder=await check_usable(pool, embedder),
            schema_checks=schema_checks,
            name=name,
            run_slots=limit_to_open_files(settings.run_slots),
            stop=stop,
            timings=timings,
        )
