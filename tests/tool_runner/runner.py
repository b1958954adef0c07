"""The tool-runner as its processes are, with agents in a real directory and calls over a real bus."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentchat.administration import admin_accounts
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import create_agent
from agentchat.bus.bus import Bus
from agentchat.bus.commands import check_agent
from agentchat.contracts.ids import make_id
from agentchat.contracts.subjects import TOOLS_LIST
from agentchat.contracts.tool_messages import (
    ListTools,
    ServerCheck,
    ToolFinished,
    ToolRequested,
    ToolsListed,
)
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.administrator import administrator
from tests.support.service_process import START_SECONDS, ServiceProcess, start_service

SECRET_KEY = base64.b64encode(bytes(range(32))).decode()
_RUNS = 128  # more than a test asks calls for
SECONDS = 40.0  # for what the queue delivers again after 10 s, to a runner that is started meanwhile


class Agent(msgspec.Struct, frozen=True):
    """An agent at version 1. `open_runs` are traces of runs that the log has, and that have not ended."""

    account_id: str
    agent_id: str
    open_runs: list[str] = []

    def call(self, tool: str, server: str = "scripted", **more: Any) -> ToolRequested:
        """Build a request to run one of its tools, for a run of its own if no trace is given."""
        given: dict[str, Any] = {"call_id": f"call_{make_id()}", "input": {}}
        if "trace_id" not in more:
            given["trace_id"] = self.open_runs.pop()
        return ToolRequested(
            account_id=self.account_id,
            agent_id=self.agent_id,
            agent_version=1,
            server=server,
            tool=tool,
            **given | more,
        )


async def make_agent(database_url: str, *servers: McpServer) -> Agent:
    """Create an agent of a new account."""
    async with open_pool(database_url, role=None) as pool, acquire_connection(pool, seconds=10) as conn:
        account_id = make_id()
        await admin_accounts.create(administrator(pool), NewAccount(name="Test", plan="Pro", id=account_id))
        draft = AgentDraft(name="Test", model="none", mcp_servers=servers, provider_key="k")
        sealer = Sealer.from_setting(SECRET_KEY)
        agent_id = await create_agent(conn, sealer, account_id, draft, actor="test")
        traces = [os.urandom(16).hex() for _ in range(_RUNS)]
        await conn.execute(_APPEND, ["run_started.v1", traces])
    return Agent(account_id, agent_id, traces)


async def end_run(database_url: str, trace_id: str) -> None:
    """Have the log say that a run has ended."""
    async with open_pool(database_url, role=None) as pool, acquire_connection(pool, seconds=10) as conn:
        await conn.execute(_APPEND, ["run_completed.v1", [trace_id]])


# A conversation for each event: a runner is to look at the trace alone. In the order of their locks.
_APPEND = """
INSERT INTO conversation_events (originator_id, originator_version, topic, state, trace_id)
SELECT id, 1, %s, convert_to(json_build_object('trace_id', trace_id)::text, 'UTF8'), trace_id
  FROM (SELECT gen_random_uuid()::text AS id, trace_id FROM unnest(%s::text[]) AS trace_id OFFSET 0) AS new
 ORDER BY hashtext(id) & 4095
"""


class Runner:
    """One process. Its log lines are kept."""

    def __init__(self, process: ServiceProcess, log: int) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(log))

    async def wait_for_log(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for a line of that event with those fields. Raises when the process ends."""

        def find_lines() -> list[dict[str, Any]]:
            wanted = {"event": event, **fields}
            return [line for line in self.lines if wanted.items() <= line.items()]

        async with asyncio.timeout(START_SECONDS), self._news:
            await self._news.wait_for(lambda: bool(find_lines()) or self._reading.done())
        assert find_lines(), self.lines[-5:]
        return find_lines()[0]

    async def get_health_port(self) -> int:
        return int((await self.wait_for_log("ready"))["health_port"])

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def wait_for_end(self, seconds: float = START_SECONDS) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def _read(self, log: int) -> None:
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(log, "rb")
        )
        async for line in reader:
            async with self._news:
                with contextlib.suppress(json.JSONDecodeError):
                    self.lines.append(json.loads(line))
                self._news.notify_all()
        pipe.close()
        async with self._news:
            self._news.notify_all()

    async def close(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        await self.process.wait()
        await self._reading


def make_environ(nats_url: str, database_url: str, allow: Sequence[str], **more: str) -> dict[str, str]:
    """Build the environment of a tool-runner's process."""
    return {
        "PATH": os.environ["PATH"],
        "AGENTCHAT_NATS_URL": nats_url,
        "AGENTCHAT_DATABASE_URL": database_url,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        "AGENTCHAT_HEALTH_PORT": "0",
        "AGENTCHAT_MCP_ALLOW": ",".join(allow),
        "AGENTCHAT_FILES_URL": Path(tempfile.gettempdir(), "agentchat-tests-files").as_uri(),
        **more,
    }


@contextlib.asynccontextmanager
async def start_runner(env: dict[str, str]) -> AsyncIterator[Runner]:
    """Start a process and wait until it is ready."""
    ours, theirs = os.pipe()
    arguments = ("--name", "tool-runner-1", "--run-dir", ".run")
    process = start_service("tool_runner", *arguments, env=env, stderr=theirs)
    os.close(theirs)
    runner = Runner(process, ours)
    try:
        await runner.get_health_port()
        yield runner
    finally:
        await runner.close()


class Calls:
    """Asks for tools over a bus, as orchestrators do."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def finish(self, request: ToolRequested, seconds: float = SECONDS) -> ToolFinished:
        """Ask, and wait for the result."""
        done: asyncio.Future[ToolFinished] = asyncio.get_running_loop().create_future()

        def deliver(result: ToolFinished) -> None:
            if result.call_id == request.call_id and not done.done():
                done.set_result(result)

        following = await self.bus.traces.follow_tool_results(request.trace_id, deliver)
        try:
            await self.bus.queues.request_tool(request)
            async with asyncio.timeout(seconds):
                return await done
        finally:
            await following.close()

    async def list_tools(self, agent: Agent) -> ToolsListed:
        question = ListTools(account_id=agent.account_id, agent_id=agent.agent_id, agent_version=1)
        return await self.bus.rpc.ask(TOOLS_LIST, question, ToolsListed, timeout=10.0)

    async def check(self, agent: Agent) -> tuple[ServerCheck, ...]:
        return (await check_agent(self.bus.rpc, agent.account_id, agent.agent_id, 1)).servers
