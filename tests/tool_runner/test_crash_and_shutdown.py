"""A runner that crashes, is paused or shuts down, and its drain."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from agentchat.bus.bus import Bus
from agentchat.bus.work_queue import QueueDelivery
from agentchat.contracts import subjects
from agentchat.contracts.tool_messages import ToolFinished
from agentchat.directory.agent_config import McpServer
from tests.blocking import until_blocked_by
from tests.bus.nats_server import NatsServer
from tests.bus.queue_state import until_nobody_pulls, until_undelivered
from tests.harness import embedded_nats
from tests.tool_runner.runner import SECONDS, Agent, Calls, end_run, make_agent, make_environ, start_runner
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool

OUTCOME_UNKNOWN = (
    "The call was started once, and its result was lost. It is not known whether the call took effect."
)
RUN_ENDED = "The run has ended, so the call was not made."
NAMES = ("read", "set", "write")
TOOLS = [make_tool("read", readOnlyHint=True), make_tool("set", idempotentHint=True), make_tool("write")]


class Scene:
    """A tool server that counts, and answers when it is let; no runner yet."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.executed: Counter[str] = Counter()
        self.scripted = ScriptedServer(self._on_call, TOOLS)
        self.env: dict[str, str] = {}
        self.agent = Agent("", "")
        self._news = asyncio.Condition()

    async def _on_call(self, call: Call) -> None:
        async with self._news:
            self.executed[call.tool] += 1
            self._news.notify_all()
        await self.may_answer.wait()
        await call.send_text("done")

    async def executing(self, *names: str, times: int = 1) -> None:
        async with asyncio.timeout(SECONDS), self._news:
            await self._news.wait_for(lambda: all(self.executed[name] >= times for name in names))


@asynccontextmanager
async def _scene(nats_url: str, database_url: str) -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.scripted.start()
    scene.agent = await make_agent(database_url, McpServer(name="scripted", url=scene.scripted.url))
    scene.env = make_environ(nats_url, database_url, [f"127.0.0.1:{scene.scripted.port}"])
    yield scene
    await scene.scripted.stop()


@pytest.fixture
async def scene(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[Scene]:
    async with _scene(fresh_nats_url, migrated_database_url) as made:
        yield made


@pytest.fixture
async def calls(fresh_nats_url: str) -> AsyncIterator[Calls]:
    async with Bus.connect(fresh_nats_url, name="test") as bus:
        yield Calls(bus)


Play = Callable[[Scene, Calls], Coroutine[Any, Any, None]]
Plays = dict[Play, "asyncio.Task[None]"]


@pytest.fixture(scope="module")
async def side_by_side(migrated_database_url: str) -> AsyncIterator[Plays]:
    """The plays that wait for the queue's 10 s, all at one time, each on a NATS of its own."""

    async def on_its_own(play: Play) -> None:
        async with (
            embedded_nats() as nats_url,
            _scene(nats_url, migrated_database_url) as scene,
            Bus.connect(nats_url, name="test") as bus,
        ):
            await play(scene, Calls(bus))

    tasks: Plays = {play: asyncio.create_task(on_its_own(play)) for play in (_killed, _paused, _overdue)}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.wait(tasks.values())


async def _killed(scene: Scene, calls: Calls) -> None:
    async with start_runner(scene.env) as first:
        # The journal has the write over when the queue delivers it again, 10 s after its runner died.
        started = {name: scene.agent.call(name, timeout_s=7.0) for name in NAMES}
        results = {name: asyncio.create_task(calls.finish(call)) for name, call in started.items()}
        await scene.executing(*NAMES)
        first.signal(signal.SIGKILL)
        await first.wait_for_end()
    scene.may_answer.set()
    async with start_runner(scene.env):
        for name in ("read", "set"):
            assert (await results[name]).output == '{"text":"done"}'
        lost = await results["write"]
        assert json.loads(lost.output) == {"error": OUTCOME_UNKNOWN}
    assert scene.executed == {"read": 2, "set": 2, "write": 1}


async def _paused(scene: Scene, calls: Calls) -> None:
    scene.may_answer.set()
    async with start_runner(scene.env) as paused:
        assert not (await calls.finish(scene.agent.call("write"))).is_error
        scene.may_answer.clear()
        paused.signal(signal.SIGSTOP)
        waiting = asyncio.create_task(calls.finish(scene.agent.call("write")))
        async with start_runner(scene.env):
            await scene.executing("write", times=2)
            paused.signal(signal.SIGCONT)
            await paused.wait_for_log("call_started_before")
            scene.may_answer.set()
            assert not (await waiting).is_error
            # Both still work.
            more = await asyncio.gather(*(calls.finish(scene.agent.call("write")) for _ in range(6)))
            assert not any(result.is_error for result in more)
    assert scene.executed["write"] == 8


async def _overdue(scene: Scene, calls: Calls) -> None:
    async with start_runner(scene.env) as runner:
        writing = asyncio.create_task(calls.finish(scene.agent.call("write")))
        reading = asyncio.create_task(calls.finish(scene.agent.call("read")))
        await scene.executing("write", "read")
        runner.signal(signal.SIGTERM)
        interrupted = await writing
        assert interrupted.is_error
        assert "not known whether the call took effect" in interrupted.output
        assert await runner.wait_for_end() == 0  # 1 where it is cut short
    scene.may_answer.set()
    async with start_runner(scene.env):
        assert (await reading).output == '{"text":"done"}'
    assert scene.executed == {"write": 1, "read": 2}


async def test_only_repeatable_calls_run_again_after_a_kill(side_by_side: Plays) -> None:
    await side_by_side[_killed]


async def test_a_paused_runner_does_not_repeat_what_another_has_run(side_by_side: Plays) -> None:
    await side_by_side[_paused]


async def test_shutdown_interrupts_calls_that_outlast_the_drain(side_by_side: Plays) -> None:
    await side_by_side[_overdue]


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
        """The first delivery is lost: its runner died after it had published."""
        seen.add(delivery.subject)
        if len(seen) == len(requests):
            stop.set()
        await delivery.nak()

    await calls.bus.queues.consume("TOOLS", put_back, slots=2, stop=stop)
    async with start_runner(scene.env) as runner:
        last = scene.agent.call("read")
        assert (await calls.finish(last)).output == '{"text":"done"}'
        runner.signal(signal.SIGTERM)
        assert await runner.wait_for_end() == 0
    assert scene.executed == {"read": 1}
    for request in requests:
        assert (await calls.bus.traces.read_tool_results(request.trace_id))[
            request.call_id
        ].output == '"before"'


async def test_shutdown_drains_running_calls(scene: Scene, calls: Calls, fresh_nats_url: str) -> None:
    async with start_runner(scene.env) as runner:
        waiting = asyncio.create_task(calls.finish(scene.agent.call("write")))
        await scene.executing("write")
        runner.signal(signal.SIGTERM)
        await runner.wait_for_log("draining")
        await until_nobody_pulls(fresh_nats_url, subjects.TOOLS)
        late = asyncio.create_task(calls.finish(scene.agent.call("read")))
        await until_undelivered(fresh_nats_url, subjects.TOOLS, 1)
        scene.may_answer.set()
        assert (await waiting).output == '{"text":"done"}'
        assert await runner.wait_for_end() == 0
        assert scene.executed["read"] == 0
    async with start_runner(scene.env):
        assert (await late).output == '{"text":"done"}'


async def test_a_write_that_a_wiped_queue_delivers_again_is_not_run_again(
    scene: Scene, nats_server: NatsServer
) -> None:
    """A killed NATS may have lost the acknowledgement, and with it everything that it kept in memory."""
    scene.may_answer.set()
    request = scene.agent.call("write", timeout_s=4.0)
    env = scene.env | {"AGENTCHAT_NATS_URL": nats_server.url}
    async with Bus.connect(nats_server.url, name="test") as bus:
        calls = Calls(bus)
        async with start_runner(env):
            assert (await calls.finish(request)).output == '{"text":"done"}'
        await nats_server.kill(wipe=True)
        await nats_server.start()
        async with start_runner(env):
            again = await calls.finish(request)
    assert json.loads(again.output) == {"error": OUTCOME_UNKNOWN}
    assert scene.executed == {"write": 1}


async def test_a_call_that_may_be_repeated_is_not_when_its_run_has_ended(
    scene: Scene, nats_server: NatsServer, migrated_database_url: str
) -> None:
    """A NATS without room keeps neither the result nor that the call was acknowledged."""
    scene.may_answer.set()
    env = scene.env | {"AGENTCHAT_NATS_URL": nats_server.url}
    async with Bus.connect(nats_server.url, name="test") as bus:
        calls = Calls(bus)
        requests = [scene.agent.call(name) for name in ("read", "set")]
        async with start_runner(env):
            for request in requests:
                assert (await calls.finish(request)).output == '{"text":"done"}'
        for request in requests:
            await end_run(migrated_database_url, request.trace_id)
        await nats_server.kill(wipe=True)
        await nats_server.start()
        async with start_runner(env):
            for request in requests:
                again = await calls.finish(request)
                assert json.loads(again.output) == {"error": RUN_ENDED}
    assert scene.executed == {"read": 1, "set": 1}


async def test_a_write_is_not_run_while_its_beginning_cannot_be_recorded(
    scene: Scene, calls: Calls, migrated_database_url: str
) -> None:
    """Neither without an answer of Postgres, nor when the answer comes after the call's time."""
    scene.may_answer.set()
    async with start_runner(scene.env), await psycopg.AsyncConnection.connect(migrated_database_url) as owner:
        for timeout_s, words in (
            (30.0, "The call could not be started, so nothing was done."),
            (0.5, "The call could not be started in time, so nothing was done."),
        ):
            async with owner.transaction():
                await owner.execute("LOCK TABLE tool_executions IN ACCESS EXCLUSIVE MODE")
                waiting = asyncio.create_task(calls.finish(scene.agent.call("write", timeout_s=timeout_s)))
                await until_blocked_by(owner)
                await asyncio.wait((waiting,), timeout=timeout_s + 0.2)  # answered, or its time is over
            assert json.loads((await waiting).output) == {"error": words}
        assert scene.executed == {}
        assert (await calls.finish(scene.agent.call("write"))).output == '{"text":"done"}'
    assert scene.executed == {"write": 1}


async def test_results_outlive_an_outage_of_nats(scene: Scene, nats_server: NatsServer) -> None:
    env = scene.env | {"AGENTCHAT_NATS_URL": nats_server.url}
    async with start_runner(env) as runner, Bus.connect(nats_server.url, name="test") as bus:
        waiting = {name: asyncio.create_task(Calls(bus).finish(scene.agent.call(name))) for name in NAMES}
        await scene.executing(*NAMES)
        await nats_server.kill()
        scene.may_answer.set()
        for name in NAMES:
            await runner.wait_for_log("tool_finished", tool=name)
        await nats_server.start()
        for finished in await asyncio.gather(*waiting.values()):
            assert finished.output == '{"text":"done"}'
        assert scene.executed["write"] == 1
        runner.signal(signal.SIGTERM)
        assert await runner.wait_for_end() == 0
