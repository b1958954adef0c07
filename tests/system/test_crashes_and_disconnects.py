"""Crashes and disconnects, and what a caller sees of them: nothing accepted is lost, every stream ends."""

import json
from typing import Any

import psycopg
import pytest

from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of, text_of

SLOW = "demo-load?deltas=60&delay_ms=50"


async def _told_though_killed(caller: Caller, stack: RunningStack, *names: str) -> list[dict[str, Any]]:
    """The events of a stream; after ten of them these processes are killed."""
    events = []
    async with caller.open_stream("tell me") as response:
        async for event in events_of(response):
            events.append(event)
            if len(events) == 10:
                for name in names:
                    stack.kill(name)
    return events


@pytest.mark.parametrize("provider", ["anthropic", pytest.param("openai", marks=pytest.mark.slow)])
async def test_run_resumes_after_its_orchestrator_is_killed(
    stack: RunningStack, make_agent: MakeAgent, provider: str
) -> None:
    slow = await make_agent(SLOW, provider=provider)
    whole = text_of(await slow.stream("tell me"))
    events = await _told_though_killed(slow, stack, "orchestrator-1", "orchestrator-2")
    await stack.wait_all_ready()
    assert events[-1]["type"] == "done", events[-1]
    assert text_of(events) == whole
    assert (await slow.messages(events[0]["conversation_id"]))[-1]["content"] == whole


async def test_after_200_the_message_is_stored_whatever_fails_next(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    slow = await make_agent(SLOW)
    async with slow.open_stream("remember this") as response:
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
