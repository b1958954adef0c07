"""One request is one trace, across every service that had a part in it; and logs say whose line it is."""

import asyncio
import json

import pytest

from ops.harness import RunningStack
from tests.system.calling import Caller
from tests.system.collector import Collector

SERVICES = {"gateway", "orchestrator", "tool-runner"}


@pytest.mark.requirement("TELEMETRY", "TRACE-ID")
async def test_one_request_is_one_trace_from_http_to_the_tool(caller: Caller, spans: Collector) -> None:
    response = await caller.chat("Where is my order ORD-1001?")
    found = await asyncio.to_thread(spans.spans_of, response.headers["x-trace-id"], SERVICES)
    by_id = {span.span_id: span for _, span in found}
    names = {span.name for span in by_id.values()}
    assert any(name.startswith("chat ") for name in names), names
    assert any(name.startswith("execute_tool ") for name in names), names
    attributes = {pair.key for span in by_id.values() for pair in span.attributes}
    assert {"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.usage.output_tokens"} <= attributes


@pytest.mark.requirement("LOGS")
async def test_the_lines_of_a_request_carry_its_trace_conversation_and_account(
    caller: Caller, stack: RunningStack
) -> None:
    secret = "a sentence that belongs into no log"
    response = await caller.chat(f"Where is my order ORD-1001? {secret}")
    trace_id = response.headers["x-trace-id"]
    lines = {}
    for name in stack.names():
        text = stack.folder.log(name).read_text(errors="replace")
        assert secret not in text
        lines[name] = [json.loads(line) for line in text.splitlines() if trace_id in line and line[0] == "{"]
    speaking = {name.rpartition("-")[0] for name, found in lines.items() if found}
    assert speaking >= SERVICES
    worked = [line for name, found in lines.items() for line in found if name.startswith("orchestrator")]
    assert all(line["trace_id"] == trace_id for line in worked)
    assert any(line.get("conversation_id") == response.json()["conversation_id"] for line in worked)
    assert any("account_id" in line for line in worked)


@pytest.mark.requirement("HEALTH")
async def test_every_process_is_found_healthy(stack: RunningStack) -> None:
    await stack.wait_all_ready()
