"""Forks by command: whole or not at all, once a command, and each goes on and is erased for itself."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql

from bus.commands import erase_conversation, fork_conversation
from contracts import events, frames
from contracts.ids import new_id
from contracts.messages import ForkAnswered, ForkConversation
from conversations.aggregate import forking
from conversations.aggregate.conversation import Conversation
from conversations.errors import VersionConflict
from conversations.event_store import mapper
from conversations.event_store.log import Log, LogEntry
from conversations.event_store.store import open_store
from conversations.queries.find_run import find_run
from conversations.queries.threads import find_thread
from orchestrator.orchestrator_services import DEFAULT, Parts
from orchestrator.rpc.fork_command import fork, remove_abandoned
from orchestrator.worker import _parts
from runtime.postgres import Pool
from tests.conversations.given import AT, trace, turn
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import says


def command(world: World, source: Listener, **fields: Any) -> ForkConversation:
    given = {
        "trace_id": os.urandom(16).hex(),
        "account_id": world.account_id,
        "conversation_id": new_id(),
        "source_id": source.request.conversation_id,
    }
    return ForkConversation(**given | fields)


async def test_a_fork_goes_on_with_the_past_of_its_source_which_is_erased_without_it(working: World) -> None:
    working.will(says("It is blue."), says("It was blue."))
    source = await working.answered(await working.agent(), "Which colour?")
    asked = command(working, source)
    answer = await fork_conversation(working.bus.rpc, asked)
    assert answer == ForkAnswered(outcome="forked", version=8)
    assert await erase_conversation(
        working.bus.rpc, working.account_id, asked.source_id, trace_id=os.urandom(16).hex()
    )
    later = await working.go_on(source, "Say again?", conversation_id=asked.conversation_id)
    await later.until(frames.Completed)
    assert [each["content"][0]["text"] for each in working.calls[-1].messages] == [
        "Which colour?",
        "It is blue.",
        "Say again?",
    ]
    assert await fork_conversation(working.bus.rpc, asked) == answer
    assert len((await working.conversation(later)).runs) == 2


async def test_of_one_command_given_often_and_to_many_there_is_one_fork(working: World) -> None:
    working.will(says("shipped."))
    source = await working.answered(await working.agent())
    asked = command(working, source)
    async with working.worker("second"):
        answers = await asyncio.gather(*(fork_conversation(working.bus.rpc, asked) for _ in range(8)))
    assert {(each.outcome, each.version) for each in answers} == {("forked", 8)}
    assert (await working.log.conversation(asked.conversation_id)).version == 8


async def long_source(world: World, runs: int = 120) -> str:
    """A conversation that is forked in several pieces."""
    conversation_id = new_id()
    start = events.ConversationStarted(trace_id=trace("l"), at=AT, account_id=world.account_id)
    async with open_store(world.settings.database_url) as store:
        thread = await store.append(Conversation(conversation_id=conversation_id), [start])
        told = [each for number in range(runs) for each in turn(f"l-{number}", "Hello", "Hi")]
        await store.append(thread, told)
    return conversation_id


async def test_nobody_finds_a_fork_that_lacks_copies_and_the_same_command_finishes_it(working: World) -> None:
    source_id = await long_source(working)
    asked = ForkConversation(
        trace_id=os.urandom(16).hex(),
        account_id=working.account_id,
        conversation_id=new_id(),
        source_id=source_id,
    )
    past = await working.log.events(source_id)
    decided = forking.fork(past, [1] * len(past), asked, AT)
    assert not isinstance(decided, ForkAnswered)
    assert len(decided) > 3 * forking.PIECE
    async with open_store(working.settings.database_url) as store:
        await store.append_stored(asked.conversation_id, 0, mapper.stored(decided[: forking.PIECE]))
    assert await find_thread(working.pool, asked.conversation_id) is None
    assert (await working.log.conversation(asked.conversation_id)).version == 0
    run = next(each for each in decided if isinstance(each, events.RunStarted))
    assert await find_run(working.pool, run.trace_id) is None
    later = await working.ask(
        await working.agent(), conversation_id=asked.conversation_id, new_conversation=False
    )
    assert (await later.until(frames.Refused)).code == "conversation_not_found"
    answer = await fork_conversation(working.bus.rpc, asked)
    assert answer == ForkAnswered(outcome="forked", version=len(decided))
    assert await working.log.events(asked.conversation_id) == list(decided)
    assert await fork_conversation(working.bus.rpc, asked) == answer


class GatedLog(Log):
    """Notes which forks are looked for, and how many events are read; `open` lets them begin."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.open, self.has_begun = asyncio.Event(), asyncio.Event()
        self.looked_for: list[str] = []
        self.count = 0

    async def beginning(self, conversation_id: str, until_version: int) -> list[LogEntry]:
        self.looked_for.append(conversation_id)
        self.has_begun.set()
        await self.open.wait()
        return await super().beginning(conversation_id, until_version)

    async def _entries(
        self, query: sql.Composed, parameters: Sequence[object] | Mapping[str, object]
    ) -> list[LogEntry]:
        entries = await super()._entries(query, parameters)
        self.count += len(entries)
        return entries


@contextlib.asynccontextmanager
async def gated(world: World) -> AsyncIterator[tuple[Parts, GatedLog]]:
    """The parts of a worker, whose commands wait for the log to open."""
    async with _parts(world.settings, "forker", asyncio.Event(), DEFAULT) as opened:
        yield replace(opened, log=(log := GatedLog(opened.pool))), log


def fork_of(world: World, source_id: str, **more: Any) -> ForkConversation:
    given = {"account_id": world.account_id, "conversation_id": new_id()} | more
    return ForkConversation(trace_id=os.urandom(16).hex(), source_id=source_id, **given)


async def test_of_a_source_that_is_too_large_no_more_is_read_than_may_be_copied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_id = await long_source(world)
    monkeypatch.setattr(forking, "MAX_EVENTS", 25)
    monkeypatch.setattr("conversations.event_store.log.PAGE_ENTRIES", 10)
    async with gated(world) as (parts, log):
        log.open.set()
        answer = await fork(parts, fork_of(world, source_id))
        assert answer == ForkAnswered(outcome="too_large")
        assert log.count == 30
        answer = await fork(parts, fork_of(world, source_id, at=7))
        assert answer == ForkAnswered(outcome="forked", version=8)
        assert log.count == 30 + 7


async def test_a_command_that_is_given_again_meanwhile_is_obeyed_once(world: World) -> None:
    source_id = await long_source(world)
    command = fork_of(world, source_id)
    async with gated(world) as (parts, log):
        asked = [asyncio.create_task(fork(parts, command)) for _ in range(4)]
        await log.has_begun.wait()
        asked.pop(0).cancel()
        log.open.set()
        answers = await asyncio.gather(*asked)
        assert len(log.looked_for) == 1
        assert {each.outcome for each in answers} == {"forked"}
        assert await fork(parts, command) == answers[0]
        assert len(log.looked_for) == 2
        assert not parts.forks


async def test_forks_of_one_account_delay_another_accounts_by_one(world: World) -> None:
    source_id = await long_source(world)
    stranger = await world.stranger()
    commands = [fork_of(world, source_id, at=1) for _ in range(4)]
    other = fork_of(stranger, source_id, at=1)
    async with gated(world) as (parts, log):
        asked = [asyncio.create_task(fork(parts, each)) for each in (*commands, other)]
        await log.has_begun.wait()
        log.open.set()
        await asyncio.gather(*asked)
    assert log.looked_for.index(other.conversation_id) <= 2


async def test_what_nobody_finishes_is_removed(working: World) -> None:
    source_id = await long_source(working)
    asked = ForkConversation(
        trace_id=os.urandom(16).hex(),
        account_id=working.account_id,
        conversation_id=new_id(),
        source_id=source_id,
    )
    past = await working.log.events(source_id)
    decided = forking.fork(past, [1] * len(past), asked, AT)
    assert not isinstance(decided, ForkAnswered)
    async with open_store(working.settings.database_url) as store:
        await store.append_stored(asked.conversation_id, 0, mapper.stored(decided[: forking.PIECE]))
        assert await remove_abandoned(working.pool, store, seconds=60) == 0
        assert await remove_abandoned(working.pool, store, seconds=0) == 1
        piece = mapper.stored(decided[forking.PIECE : 2 * forking.PIECE])
        with pytest.raises(VersionConflict):
            await store.append_stored(asked.conversation_id, forking.PIECE, piece)
    assert (await working.log.conversation(asked.conversation_id)).erased
    assert (await fork_conversation(working.bus.rpc, asked)).outcome == "not_found"
