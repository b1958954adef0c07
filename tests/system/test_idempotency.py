"""Idempotency-Key through the whole system, while gateways die."""

import asyncio
import uuid
from collections import Counter

import httpx
import pytest

from agentchat.contracts import events
from agentchat.conversations.event_store.event_log import open_log
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent


def _copy_with_key(caller: Caller, key: str) -> Caller:
    """The same caller, with this key on each request."""
    again = caller.at(caller.base_url)
    again.headers["Idempotency-Key"] = key
    return again


@pytest.mark.slow
async def test_retries_after_their_gateway_was_killed_are_answered_once(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-load?deltas=20&delay_ms=10")
    here, there = stack.environment.gateway_urls
    keys = [uuid.uuid4().hex for _ in range(16)]

    async def ask(number: int) -> httpx.Response | None:
        await asyncio.sleep(number * 0.02)
        try:
            return await _copy_with_key(agent.at(here), keys[number]).chat(keys[number])
        except httpx.RequestError:
            return None

    asking = [asyncio.create_task(ask(number)) for number in range(len(keys))]
    await asking[0]
    stack.kill("gateway-1")
    first = await asyncio.gather(*asking)
    again = await asyncio.gather(*(_copy_with_key(agent.at(there), key).chat(key) for key in keys))
    assert {response.status_code for response in again} == {200}
    assert None in first
    for before, after in zip(first, again, strict=True):
        assert before is None or before.json() == after.json()
    async with open_log(stack.environment.database_url) as log:
        stored = [
            event for reply in again for event in await log.read_events(reply.json()["conversation_id"])
        ]
    asked = [event for event in stored if isinstance(event, events.MessageSaved) and event.role == "user"]
    assert Counter(event.content for event in asked) == Counter(keys)
    assert {event.trace_id for event in asked} == {reply.headers["x-trace-id"] for reply in again}
    await stack.wait_all_ready()
