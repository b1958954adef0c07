"""A busy conversation: the next messages are queued and answered first come, first served."""

import asyncio
from datetime import UTC, datetime, timedelta

from agentchat.contracts import frames
from agentchat.conversations.aggregate.conversation import Run
from agentchat.conversations.queries.find_by_trace import find_run
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import Answer, is_holding, reply_with


async def _occupy(world: World, gate: asyncio.Event, *then: Answer) -> Listener:
    """A conversation whose first run is under way until the gate opens."""
    world.will(is_holding(gate, "...", "one"), *then)
    first = await world.ask(await world.agent(), "first")
    await first.until(frames.DeltaFrame)
    return first


async def test_messages_are_answered_one_by_one_in_their_order(system: World) -> None:
    gate = asyncio.Event()
    first = await _occupy(system, gate, reply_with("reply"))
    later = []
    for number in range(4):
        caller = await system.go_on(first, f"message {number}")
        await caller.until(frames.Queued)
        later.append(caller)
    gate.set()
    await asyncio.gather(*(caller.until(frames.Completed) for caller in later))
    runs = (await system.conversation(first)).runs
    assert [run.user_text for run in runs] == ["first", *(f"message {number}" for number in range(4))]
    assert not _count_overlaps(runs)


async def test_waiting_message_shows_its_time_and_model(system: World) -> None:
    gate = asyncio.Event()
    first = await _occupy(system, gate, reply_with("two"), reply_with("three"))
    named = await system.go_on(first, "second", requested_model="Sales")
    unnamed = await system.go_on(first, "third")
    for caller, model in ((named, "Sales"), (unnamed, first.request.agent_id)):
        await caller.until(frames.Queued)
        found = await find_run(system.pool, caller.request.trace_id)
        assert found is not None
        asked = datetime.fromisoformat(caller.request.requested_at)
        assert (found.model, found.requested_at) == (model, int(asked.timestamp()))
    gate.set()
    for caller in (named, unnamed):
        await caller.until(frames.Completed)


async def test_a_message_that_waited_too_long_times_out(system: World) -> None:
    gate = asyncio.Event()
    first = await _occupy(system, gate, reply_with("never"))
    asked = (datetime.now(UTC) - timedelta(seconds=29)).isoformat().replace("+00:00", "Z")
    late = await system.go_on(first, "late", requested_at=asked)
    refused = await late.until(frames.Refused)
    assert refused.code == "conversation_busy"
    gate.set()
    await first.until(frames.Completed)
    assert len((await system.conversation(first)).runs) == 1


def _count_overlaps(runs: tuple[Run, ...]) -> bool:
    """By their times, which each run takes from Postgres once: they agree to the length of a round trip."""
    begun = [datetime.fromisoformat(run.requested_at) for run in runs]
    ended = [datetime.fromisoformat(run.ended_at or "") for run in runs]
    return any(begin + timedelta(seconds=1) < end for begin, end in zip(begun[1:], ended, strict=False))
