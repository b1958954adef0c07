"""The process: its settings, its health, its spans and what it never writes down."""

import os
import signal
import sys

import httpx
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentchat.contracts import frames
from agentchat.runtime import tracing
from tests.orchestrator.given import World
from tests.orchestrator.process import orchestrator
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.test_tools import SHOP
from tests.orchestrator.toolbox import Toolbox
from tests.ports import find_free_port


async def test_process_is_ready_and_logs_no_word_of_a_run(world: World) -> None:
    world.will(reply_with("CANARY-reply"))
    own = {"AGENTCHAT_LOG_LEVEL": "debug", "AGENTCHAT_HEALTH_PORT": str(port := find_free_port())}
    async with orchestrator(world.settings, "logging", **own) as process, httpx.AsyncClient() as http:
        ready = await http.get(f"http://127.0.0.1:{port}/readyz")
        assert ready.json() == {"status": "ok", "checks": {"nats": "ok", "postgres": "ok"}}
        agent = await world.agent(provider_key="sk-ant-CANARYKEY12345", system_prompt="CANARY-prompt")
        caller = await world.chat(agent, "CANARY-message")
        process.send(signal.SIGTERM)
        assert await process.wait_until_ended() == 0
        log = process.log.read_text()
    assert "CANARY" not in log
    assert f'"trace_id":"{caller.request.trace_id}"' in log
    assert f'"conversation_id":"{caller.request.conversation_id}"' in log
    assert f'"account_id":"{caller.request.account_id}"' in log


async def test_a_run_is_one_trace_from_the_request_to_the_tool(world: World) -> None:
    exporter = InMemorySpanExporter()
    tracing.configure("orchestrator", None, exporter=exporter)
    try:
        world.will(reply_with_calls(("a", "find", '{"q": "CANARY"}')), reply_with("CANARY"))
        async with Toolbox(world.bus).open(), world.worker():
            agent = await world.agent("demo-shop-1", **SHOP)
            with tracing.open_trace("POST /v1/chat"):
                request = world.request(agent, "CANARY", trace_id=tracing.get_trace_id())
                caller = await world.listen(request)
                await world.bus.queues.request_chat(request)
            await caller.until(frames.Completed)
    finally:
        tracing.shut_down()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    names = ["process chat.requests", "invoke_agent test", "chat demo-shop-1", "execute_tool find"]
    assert [f"{spans[name].context.trace_id:032x}" for name in names] == [request.trace_id] * 4
    chat = spans["chat demo-shop-1"].attributes or {}
    assert (chat["gen_ai.operation.name"], chat["gen_ai.usage.input_tokens"]) == ("chat", 10)
    assert "CANARY" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_anthropic_is_not_imported_before_the_settings_are_read() -> None:
    modules = "sys, agentchat.orchestrator.settings, agentchat.orchestrator.__main__"
    code = f"import {modules}; sys.exit('anthropic' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
