"""One account's long conversations leave memory and connections to the others."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from psycopg import sql
from structlog.testing import capture_logs

from bus.commands import describe_conversation
from bus.errors import BusUnavailable
from contracts import events, frames
from contracts.ids import new_id
from contracts.messages import DescribeConversation
from contracts.replay_messages import WhatIf
from conversations.aggregate.conversation import Conversation
from conversations.event_store import load_budget
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.store import open_store
from orchestrator.orchestrator_services import DEFAULT
from orchestrator.rpc.what_if import answered
from orchestrator.run.interruption import Interruption
from orchestrator.worker import _parts
from tests.conversations.given import AT, described, trace, turn
from tests.orchestrator.given import SECONDS, World, until_logged
from tests.orchestrator.scripted import holds, says


async def thread(world: World, *more: events.Event) -> str:
    started = events.ConversationStarted(trace_id=trace("l"), at=AT, account_id=world.account_id)
    async with open_store(world.settings.database_url) as store:
        begun = Conversation(conversation_id=new_id())
        return (await store.append(begun, [started, *more])).conversation_id


async def test_a_request_waits_while_its_account_has_as_much_loaded_as_it_may(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_budget, "ACCOUNT_BYTES", 50_000)
    gate = asyncio.Event()
    world.will(holds(gate, "First"), says("Another's."), says("Second."))
    long = turn("l", "x" * 30_000, "Hi")
    agent, stranger = await world.agent(), await world.stranger()
    (first_id, second_id), third_id = (
        [await thread(world, *long) for _ in range(2)],
        await thread(stranger, *long),
    )
    async with world.worker():
        with capture_logs() as lines:
            first = await world.ask(agent, conversation_id=first_id, new_conversation=False)
            await first.until_said("First")
            second = await world.ask(agent, conversation_id=second_id, new_conversation=False)
            await until_logged(lines, lambda line: "as much as may be" in str(line.get("reason")))
        command = DescribeConversation(
            trace_id=os.urandom(16).hex(),
            account_id=world.account_id,
            conversation_id=second_id,
            title="Long",
        )
        with pytest.raises(BusUnavailable):
            await describe_conversation(world.bus.rpc, command)
        third = await stranger.ask(await stranger.agent(), conversation_id=third_id, new_conversation=False)
        assert (await third.until(frames.Completed)).message.content == "Another's."
        assert second.frames == []
        gate.set()
        assert (await second.until(frames.Completed)).message.content == "Second."
        assert (await describe_conversation(world.bus.rpc, command)).outcome == "described"


class CountedLog(Log):
    """`most`: later pages that were read at once."""

    most = reading = 0

    async def _entries(
        self, query: sql.Composed, parameters: Sequence[object] | Mapping[str, object]
    ) -> list[LogEntry]:
        later = not isinstance(parameters, Mapping) and parameters[1] != 0
        self.reading += later
        self.most = max(self.most, self.reading)
        try:
            return await super()._entries(query, parameters)
        finally:
            self.reading -= later


async def test_commands_of_an_account_read_its_long_conversations_one_page_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversations.event_store.log.PAGE_ENTRIES", 10)
    conversation_id = await thread(world, *described(100))
    async with _parts(world.settings, "reader", asyncio.Event(), DEFAULT) as opened:
        parts = replace(opened, log=(log := CountedLog(opened.pool)))
        question = WhatIf(
            trace_id=trace("unknown"),
            account_id=world.account_id,
            agent_id="",
            agent_version=1,
            conversation_id=conversation_id,
            seconds=SECONDS,
        )
        found = await asyncio.gather(*(answered(parts, question, Interruption()) for _ in range(3)))
    assert {each.outcome for each in found} == {"not_found"}
    assert log.most == 1
