"""Cancelling over HTTP, at whichever of two gateways, and messages that wait for a busy thread."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from agentchat.conversations.event_store.event_log import Log, open_log
from tests.harness import RunningStack
from tests.system.calling import MakeAgent, events_of, text_of

SLOW = "demo-load?deltas=600&delay_ms=50"  # half a minute


@pytest.fixture
async def log(stack: RunningStack) -> AsyncIterator[Log]:
    async with open_log(stack.environment.database_url) as opened:
        yield opened


@pytest.fixture
def gateways(stack: RunningStack) -> list[str]:
    return list(stack.environment.gateway_urls)


async def test_cancelled_stream_ends_and_its_text_is_continued(
    make_agent: MakeAgent, gateways: list[str], log: Log
) -> None:
    slow, plain = await make_agent(SLOW), await make_agent("demo-echo")
    async with slow.at(gateways[0]).open_stream("count") as response:
        stream = events_of(response)
        thread = (await anext(stream))["conversation_id"]
        told = [await anext(stream) for _ in range(3)]
        trace_id = response.headers["x-trace-id"]
        assert (await slow.at(gateways[1]).cancel(trace_id)).status_code == 202
        async with asyncio.timeout(15):  # the reply would take twice as long
            told += [event async for event in stream]
    assert told[-1]["type"] == "error"
    assert told[-1]["code"] == "cancelled"
    run = (await log.load_conversation(thread)).run(trace_id)
    assert run is not None
    assert run.state == "cancelled"
    assert run.text == text_of(told)
    assert run.usage.input_tokens > 0
    assert (await slow.cancel(trace_id)).json()["code"] == "run_ended"
    assert (await plain.chat("and then?", conversation_id=thread)).status_code == 200
    assert [each["role"] for each in await plain.messages(thread)] == ["user", "assistant"] * 2


async def test_queued_messages_are_answered_in_order(
    make_agent: MakeAgent, gateways: list[str], stack: RunningStack
) -> None:
    slow, plain = await make_agent(SLOW), await make_agent("demo-echo")
    async with slow.open_stream("message 0") as response:
        thread = (await anext(events_of(response)))["conversation_id"]
        asking = []
        for number in range(1, 7):
            at = plain.at(gateways[number % 2])
            asking.append(asyncio.create_task(at.chat(f"message {number}", conversation_id=thread)))
            in_line = await _line(stack.environment.database_url, thread, number)
        assert (await plain.cancel(in_line[2])).status_code == 202
        gave_up = await asyncio.wait_for(asking.pop(2), 15)
        assert gave_up.status_code == 409
        assert gave_up.json()["code"] == "cancelled"
        assert (await slow.cancel(response.headers["x-trace-id"])).status_code == 202
    answers = await asyncio.gather(*asking)
    assert [answer.json()["message"]["content"] for answer in answers] == [
        f"message {number}" for number in (1, 2, 4, 5, 6)
    ]
    first, cut, *others = [(entry["role"], entry["content"]) for entry in await plain.messages(thread)]
    expected = [(role, f"message {n}") for n in (1, 2, 4, 5, 6) for role in ("user", "assistant")]
    assert (first, cut[0]) == (("user", "message 0"), "assistant"), "what it said before it was cancelled"
    assert others == expected


async def _line(database_url: str, thread: str, count: int) -> list[str]:
    """The traces that stand in line before a thread, in their order, once there are so many."""
    query = "SELECT trace_id FROM waiting_line WHERE conversation_id = %s ORDER BY place"
    async with await AsyncConnection.connect(database_url, autocommit=True) as conn, asyncio.timeout(40):
        while True:
            rows = await (await conn.execute(query, [thread])).fetchall()
            if len(rows) >= count:
                return [trace_id for (trace_id,) in rows]
            await asyncio.sleep(0.02)
