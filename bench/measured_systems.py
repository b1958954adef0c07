"""What is measured: the complete service, and baselines, each on its own Postgres with the same settings."""

import asyncio
import contextlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import LiteralString

import psycopg

from administration.admin_versions import create_agent
from bench import histories
from bench.load import Load
from bench.processes import ROOT, Pids, Started, serving
from bench.protocol_requests import PROTOCOLS
from bench.scenarios import SERVICE
from contracts.ids import new_id
from directory.agent_draft import AgentDraft
from directory.agents import McpServer
from directory.secrets import Sealer
from ops import demo, folder_secrets, record
from ops.environment import Environment
from ops.folder import RunFolder
from ops.folder_secrets import Secrets
from ops.ports import Ports
from ops.settings import Counts, UpSettings
from ops.stack import describe_servers
from ops.stack_report import QuietReport
from ops.supervisor import Supervisor
from runtime.postgres import connection, open_pool
from tests.harness import RunningStack, running_stack, temporary_folder

_SECONDS = 120.0
_IS_SETTLED: LiteralString = """
SELECT NOT EXISTS (SELECT FROM run_leases)
   AND (SELECT min(position) FROM read_model_positions)
       >= (SELECT coalesce(max(notification_id), 0) FROM conversation_events)
"""
_LAST: LiteralString = "SELECT coalesce(max(notification_id), 0) FROM conversation_events"


async def settled(database_url: str, seconds: float = _SECONDS) -> None:
    """No run has a lease, and all events are in the read models. Raises TimeoutError."""
    async with (
        asyncio.timeout(seconds),
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as conn,
    ):
        while True:
            row = await (await conn.execute(_IS_SETTLED)).fetchone()
            if row and row[0]:
                return
            await asyncio.sleep(0.05)


async def last_position(database_url: str) -> int:
    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        row = await (await conn.execute(_LAST)).fetchone()
    return int(row[0]) if row else 0


def name_of(model: str) -> str:
    return f"Bench {model}"


async def make_agents(stack: RunningStack, *models: str) -> dict[str, str]:
    """An agent for each model, which has the demo's tools where the model calls one; their ids by model."""
    sealer = Sealer.from_setting(folder_secrets.keep(stack.folder.secrets).secret_key)
    found = stack.environment
    shop = McpServer(name=demo.SHOP_SERVER, url=f"{found.mcp_base_url}/api/mcp")
    made = {}
    async with open_pool(found.database_url, role=None) as pool, connection(pool, seconds=10) as conn:
        for model in models:
            draft = AgentDraft(
                name=name_of(model),
                model=model,
                system_prompt=demo.LOAD_PROMPT,
                parameters={"max_tokens": 4096},
                mcp_servers=(shop,) if "tool=" in model else (),
            )
            made[model] = new_id()
            await create_agent(conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="bench", agent_id=made[model])
    return made


BASELINE_PYTHON = ROOT / ".bench" / "venv" / "bin" / "python"
_SLOTS = {"AGENTCHAT_RUN_SLOTS": "6000"}
"""So that the orchestrator takes as many streams as are asked for."""
_UNUSED = "nats://unused"


class Subject(ABC):
    """One system under load. `name` is a column of the tables."""

    name: str

    @property
    @abstractmethod
    def pids(self) -> Pids:
        """Its processes as they are now."""

    @abstractmethod
    def load(self, model: str, chats: int, at_once: int, conversation: str | None = None) -> Load:
        """Chats of a model; all in one conversation, where it is given, else each in its own."""

    @abstractmethod
    async def conversation(self, messages: int) -> str:
        """The id of a new conversation that has so many messages."""

    async def settle(self) -> None:  # noqa: B027 - a baseline has saved all when it answers
        """Return when the work that follows the answers is done."""


class Service(Subject):
    def __init__(self, stack: RunningStack, agents: dict[str, str]) -> None:
        self.name = SERVICE
        self._stack, self._agents = stack, agents

    @property
    def pids(self) -> Pids:
        kept = record.read(self._stack.folder.processes)
        assert kept is not None, "a stack that runs keeps its record"
        started = {entry.name: entry.pid for entry in kept.processes if entry.pid is not None}
        return {**started, "up": kept.pid}

    def load(self, model: str, chats: int, at_once: int, conversation: str | None = None) -> Load:
        found = self._stack.environment
        body = {"message": "Go."} | ({"conversation_id": conversation} if conversation else {})
        agent = self._agents[model]
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": agent, "X-Stream-Form": "1"}
        url = f"{found.base_url}/v1/chat/stream"
        return Load(url=url, headers=headers, bodies=(body,), chats=chats, at_once=at_once)

    @property
    def owner_url(self) -> str:
        kept = folder_secrets.keep(self._stack.folder.secrets)
        return histories.as_owner(self._stack.environment.database_url, kept.servers_key)

    @property
    def environment(self) -> Environment:
        return self._stack.environment

    async def conversation(self, messages: int) -> str:
        made = histories.of_service(self.owner_url, messages)
        await self.settle()
        return made

    async def settle(self, seconds: float = 120.0) -> None:
        await settled(self._stack.environment.database_url, seconds)


class ByProtocol(Subject):
    def __init__(self, name: str, of: Service) -> None:
        self.name, self._of, self._request = name, of, PROTOCOLS[name]

    @property
    def pids(self) -> Pids:
        return self._of.pids

    def load(self, model: str, chats: int, at_once: int, conversation: str | None = None) -> Load:
        own = self._of.load(model, chats, at_once, conversation)
        key, agent = own.headers["X-Api-Key"], own.headers["X-Agent-Id"]
        return Load(
            url=self._of.environment.base_url + self._request.path.format(agent=agent),
            headers=self._request.headers_for(key, agent),
            bodies=tuple(self._request.body(name_of(model)) for _ in range(chats)),
            chats=chats,
            at_once=at_once,
            done=self._request.done,
        )

    async def conversation(self, messages: int) -> str:
        return await self._of.conversation(messages)

    async def settle(self) -> None:
        await self._of.settle()


class Baseline(Subject):
    def __init__(self, name: str, server: Started, postgres: int, database_url: str) -> None:
        self.name, self._postgres = name, postgres
        self._server, self._database_url = server, database_url

    @property
    def pids(self) -> Pids:
        return {"server": self._server.pid, "postgres": self._postgres}

    def load(self, model: str, chats: int, at_once: int, conversation: str | None = None) -> Load:
        body = {"message": "Go.", "model": model}
        body |= {"conversation_id": conversation} if conversation else {}
        url = f"{self._server.url}/v1/chat/stream"
        return Load(url=url, headers={}, bodies=(body,), chats=chats, at_once=at_once)

    async def conversation(self, messages: int) -> str:
        made = str(uuid.uuid4())
        with psycopg.connect(self._database_url, autocommit=True) as conn:
            conn.execute(_FILL, [made, histories.TEXT, messages])
        return made


@contextlib.asynccontextmanager
async def service(
    upstream: Started, models: tuple[str, ...], counts: Counts | None = None
) -> AsyncIterator[Service]:
    environ = {"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": upstream.url} | _SLOTS
    async with running_stack(counts, environ) as stack:
        yield Service(stack, await make_agents(stack, *models))


@contextlib.asynccontextmanager
async def baseline(form: str, upstream: Started) -> AsyncIterator[Baseline]:
    """Up while the block runs, on the service's Postgres settings."""
    with temporary_folder() as name, contextlib.closing(Ports()) as ports:
        folder = RunFolder(name)
        folder.create()
        settings = UpSettings(nats_url=_UNUSED, redis_url=_UNUSED)
        servers = describe_servers(folder, ports, Secrets().servers_key, settings)
        async with Supervisor(folder, servers.processes, QuietReport()) as supervisor:
            await supervisor.wait_up(60.0)
            kept = record.read(folder.processes)
            entry = kept.entry("postgres") if kept else None
            assert entry is not None
            assert entry.pid is not None
            url = servers.database_url
            command = (str(BASELINE_PYTHON), "-m", "bench.baselines", form, url, upstream.url)
            async with serving(*command) as server:
                yield Baseline(form, server, entry.pid, url)


_FILL = """
INSERT INTO chat_messages (conversation_id, role, content)
SELECT %s, CASE number %% 2 WHEN 1 THEN 'user' ELSE 'assistant' END, %s FROM generate_series(1, %s) AS number
"""
