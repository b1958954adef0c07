"""A message while a run is under way, as its sender or the agent has it: `on_busy`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.system.calling import Caller, Event, MakeAgent, events_of

SLOW = "demo-load?deltas=400&delay_ms=50"
ORDER, MORE = "Where is ORD-1001?", "And where was it packed?"


@asynccontextmanager
async def _start_run(caller: Caller, message: str) -> AsyncIterator[tuple[str, str, AsyncIterator[Event]]]:
    """A run that has begun to speak: its conversation, its trace and the rest of its stream."""
    async with caller.open_stream(message) as response:
        told = events_of(response)
        thread = (await anext(told))["conversation_id"]
        assert (await anext(told))["type"] == "delta"
        yield thread, response.headers["x-trace-id"], told


async def test_a_busy_conversation_refuses_by_the_agents_default(make_agent: MakeAgent) -> None:
    slow = await make_agent(SLOW, on_busy="refuse")
    async with _start_run(slow, "count") as (thread, trace_id, _):
        refused = await slow.chat("and?", conversation_id=thread)
        assert (refused.status_code, refused.json()["code"]) == (409, "conversation_busy")
        assert refused.json()["running_trace_id"] == trace_id
        await slow.cancel(trace_id)


async def test_a_message_that_steers_gets_the_runs_reply(make_agent: MakeAgent) -> None:
    shop = await make_agent("demo-shop-1?delay_ms=250", shop=True)
    headers = shop.headers | {"Idempotency-Key": "steer-once"}

    async def steer(thread: str) -> Any:
        body = {"message": MORE, "conversation_id": thread, "on_busy": "steer"}
        return await shop.http.post(f"{shop.base_url}/v1/chat", json=body, headers=headers)

    async with _start_run(shop, ORDER) as (thread, trace_id, told):
        answers = await asyncio.gather(steer(thread), steer(thread))
        assert [event async for event in told][-1]["type"] == "done"
    said = await shop.messages(thread)
    for answer in (*answers, await steer(thread)):
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-trace-id"] == trace_id
        assert answer.json()["message"]["id"] == said[-1]["id"]
    assert [each["content"] for each in said[:2]] == [ORDER, MORE]
    assert [each["role"] for each in said] == ["user", "user", "assistant"]


async def test_a_message_that_interrupts_is_answered_next(make_agent: MakeAgent) -> None:
    slow, plain = await make_agent(SLOW), await make_agent("demo-echo")
    async with _start_run(slow, "count") as (thread, trace_id, told):
        answer = await plain.chat("stop", conversation_id=thread, on_busy="interrupt")
        assert answer.status_code == 200, answer.text
        assert [event async for event in told][-1]["code"] == "interrupted"
    said = await plain.messages(thread)
    assert [each["content"] for each in said[-2:]] == ["stop", "stop"]
    assert [each["role"] for each in said] == ["user", "assistant"] * 2
    assert said[1]["trace_id"] == trace_id
