"""A runner shuts down, and calls that were started before are not run again.

`make step-matrix` and `make chaos` kill, stop and pause runners, and take NATS and Postgres away from them.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from agentchat.bus.bus import Bus
from agentchat.bus.queue_consumer import QueueDelivery
from agentchat.contracts import subjects
from agentchat.contracts.tool_messages import ToolFinished
from agentchat.directory.agent_config import McpServer
from agentchat.runtime.settings import load
from agentchat.tool_runner import worker
from agentchat.tool_runner.faults import ToolFailed
from agentchat.tool_runner.settings import ToolRunnerSettings
from tests.blocking import until_blocked_by
from tests.bus.queue_state import wait_for_undelivered, wait_until_nobody_pulls
from tests.tool_runner.handling import handle_calls
from tests.tool_runner.runner import SECONDS, Agent, Calls, end_run, make_agent, make_environ
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool

TOOLS = [make_tool("read", readOnlyHint=True), make_tool("set", idempotentHint=True), make_tool("write")]


class Scene:
    """A tool server that counts, and answers when it may; no runner yet."""

    def __init__(self, nats_url: str, database_url: str) -> None:
        self.nats_url = nats_url
        self.database_url = database_url
        self.may_answer = asyncio.Event()
        self.executed: Counter[str] = Counter()
        self.scripted = ScriptedServer(self._on_call, TOOLS)
        self.agent = Agent("", "")
        self._news = asyncio.Condition()

    async def _on_call(self, call: Call) -> None:
        async with self._news:
            self.executed[call.tool] += 1
            self._news.notify_all()
        await self.may_answer.wait()
        await call.send_text("done")

    async def wait_for_calls(self, *names: str) -> None:
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(lambda: all(self.executed[name] for name in names))

    @asynccontextmanager
    async def run_worker(self) -> AsyncIterator[tuple[asyncio.Task[None], asyncio.Event]]:
        """Run the worker in this process, as `__main__` does."""
        environ = make_environ(
            self.nats_url, self.database_url, [f"127.0.0.1:{self.scripted.port}"], AGENTCHAT_LOG_LEVEL="error"
        )
        settings, stop = load(ToolRunnerSettings, environ), asyncio.Event()
        task = asyncio.create_task(
            worker.run_tool_runner(settings, "test", settings.guard(), settings.build_sealer(), stop)
        )
        try:
            yield task, stop
        finally:
            self.may_answer.set()
            stop.set()
            await task


@pytest.fixture
async def scene(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[Scene]:
    scene = Scene(fresh_nats_url, migrated_database_url)
    await scene.scripted.start()
    scene.agent = await make_agent(migrated_database_url, McpServer(name="scripted", url=scene.scripted.url))
    yield scene
    await scene.scripted.stop()


@pytest.fixture
async def calls(fresh_nats_url: str) -> AsyncIterator[Calls]:
    async with Bus.connect(fresh_nats_url, name="test") as bus:
        yield Calls(bus)


async def test_shutdown_drains_running_calls(scene: Scene, calls: Calls) -> None:
    async with scene.run_worker() as (task, stop):
        running = asyncio.create_task(calls.finish(scene.agent.call("write")))
        await scene.wait_for_calls("write")
        stop.set()
        await wait_until_nobody_pulls(scene.nats_url, subjects.TOOLS)
        late = asyncio.create_task(calls.finish(scene.agent.call("read")))
        await wait_for_undelivered(scene.nats_url, subjects.TOOLS, 1)
        scene.may_answer.set()
        assert (await running).output == '{"text":"done"}'
        await task
        assert scene.executed["read"] == 0
    async with scene.run_worker():
        assert (await late).output == '{"text":"done"}'


async def test_shutdown_interrupts_calls_that_outlast_the_drain(
    scene: Scene, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "DRAIN_SECONDS", 0.2)
    async with scene.run_worker() as (task, stop):
        writing = asyncio.create_task(calls.finish(scene.agent.call("write")))
        reading = asyncio.create_task(calls.finish(scene.agent.call("read")))
        await scene.wait_for_calls("write", "read")
        stop.set()
        interrupted = await writing
        assert "not known whether the call took effect" in interrupted.output
        await task
    async with scene.run_worker():
        assert (await reading).output == '{"text":"done"}'
    assert scene.executed == {"write": 1, "read": 2}


async def test_a_call_with_a_result_is_not_run_again(scene: Scene, calls: Calls) -> None:
    scene.may_answer.set()
    requests = [scene.agent.call(name) for name in ("read", "write")]
    for request in requests:
        await calls.bus.traces.finish_tool(
            ToolFinished(
                trace_id=request.trace_id, call_id=request.call_id, output='"before"', is_error=False, ms=1
            )
        )
        await calls.bus.queues.request_tool(request)
    stop = asyncio.Event()
    seen: set[str] = set()

    async def put_back(delivery: QueueDelivery) -> None:
        """Lose the first delivery, as a runner that died after it had published."""
        seen.add(delivery.subject)
        if len(seen) == len(requests):
            stop.set()
        await delivery.nak()

    await calls.bus.queues.consume("TOOLS", put_back, slots=2, stop=stop)
    async with handle_calls(scene.nats_url, scene.database_url, scene.scripted.port):
        assert (await calls.finish(scene.agent.call("read"))).output == '{"text":"done"}'
    assert scene.executed == {"read": 1}
    for request in requests:
        results = await calls.bus.traces.read_tool_results(request.trace_id)
        assert results[request.call_id].output == '"before"'


@pytest.mark.parametrize("tool", ["read", "set", "write"])
async def test_a_call_of_a_run_that_has_ended_is_refused(scene: Scene, tool: str) -> None:
    """A NATS without room keeps neither the result nor that the call was acknowledged."""
    request = scene.agent.call(tool)
    async with handle_calls(scene.nats_url, scene.database_url, scene.scripted.port) as handling:
        await handling.executor.find_server(request)
        await end_run(scene.database_url, request.trace_id)
        with pytest.raises(ToolFailed, match="ended"):
            await handling.executor.find_server(request)


async def test_a_write_is_not_run_while_its_beginning_cannot_be_recorded(scene: Scene) -> None:
    """Neither without an answer of Postgres, nor when the answer comes after the call's time."""
    scene.may_answer.set()
    async with (
        handle_calls(scene.nats_url, scene.database_url, scene.scripted.port) as handling,
        await psycopg.AsyncConnection.connect(scene.database_url) as owner,
    ):
        for timeout_s, words in (
            (30.0, "The call could not be started, so nothing was done."),
            (0.5, "The call could not be started in time, so nothing was done."),
        ):
            async with owner.transaction():
                await owner.execute("LOCK TABLE tool_executions IN ACCESS EXCLUSIVE MODE")
                request = scene.agent.call("write", timeout_s=timeout_s)
                waiting = asyncio.create_task(handling.calls.finish(request))
                await until_blocked_by(owner)
                await asyncio.wait((waiting,), timeout=timeout_s + 0.2)  # answered, or its time is over
            assert json.loads((await waiting).output) == {"error": words}
        assert scene.executed == {}
        assert (await handling.calls.finish(scene.agent.call("write"))).output == '{"text":"done"}'
    assert scene.executed == {"write": 1}
