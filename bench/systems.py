"""The systems that are measured: the complete service, and baselines on a Postgres with the same settings."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import LiteralString

from agentchat.administration.agent_versions import create_agent
from agentchat.contracts.events import ConversationSeeded, ConversationStarted
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.ops import demo, folder_secrets, process_record
from agentchat.ops.folder_secrets import Secrets
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.settings import UpSettings
from agentchat.ops.stack import describe_servers
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from agentchat.runtime.postgres import acquire_connection, open_pool
from bench.load import Load
from bench.processes import ROOT, Pids, Started, start_serving
from tests.harness import RunningStack, running_stack, temporary_folder

SERVICE = "service"
SHORT = "lean?deltas=20"
TOOL = f"{SHORT}&tool=get_product"
BASELINE_PYTHON = ROOT / ".bench" / "venv" / "bin" / "python"
_SETTINGS = {"AGENTCHAT_RUN_SLOTS": "6000", "AGENTCHAT_HTTP_PARSER": "httptools"}
"""Settings with which the orchestrator takes all streams, and HTTP is parsed as in the baselines."""
_UNUSED = "nats://unused"
_SETTLE_SECONDS = 120.0


class Service:
    """The system under test, as a running stack."""

    name = SERVICE

    def __init__(self, stack: RunningStack, agents: dict[str, str]) -> None:
        self._stack, self._agents = stack, agents

    @property
    def pids(self) -> Pids:
        """The processes as they are now."""
        kept = process_record.read(self._stack.folder.processes)
        assert kept is not None, "a stack that runs keeps its record"
        started = {entry.name: entry.pid for entry in kept.processes if entry.pid is not None}
        return {**started, "up": kept.pid}

    async def start_conversation(self, messages: int) -> str:
        """Return the id of a new conversation with so many earlier messages."""
        conversation_id, at = make_id(), datetime.now(UTC).isoformat()
        pair = (ShownMessage("user", "Go."), ShownMessage("assistant", "A reply of a line or two." * 4))
        stored = (
            ConversationStarted(trace_id=make_id(), at=at, account_id=demo.LOAD_ACCOUNT_ID),
            ConversationSeeded(trace_id=make_id(), at=at, messages=pair * (messages // 2)),
        )
        async with open_store(self._stack.environment.database_url) as store:
            await store.append(Conversation(conversation_id=conversation_id), stored)
        return conversation_id

    def load(
        self, model: str, chats: int, at_once: int, ramp: float, conversation_id: str | None = None
    ) -> Load:
        """Describe chats with a model, each in a conversation of its own or all in one."""
        found = self._stack.environment
        agent = self._agents[model]
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": agent, "X-Stream-Form": "1"}
        body = {"message": "Go."} | ({"conversation_id": conversation_id} if conversation_id else {})
        url, bodies = f"{found.base_url}/v1/chat/stream", (body,)
        return Load(url=url, headers=headers, bodies=bodies, chats=chats, at_once=at_once, ramp=ramp)

    async def settle(self) -> None:
        """Wait until no run has a lease and all events are in the read models. Raises TimeoutError."""
        async with (
            asyncio.timeout(_SETTLE_SECONDS),
            open_pool(self._stack.environment.database_url, role=None) as pool,
            acquire_connection(pool, seconds=_SETTLE_SECONDS) as conn,
        ):
            while await (await conn.execute(_IS_SETTLED)).fetchone() != (True,):  # noqa: ASYNC110 - a table has no event
                await asyncio.sleep(0.05)


class Baseline:
    """A hand-written server to compare with."""

    def __init__(self, name: str, server: Started, postgres: int) -> None:
        self.name, self._server = name, server
        self._postgres = postgres

    async def settle(self) -> None:
        """Return at once: a baseline has saved everything when it answers."""

    @property
    def pids(self) -> Pids:
        """The processes to measure, by name."""
        return {"server": self._server.pid, "postgres": self._postgres}

    def load(self, model: str, chats: int, at_once: int, ramp: float) -> Load:
        """Describe the chats to send."""
        url, bodies = f"{self._server.url}/v1/chat/stream", ({"message": "Go.", "model": model},)
        return Load(url=url, headers={}, bodies=bodies, chats=chats, at_once=at_once, ramp=ramp)


System = Service | Baseline


async def make_agents(stack: RunningStack, *models: str) -> dict[str, str]:
    """Make an agent for each model, with the demo's tools if the model calls one; return their ids."""
    sealer = Sealer.from_setting(folder_secrets.load_or_create_secrets(stack.folder.secrets).secret_key)
    found = stack.environment
    shop = McpServer(name=demo.SHOP_SERVER, url=f"{found.mcp_base_url}/api/mcp")
    agents = {}
    async with open_pool(found.database_url, role=None) as pool, acquire_connection(pool, seconds=10) as conn:
        for model in models:
            draft = AgentDraft(
                name=f"Bench {model}",
                model=model,
                system_prompt=demo.LOAD_PROMPT,
                parameters={"max_tokens": 4096},
                mcp_servers=(shop,) if "tool=" in model else (),
            )
            agents[model] = make_id()
            await create_agent(
                conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="bench", agent_id=agents[model]
            )
    return agents


@contextlib.asynccontextmanager
async def run_service(upstream: Started, models: tuple[str, ...]) -> AsyncIterator[Service]:
    """Run the complete service while the block runs."""
    environ = {"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": upstream.url} | _SETTINGS
    async with running_stack(None, environ) as stack:
        yield Service(stack, await make_agents(stack, *models))


@contextlib.asynccontextmanager
async def run_baseline(form: str, upstream: Started) -> AsyncIterator[Baseline]:
    """Run a baseline while the block runs, on a Postgres with the service's settings."""
    with temporary_folder() as name:
        folder = RunFolder(name)
        folder.create()
        settings = UpSettings(nats_url=_UNUSED, redis_url=_UNUSED)
        servers = describe_servers(folder, Secrets().servers_key, settings)
        async with Supervisor(folder, servers.processes, QuietReport()) as supervisor:
            await supervisor.wait_up(60.0)
            kept = process_record.read(folder.processes)
            entry = kept.find("postgres") if kept else None
            assert entry is not None
            assert entry.pid is not None
            module = (str(BASELINE_PYTHON), "-m", "bench.baselines")
            async with start_serving(*module, form, servers.database_url, upstream.url) as server:
                yield Baseline(form, server, entry.pid)


_IS_SETTLED: LiteralString = """
SELECT NOT EXISTS (SELECT FROM run_leases)
   AND (SELECT min(position) FROM projection_positions WHERE name <> 'events_feed')
       >= (SELECT coalesce(max(notification_id), 0) FROM conversation_events)
"""
