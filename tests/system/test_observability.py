"""One request is one trace, across every service that had a part in it; and logs say whose line it is."""

import asyncio
import json
from collections import defaultdict
from typing import Any

from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.system.collector import Collector

SERVICES = {"gateway", "orchestrator", "tool-runner"}


async def test_one_request_is_one_trace_from_http_to_the_tool(caller: Caller, spans: Collector) -> None:
    response = await caller.chat("Where is my order ORD-1001?")
    found = await asyncio.to_thread(spans.spans_of, response.headers["x-trace-id"], SERVICES)
    by_id = {span.span_id: span for _, span in found}
    names = {span.name for span in by_id.values()}
    assert any(name.startswith("chat ") for name in names), names
    assert any(name.startswith("execute_tool ") for name in names), names
    attributes = {pair.key for span in by_id.values() for pair in span.attributes}
    assert {"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.usage.output_tokens"} <= attributes


async def test_log_lines_carry_trace_conversation_and_account(caller: Caller, stack: RunningStack) -> None:
    secret = "a sentence that belongs into no log"
    response = await caller.chat(f"Where is my order ORD-1001? {secret}")
    trace_id = response.headers["x-trace-id"]
    lines = await _lines_of(stack, trace_id)
    assert not any(secret in stack.folder.log(name).read_text(errors="replace") for name in stack.names())
    worked = lines["orchestrator"]
    assert all(line["trace_id"] == trace_id for line in worked)
    assert any(line.get("conversation_id") == response.json()["conversation_id"] for line in worked)
    assert any("account_id" in line for line in worked)


async def _lines_of(stack: RunningStack, trace_id: str) -> dict[str, list[dict[str, Any]]]:
    """The log lines of a trace by service, once each has one: a gateway writes its own after the answer."""
    async with asyncio.timeout(40):
        while True:
            lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for name in stack.names():
                text = stack.folder.log(name).read_text(errors="replace")
                whole = text[: text.rfind("\n") + 1].splitlines()
                found = [json.loads(line) for line in whole if trace_id in line and line[0] == "{"]
                lines[name.rpartition("-")[0]] += found
            if all(lines[service] for service in SERVICES):
                return lines
            await asyncio.sleep(0.05)
