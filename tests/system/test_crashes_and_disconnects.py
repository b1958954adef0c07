"""Crashes and disconnects, and what a caller sees of them: nothing accepted is lost, every stream ends."""

import asyncio
import json
from typing import Any

import httpx
import psycopg
import pytest

from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of, text_of

SLOW = "demo-load?deltas=60&delay_ms=50"


async def _reply_of(caller: Caller, thread: str) -> str:
    """The saved reply of a thread's only message, once it is there."""
    async with asyncio.timeout(40):
        while True:
            messages = await caller.messages(thread)
            if messages[-1]["role"] == "assistant":
                return str(messages[-1]["content"])
            await asyncio.sleep(0.1)


async def _told_though_killed(caller: Caller, stack: RunningStack, *names: str) -> list[dict[str, Any]]:
    """The events of a stream; after ten of them these processes are killed."""
    events = []
    async with caller.opened("tell me") as response:
        async for event in events_of(response):
            events.append(event)
            if len(events) == 10:
                for name in names:
                    stack.kill(name)
    return events


@pytest.mark.requirement("STREAM-DISCONNECT")
async def test_a_client_that_disconnects_finds_the_whole_reply_in_the_history(make_agent: MakeAgent) -> None:
    slow = await make_agent(SLOW)
    whole = text_of(await slow.stream("tell me"))
    async with slow.opened("tell me") as response:
        stream = events_of(response)
        thread = (await anext(stream))["conversation_id"]
        await anext(stream)
    assert await _reply_of(slow, thread) == whole


@pytest.mark.requirement("RESUME", "STREAM-TAKEOVER", "STREAM-CONCAT", "LEASE", "OPENAI-TURNS")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_run_resumes_without_loss_when_its_orchestrator_is_killed_mid_stream(
    stack: RunningStack, make_agent: MakeAgent, provider: str
) -> None:
    slow = await make_agent(SLOW, provider=provider)
    whole = text_of(await slow.stream("tell me"))
    events = await _told_though_killed(slow, stack, "orchestrator-1", "orchestrator-2")
    await stack.wait_all_ready()
    assert events[-1]["type"] == "done", events[-1]
    assert text_of(events) == whole
    assert (await slow.messages(events[0]["conversation_id"]))[-1]["content"] == whole


@pytest.mark.requirement("STREAM-REPAIR", "BUS-STREAMS", "RUN-ENDS")
async def test_no_text_is_lost_when_nats_is_killed_mid_stream(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    slow = await make_agent(SLOW)
    whole = text_of(await slow.stream("tell me"))
    events = await _told_though_killed(slow, stack, "nats")
    await stack.wait_all_ready()
    assert events[-1]["type"] == "done", events[-1]
    assert text_of(events) == whole
    assert (await slow.stream("again"))[-1]["type"] == "done"


@pytest.mark.requirement("TOOLS-IDEMPOTENT", "TOOLS-ERRORS")
async def test_a_run_survives_a_killed_tool_runner(stack: RunningStack, caller: Caller) -> None:
    for name in ("tool-runner-1", "tool-runner-2"):
        stack.kill(name)
    reply = await caller.chat("Where is my order ORD-1001?")
    await stack.wait_all_ready()
    assert reply.status_code == 200, reply.text
    assert reply.json()["message"]["content"]


@pytest.mark.requirement("ACCEPTED-FIRST")
async def test_after_200_the_message_is_in_the_store_whatever_dies_next(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    slow = await make_agent(SLOW)
    async with slow.opened("remember this") as response:
        assert response.status_code == 200
        with psycopg.connect(stack.environment.database_url) as database:
            rows = database.execute(
                "SELECT state FROM conversation_events WHERE topic = 'message_saved.v1' "
                "ORDER BY notification_id DESC LIMIT 10"
            ).fetchall()
        stored = [json.loads(bytes(state)) for (state,) in rows]
        assert "remember this" in [
            event["content"] for event in stored if event["trace_id"] == response.headers["x-trace-id"]
        ]


@pytest.mark.requirement("TRACE-ID", "PROBLEM-JSON", "AUTH-401", "AUTH-KEY", "NO-CORS")
async def test_every_refusal_is_a_problem_with_its_trace(
    stack: RunningStack, http: httpx.AsyncClient
) -> None:
    found = stack.environment
    chat, threads = f"{found.base_url}/v1/chat", f"{found.base_url}/v1/conversations"
    bearer, wrong = {"Authorization": f"Bearer {found.api_key}"}, {"X-Api-Key": "sk-ac-no"}
    refused = [
        (401, "missing_api_key", await http.post(chat, json={"message": "x"})),
        (401, "missing_api_key", await http.get(threads, headers=bearer)),
        (401, "invalid_api_key", await http.get(threads, headers=wrong)),
        (404, "not_found", await http.get(f"{found.base_url}/nowhere")),
        (405, "method_not_allowed", await http.delete(chat)),
    ]
    for status, code, response in refused:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["code"] == code
        assert response.json()["trace_id"] == response.headers["x-trace-id"]
        assert not [name for name in response.headers if name.startswith("access-control")]
