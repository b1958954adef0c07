"""Cancelling over HTTP, at whichever of two gateways, and messages that wait for a busy thread."""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from psycopg import AsyncConnection

from contracts import events
from conversations.event_store.log import Log, open_log
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, events_of, text_of

SLOW = "demo-load?deltas=600&delay_ms=50"  # half a minute
ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)


@pytest.fixture
async def log(stack: RunningStack) -> AsyncIterator[Log]:
    async with open_log(stack.environment.database_url) as opened:
        yield opened


@pytest.fixture
def gateways(stack: RunningStack) -> list[str]:
    return list(stack.environment.gateway_urls)


async def _cancel(caller: Caller, trace_id: str) -> httpx.Response:
    key = {"X-Api-Key": caller.headers["X-Api-Key"]}
    return await caller.http.post(f"{caller.base_url}/v1/chat/{trace_id}/cancel", headers=key)


@pytest.mark.requirement("CANCEL-HTTP", "CANCEL")
async def test_a_cancelled_stream_ends_soon_and_the_thread_goes_on_from_its_text(
    make_agent: MakeAgent, gateways: list[str], log: Log
) -> None:
    slow, plain = await make_agent(SLOW), await make_agent("demo-echo")
    async with slow.at(gateways[0]).opened("count") as response:
        stream = events_of(response)
        thread = (await anext(stream))["conversation_id"]
        told = [await anext(stream) for _ in range(3)]
        trace_id = response.headers["x-trace-id"]
        assert (await _cancel(slow.at(gateways[1]), trace_id)).status_code == 202
        async with asyncio.timeout(15):  # the reply would take twice as long
            told += [event async for event in stream]
    assert told[-1]["type"] == "error"
    assert told[-1]["code"] == "cancelled"
    run = (await log.conversation(thread)).run(trace_id)
    assert run is not None
    assert run.state == "cancelled"
    assert run.text == text_of(told)
    assert run.usage.input_tokens > 0
    assert (await _cancel(slow, trace_id)).json()["code"] == "run_ended"
    assert (await plain.chat("and then?", conversation_id=thread)).status_code == 200
    assert [message["role"] for message in await plain.messages(thread)] == ["user", "user", "assistant"]


@pytest.mark.requirement("CANCEL-HTTP")
async def test_a_waiting_json_call_gets_409(make_agent: MakeAgent, gateways: list[str], log: Log) -> None:
    slow = await make_agent(SLOW)
    asking = asyncio.create_task(slow.at(gateways[0]).chat(message := uuid.uuid4().hex))
    trace_id = await _trace_of(log, message)
    assert (await _cancel(slow.at(gateways[1]), trace_id)).status_code == 202
    response = await asyncio.wait_for(asking, 15)
    assert response.status_code == 409
    assert response.json()["code"] == "cancelled"
    assert response.headers["x-trace-id"] == trace_id


@pytest.mark.requirement("CONV-BUSY", "CANCEL-HTTP")
async def test_queued_messages_are_answered_in_order_but_for_a_cancelled_one(
    make_agent: MakeAgent, gateways: list[str], stack: RunningStack
) -> None:
    slow, plain = await make_agent(SLOW), await make_agent("demo-echo")
    async with slow.opened("message 0") as response:
        thread = (await anext(events_of(response)))["conversation_id"]
        asking = []
        for number in range(1, 7):
            at = plain.at(gateways[number % 2])
            asking.append(asyncio.create_task(at.chat(f"message {number}", conversation_id=thread)))
            in_line = await _line(stack.environment.database_url, thread, number)
        assert (await _cancel(plain, in_line[2])).status_code == 202
        gave_up = await asyncio.wait_for(asking.pop(2), 15)
        assert gave_up.status_code == 409
        assert gave_up.json()["code"] == "cancelled"
        assert (await _cancel(slow, response.headers["x-trace-id"])).status_code == 202
    answers = await asyncio.gather(*asking)
    assert [answer.json()["message"]["content"] for answer in answers] == [
        f"message {number}" for number in (1, 2, 4, 5, 6)
    ]
    said = [(entry["role"], entry["content"]) for entry in await plain.messages(thread)]
    expected = [(role, f"message {n}") for n in (1, 2, 4, 5, 6) for role in ("user", "assistant")]
    assert said == [("user", "message 0"), *expected]


@pytest.mark.requirement("CONV-BUSY", "CANCEL-HTTP", "IDEMPOTENCY", "STREAM-CONCAT", "RUN-ENDS")
@pytest.mark.parametrize("seed", range(1))
async def test_whatever_is_sent_repeated_and_cancelled_at_once_each_request_has_one_run_and_one_end(
    make_agent: MakeAgent, gateways: list[str], log: Log, seed: int
) -> None:
    dice = random.Random(seed)
    agent = await make_agent("demo-load?deltas=15&delay_ms=10")
    opening = [await agent.chat(f"open {seed}") for _ in range(2)]
    threads = [reply.json()["conversation_id"] for reply in opening]
    plans = [_plan(dice, [*threads, None]) for _ in range(24)]
    done = await asyncio.gather(*(_carry_out(agent, gateways, plan) for plan in plans))
    accepted = {answer.trace_id: answer.thread for answers in done for answer in answers if answer.thread}
    for answers in done:  # one run for a key, and one answer
        assert len({answer.trace_id for answer in answers if answer.thread}) <= 1
        assert len({answer.outcome for answer in answers}) == 1, answers
    for thread in {*threads, *accepted.values()}:
        await _check_thread(log, thread, {trace for trace, its in accepted.items() if its == thread})
    for answer in (answer for answers in done for answer in answers if answer.thread):
        run = (await log.conversation(answer.thread or "")).run(answer.trace_id)
        assert run is not None
        assert (answer.outcome == "done") == (run.state == "completed"), answer
        if answer.text is not None:
            assert answer.text == run.text, answer


class _Plan(msgspec.Struct, frozen=True):
    """One message, asked for once or more; who streams it first may cancel it so many seconds later."""

    message: str
    thread: str | None
    ways: tuple[str, ...]  # of asking, by turns at the gateways, each after its pause in seconds
    pauses: tuple[float, ...]
    cancel_after: float | None


class _Answer(msgspec.Struct, frozen=True):
    """`thread` is None where the request was refused; `text` is what a stream told."""

    trace_id: str
    outcome: str
    thread: str | None = None
    text: str | None = None


def _plan(dice: random.Random, threads: list[str | None]) -> _Plan:
    count = dice.choice([1, 1, 2, 3])
    cancels = dice.random() < 0.5
    ways = [dice.choice(["json", "stream"]) for _ in range(count)]
    return _Plan(
        message=uuid.UUID(int=dice.getrandbits(128)).hex + uuid.uuid4().hex,
        thread=dice.choice(threads),
        ways=("stream", *ways[1:]) if cancels else tuple(ways),
        pauses=tuple(dice.random() * 0.6 for _ in range(count)),
        cancel_after=dice.random() * 0.2 if cancels else None,
    )


async def _carry_out(agent: Caller, gateways: list[str], plan: _Plan) -> list[_Answer]:
    key = uuid.uuid4().hex

    async def ask(number: int) -> _Answer:
        await asyncio.sleep(plan.pauses[number])
        at = agent.at(gateways[number % 2])
        at.headers["Idempotency-Key"] = key
        body: dict[str, Any] = {"conversation_id": plan.thread}
        if plan.ways[number] == "json":
            return _of_json(await at.chat(plan.message, **body))
        async with at.opened(plan.message, **body) as response:
            if response.status_code != 200:
                await response.aread()
                return _of_json(response)
            if plan.cancel_after is not None and number == 0:
                await asyncio.sleep(plan.cancel_after)
                cancelled = await _cancel(agent.at(gateways[1]), response.headers["x-trace-id"])
                assert cancelled.status_code in (202, 409), cancelled.text
            return _of_stream(response, [event async for event in events_of(response)])

    return await asyncio.gather(*(ask(number) for number in range(len(plan.ways))))


def _of_json(response: httpx.Response) -> _Answer:
    trace_id, body = response.headers["x-trace-id"], response.json()
    if response.status_code == 200:
        return _Answer(trace_id, "done", body["conversation_id"], body["message"]["content"])
    return _Answer(trace_id, body["code"])


def _of_stream(response: httpx.Response, told: list[dict[str, Any]]) -> _Answer:
    outcome = "done" if told[-1]["type"] == "done" else told[-1]["code"]
    trace_id = response.headers["x-trace-id"]
    assert told[0]["trace_id"] == trace_id
    return _Answer(trace_id, outcome, told[0]["conversation_id"], text_of(told))


async def _check_thread(log: Log, thread: str, accepted: set[str]) -> None:
    """Each run has one message and one end, all of it before the next run begins."""
    stored = await log.events(thread)
    begun = Counter(e.trace_id for e in stored if isinstance(e, events.MessageSaved) and e.role == "user")
    ended = Counter(e.trace_id for e in stored if isinstance(e, ENDS))
    assert set(begun.values()) == set(ended.values()) == {1}
    assert begun.keys() == ended.keys() >= accepted
    order = list(dict.fromkeys(event.trace_id for event in stored))
    assert [event.trace_id for event in stored] == sorted(
        (event.trace_id for event in stored), key=order.index
    )


async def _trace_of(log: Log, message: str) -> str:
    """The trace of the run of this message, once it is saved."""
    async with asyncio.timeout(40):
        while True:
            for entry in await log.read(max(0, await log.head() - 50), 100):
                event = entry.event
                if isinstance(event, events.MessageSaved) and event.content == message:
                    return event.trace_id
            await asyncio.sleep(0.02)


async def _line(database_url: str, thread: str, count: int) -> list[str]:
    """The traces that stand in line before a thread, in their order, once there are so many."""
    query = "SELECT trace_id FROM waiting_line WHERE conversation_id = %s ORDER BY place"
    async with await AsyncConnection.connect(database_url, autocommit=True) as conn, asyncio.timeout(40):
        while True:
            rows = await (await conn.execute(query, [thread])).fetchall()
            if len(rows) >= count:
                return [trace_id for (trace_id,) in rows]
            await asyncio.sleep(0.02)
