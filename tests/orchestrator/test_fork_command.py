"""Forks by command: whole or not at all, once a command, and each goes on and is erased for itself."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentchat.bus.commands import erase_conversation, fork_conversation
from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.conversations.aggregate import forking
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import Log, LogEntry
from agentchat.orchestrator.rpc.fork_command import fork
from agentchat.orchestrator.services import DEFAULT, WorkerServices
from agentchat.orchestrator.worker import _open_services
from agentchat.runtime.postgres import Pool
from tests.conversations.given import AT, trace, turn
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import reply_with


def command(world: World, source: Listener, **fields: Any) -> ForkConversation:
    given = {
        "trace_id": os.urandom(16).hex(),
        "account_id": world.account_id,
        "conversation_id": make_id(),
        "source_id": source.request.conversation_id,
    }
    return ForkConversation(**given | fields)


async def test_fork_continues_and_outlives_its_source(system: World) -> None:
    system.will(reply_with("It is blue."), reply_with("It was blue."))
    source = await system.chat(await system.agent(), "Which colour?")
    asked = command(system, source)
    answer = await fork_conversation(system.bus.rpc, asked)
    assert answer == ForkAnswered(outcome="forked", version=8)
    assert await erase_conversation(
        system.bus.rpc, system.account_id, asked.source_id, trace_id=os.urandom(16).hex()
    )
    later = await system.continue_chat(source, "Say again?", conversation_id=asked.conversation_id)
    assert [each["content"][0]["text"] for each in system.calls[-1].messages] == [
        "Which colour?",
        "It is blue.",
        "Say again?",
    ]
    assert await fork_conversation(system.bus.rpc, asked) == answer
    assert len((await system.conversation(later)).runs) == 2


async def test_of_one_command_given_often_and_to_many_there_is_one_fork(system: World) -> None:
    system.will(reply_with("shipped."))
    source = await system.chat(await system.agent())
    asked = command(system, source)
    async with system.worker("second"):
        answers = await asyncio.gather(*(fork_conversation(system.bus.rpc, asked) for _ in range(8)))
    assert {(each.outcome, each.version) for each in answers} == {("forked", 8)}
    assert (await system.log.load_conversation(asked.conversation_id)).version == 8


async def store_long_source(world: World, runs: int = 120) -> str:
    """A conversation that is forked in several pieces."""
    conversation_id = make_id()
    start = events.ConversationStarted(trace_id=trace("l"), at=AT, account_id=world.account_id)
    async with open_store(world.settings.database_url) as store:
        thread = await store.append(Conversation(conversation_id=conversation_id), [start])
        told = [each for number in range(runs) for each in turn(f"l-{number}", "Hello", "Hi")]
        await store.append(thread, told)
    return conversation_id


async def test_a_long_past_is_forked_by_one_append(system: World) -> None:
    source_id = await store_long_source(system)
    asked = fork_of(system, source_id)
    answer = await fork_conversation(system.bus.rpc, asked)
    past = await system.log.read_events(source_id)
    assert answer == ForkAnswered(outcome="forked", version=len(past) + 1)
    assert len(await system.log.read_events(asked.conversation_id)) == answer.version
    assert await fork_conversation(system.bus.rpc, asked) == answer


class GatedLog(Log):
    """Notes which forks are looked for, and how many events are read; `open` lets them begin."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.open, self.has_begun = asyncio.Event(), asyncio.Event()
        self.looked_for: list[str] = []
        self.count = 0

    async def read_events(
        self, conversation_id: str, after_version: int = 0, until_version: int | None = None
    ) -> list[events.Event]:
        self.looked_for.append(conversation_id)
        self.has_begun.set()
        await self.open.wait()
        return await super().read_events(conversation_id, after_version, until_version)

    async def _fetch_entries(
        self, query: bytes, parameters: Sequence[object] | Mapping[str, object]
    ) -> list[LogEntry]:
        entries = await super()._fetch_entries(query, parameters)
        self.count += len(entries)
        return entries


@contextlib.asynccontextmanager
async def gate_forks(world: World) -> AsyncIterator[tuple[WorkerServices, GatedLog]]:
    """The parts of a worker, whose commands wait for the log to open."""
    async with _open_services(world.settings, "forker", asyncio.Event(), DEFAULT) as opened:
        yield replace(opened, log=(log := GatedLog(opened.pool))), log


def fork_of(world: World, source_id: str, **more: Any) -> ForkConversation:
    given = {"account_id": world.account_id, "conversation_id": make_id()} | more
    return ForkConversation(trace_id=os.urandom(16).hex(), source_id=source_id, **given)


async def test_too_large_source_is_read_to_the_limit_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_id = await store_long_source(world)
    monkeypatch.setattr(forking, "MAX_EVENTS", 25)
    monkeypatch.setattr("agentchat.conversations.event_store.event_log.PAGE_ENTRIES", 10)
    async with gate_forks(world) as (parts, log):
        log.open.set()
        answer = await fork(parts, fork_of(world, source_id))
        assert answer == ForkAnswered(outcome="too_large")
        assert log.count == 30
        answer = await fork(parts, fork_of(world, source_id, at=7))
        assert answer == ForkAnswered(outcome="forked", version=8)
        assert log.count == 30 + 7


async def test_a_command_that_is_given_again_meanwhile_is_obeyed_once(world: World) -> None:
    source_id = await store_long_source(world)
    command = fork_of(world, source_id)
    async with gate_forks(world) as (parts, log):
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
    source_id = await store_long_source(world)
    stranger = await world.create_stranger_world()
    commands = [fork_of(world, source_id, at=1) for _ in range(4)]
    other = fork_of(stranger, source_id, at=1)
    async with gate_forks(world) as (parts, log):
        asked = [asyncio.create_task(fork(parts, each)) for each in (*commands, other)]
        await log.has_begun.wait()
        log.open.set()
        await asyncio.gather(*asked)
    assert log.looked_for.index(other.conversation_id) <= 2
