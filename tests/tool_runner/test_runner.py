"""The tool-runner as a process, between a real bus, a real directory and tool servers of every kind."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.bus.bus import Bus
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import CancelRequested
from agentchat.directory.agent_config import McpServer
from agentchat.directory.approval_policy import ApprovalRules, ToolFilter
from agentchat.runtime import tracing
from agentchat.runtime.postgres import open_pool
from agentchat.tool_runner.journal import Journal
from tests.ports import find_free_port
from tests.system.collector import Collector, collector
from tests.tool_runner.runner import Agent, Calls, Runner, make_agent, make_environ, start_runner
from tests.tool_runner.scripted import Call, ScriptedServer, make_tool, serve_script

SLOTS = 24
CANARY = "canary-7f3a9c"


async def _answer(call: Call) -> None:
    match call.tool:
        case "fail":
            await call.send_text("No such order: ORD-1.", is_error=True)
        case "slow":
            await asyncio.sleep(float(call.arguments["seconds"]))
            await call.send_text("done")
        case "whoami":
            await call.send_text(call.headers.get("authorization", "nobody"))
        case "traced":
            await call.send_text(call.message["params"]["_meta"]["traceparent"])
        case _:
            await call.send_text(json.dumps(call.arguments))


TOOLS = [
    make_tool("echo", readOnlyHint=True),
    make_tool("fail"),
    make_tool("slow", readOnlyHint=True),
    make_tool("whoami"),
    make_tool("traced"),
    make_tool("hidden"),
    make_tool("odd", schema={"type": "object", "properties": {"a b": {}}, "required": ["a b"]}),
]


async def _hang(_call: Call) -> None:
    await asyncio.sleep(60)


class World:
    """One runner, an agent of many servers, and those servers."""

    def __init__(
        self, calls: Calls, runner: Runner, agent: Agent, scripted: ScriptedServer, spans: Collector
    ) -> None:
        self.spans = spans
        self.calls = calls
        self.runner = runner
        self.agent = agent
        self.scripted = scripted


@pytest.fixture(scope="module")
async def world(fresh_nats_url: str, migrated_database_url: str) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        scripted = await stack.enter_async_context(serve_script(_answer, TOOLS))
        twin = await stack.enter_async_context(
            serve_script(_answer, [make_tool("echo"), make_tool("b.c"), make_tool("b/c")])
        )
        hung = await stack.enter_async_context(
            serve_script(_hang, [make_tool("hang", readOnlyHint=True), make_tool("other")])
        )
        gone = find_free_port()  # nobody listens there, and nobody else is given it
        spans = stack.enter_context(collector())
        agent = await make_agent(
            migrated_database_url,
            McpServer(
                name="scripted",
                url=scripted.url,
                headers={"Authorization": f"Bearer {CANARY}"},
                allowed_tools=tuple(str(listed["name"]) for listed in TOOLS if listed["name"] != "hidden"),
            ),
            McpServer(name="twin", url=twin.url),
            McpServer(name="hung", url=hung.url, allowed_tools=("hang",)),
            McpServer(name="gone", url=f"http://127.0.0.1:{gone}/mcp"),
            McpServer(name="internal", url="https://169.254.169.254/mcp"),
        )
        ports = [scripted.port, twin.port, hung.port, gone]
        env = make_environ(
            fresh_nats_url,
            migrated_database_url,
            [f"127.0.0.1:{port}" for port in ports],
            AGENTCHAT_TOOL_SLOTS=str(SLOTS),
            OTEL_EXPORTER_OTLP_ENDPOINT=spans.endpoint,
        )
        runner = await stack.enter_async_context(start_runner(env))
        bus = await stack.enter_async_context(Bus.connect(fresh_nats_url, name="test"))
        yield World(Calls(bus), runner, agent, scripted, spans)


async def test_the_tools_of_all_servers_are_listed_side_by_side(world: World) -> None:
    listed = await world.calls.list_tools(world.agent)
    names = [spec.name for spec in listed.tools]
    assert names == sorted(names)
    assert {"fail", "scripted_echo", "twin_echo", "hang"} <= set(names)
    assert not {"echo", "hidden", "odd"} & set(names)
    colliding = [spec for spec in listed.tools if spec.tool in ("b.c", "b/c")]
    assert len({spec.name for spec in colliding}) == 2
    by_name = {spec.name: spec for spec in listed.tools}
    assert (by_name["scripted_echo"].server, by_name["scripted_echo"].tool) == ("scripted", "echo")
    assert by_name["scripted_echo"].read_only
    assert not by_name["twin_echo"].read_only
    assert [server.server for server in listed.unavailable] == ["gone", "internal"]
    assert await world.calls.list_tools(world.agent) == listed


async def test_an_unknown_agent_has_no_tools(world: World) -> None:
    stranger = Agent(world.agent.account_id, world.agent.account_id)
    listed = await world.calls.list_tools(stranger)
    assert listed.tools == ()
    assert [server.server for server in listed.unavailable] == ["*"]
    trace_id = world.agent.open_runs.pop()
    finished = await world.calls.finish(stranger.call("echo", trace_id=trace_id))
    assert json.loads(finished.output) == {"error": "This agent has no such tool."}


@pytest.mark.parametrize(
    ("name", "server", "words"),
    [
        ("fail", "scripted", "No such order: ORD-1."),
        ("hidden", "scripted", "This agent has no such tool."),
        ("odd", "scripted", "This agent has no such tool."),
        ("nothing", "scripted", "This agent has no such tool."),
        ("echo", "nowhere", "This agent has no such tool."),
        ("echo", "gone", "The tool server could not be reached."),
        ("echo", "internal", "The tool server's address is not permitted."),
    ],
)
async def test_what_cannot_be_run_is_a_tool_error_in_words(
    name: str, server: str, words: str, world: World
) -> None:
    before = len(world.scripted.list_calls())
    finished = await world.calls.finish(world.agent.call(name, server))
    assert finished.is_error
    assert json.loads(finished.output) == {"error": words}
    assert len(world.scripted.list_calls()) - before == (name == "fail")


async def test_headers_go_to_their_server_and_nowhere_else(world: World) -> None:
    finished = await world.calls.finish(world.agent.call("whoami"))
    assert world.scripted.seen[-1].headers["authorization"] == f"Bearer {CANARY}"
    assert json.loads(finished.output) == {"text": "[hidden]"}
    await world.runner.wait_for_log("tool_finished", call_id=finished.call_id)
    logged = json.dumps(world.runner.lines)
    assert CANARY not in logged
    assert "127.0.0.1" not in json.dumps([line for line in world.runner.lines if line["event"] != "ready"])
    listed = await world.calls.list_tools(world.agent)
    assert CANARY not in repr(listed)


async def test_a_check_connects_to_each_server_and_says_what_works(world: World) -> None:
    checked = await world.calls.check(world.agent)
    found = {server.name: server for server in checked}
    assert list(found) == ["scripted", "twin", "hung", "gone", "internal"]
    assert {name for name, server in found.items() if server.ok} == {"twin", "hung"}
    assert (found["hung"].tools, found["hung"].allowed) == (2, 1)
    assert found["gone"].detail == "The tool server could not be reached."
    assert found["internal"].detail == "The tool server's address is not permitted."
    assert (found["scripted"].tools, found["scripted"].allowed) == (6, 5)
    assert found["scripted"].missing == ("odd",)
    assert "odd (a required property has an unusable name: a b)" in found["scripted"].detail
    assert CANARY not in repr(checked)


@pytest.mark.parametrize(
    ("settings", "allowed", "missing"),
    [
        ({"allowed_tools": ("echo", "ehco", "fial")}, 1, ("ehco", "fial")),
        ({"require_approval": ApprovalRules(always=ToolFilter(tool_names=("echo", "ehco")))}, 6, ("ehco",)),
    ],
    ids=["allow list", "approval policy"],
)
async def test_a_check_names_what_is_set_for_tools_that_the_server_has_not(
    world: World, migrated_database_url: str, settings: dict[str, Any], allowed: int, missing: tuple[str, ...]
) -> None:
    agent = await make_agent(
        migrated_database_url, McpServer(name="scripted", url=world.scripted.url, **settings)
    )
    (server,) = await world.calls.check(agent)
    assert (server.ok, server.allowed, server.missing) == (False, allowed, missing)
    assert ", ".join(missing) in server.detail


async def test_a_check_of_an_agent_that_is_not_there_says_so(world: World) -> None:
    (server,) = await world.calls.check(Agent(world.agent.account_id, make_id()))
    assert (server.name, server.ok) == ("*", False)
    assert "no such agent" in server.detail


async def test_a_call_that_waited_past_its_deadline_is_not_run(world: World) -> None:
    late = datetime.now(UTC) - timedelta(seconds=1)
    request = world.agent.call("echo", input={"late": 1}, deadline=late.isoformat())
    finished = await world.calls.finish(request)
    assert "could not be started in time" in finished.output
    assert {"late": 1} not in [call.arguments for call in world.scripted.list_calls()]


async def test_write_started_by_lost_runner_has_unknown_effect(
    world: World, migrated_database_url: str
) -> None:
    """Whatever keeps the next runner from it: its deadline has passed, or its server is gone by now."""
    late = datetime.now(UTC) - timedelta(seconds=1)
    requests = [world.agent.call("fail", deadline=late.isoformat()), world.agent.call("write", server="gone")]
    async with open_pool(migrated_database_url) as pool:
        lost = Journal(pool, "lost")
        for request in requests:
            assert await lost.claim(request.trace_id, request.call_id, deadline=None, seconds=0.0)
    for finished in await asyncio.gather(*map(world.calls.finish, requests)):
        assert "It is not known whether the call took effect" in finished.output


async def test_cancelled_run_starts_no_call_and_ends_running_ones(world: World) -> None:
    request = world.agent.call("slow", input={"seconds": 20})
    task = asyncio.create_task(world.calls.finish(request))
    while {"seconds": 20} not in [call.arguments for call in world.scripted.list_calls()]:
        await world.scripted.wait_for_any()
    asked = CancelRequested(trace_id=request.trace_id, account_id=world.agent.account_id)
    await world.calls.bus.traces.cancel(asked)
    async with asyncio.timeout(15.0):
        broken_off = await task
    assert "cancelled" in broken_off.output
    queued = world.agent.call("echo", trace_id=request.trace_id, input={"after": "cancel"})
    assert "cancelled" in (await world.calls.finish(queued)).output
    assert {"after": "cancel"} not in [call.arguments for call in world.scripted.list_calls()]


async def test_a_run_is_not_cancelled_by_another_account(world: World) -> None:
    request = world.agent.call("slow", input={"seconds": 1.5})
    task = asyncio.create_task(world.calls.finish(request))
    while {"seconds": 1.5} not in [call.arguments for call in world.scripted.list_calls()]:
        await world.scripted.wait_for_any()
    await world.calls.bus.traces.cancel(CancelRequested(trace_id=request.trace_id, account_id=make_id()))
    finished = await task
    assert json.loads(finished.output) == {"text": "done"}
    assert 1500 <= finished.ms < 20_000


async def test_a_call_joins_the_trace_of_its_request(world: World) -> None:
    request = world.agent.call("traced")
    tracing.configure("test", None, exporter=InMemorySpanExporter())  # so that the trace is sampled
    try:
        with tracing.open_span("request") as request_span:
            trace_id = tracing.get_trace_id()
            finished = await world.calls.finish(request)
    finally:
        tracing.shut_down()
    assert trace_id in finished.output  # as the tool server was told
    line = await world.runner.wait_for_log("tool_finished", call_id=request.call_id)
    assert (line["trace_id"], line["account_id"]) == (request.trace_id, request.account_id)

    found = await asyncio.to_thread(world.spans.spans_of, trace_id, {"tool-runner"})
    spans = {span.name: span for _, span in found}
    outer, inner = spans["execute_tool traced"], spans["tools/call traced"]
    assert outer.parent_span_id.hex() == f"{request_span.get_span_context().span_id:016x}"
    assert inner.parent_span_id == outer.span_id
    assert inner.span_id.hex() in finished.output
    attributes = {pair.key: pair.value.string_value for pair in (*outer.attributes, *inner.attributes)}
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "traced"
    assert attributes["gen_ai.tool.call.id"] == request.call_id
    assert attributes["mcp.method.name"] == "tools/call"
    assert attributes["mcp.protocol.version"] == "2024-11-05"


async def test_a_message_that_is_no_call_is_dead_lettered(world: World) -> None:
    request = world.agent.call("echo", trace_id="x" * 32)
    wrong = msgspec.structs.replace(request, input="not an object")
    await world.calls.bus.queues.request_tool(wrong)
    line = await world.runner.wait_for_log("request_undecodable")
    assert "input" in line["reason"]
