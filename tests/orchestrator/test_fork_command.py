"""Forks by command: whole or not at all, once a command, and each goes on and is erased for itself."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bus import erase_conversation, fork_conversation
from contracts import frames
from contracts.ids import new_id
from contracts.messages import ForkAnswered, ForkConversation
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import ScriptedProvider, holds, says

pytestmark = pytest.mark.requirement("FORK")


@pytest.fixture(scope="module")
async def working(world: World) -> AsyncIterator[World]:
    async with world.worker():
        yield world


def command(world: World, source: Listener, **fields: Any) -> ForkConversation:
    given = {
        "trace_id": os.urandom(16).hex(),
        "account_id": world.account_id,
        "conversation_id": new_id(),
        "source_id": source.request.conversation_id,
    }
    return ForkConversation(**given | fields)


async def test_a_fork_goes_on_with_the_past_of_its_source_which_is_erased_without_it(
    working: World, provider: ScriptedProvider
) -> None:
    provider.will(says("It is blue."), says("It was blue."))
    source = await working.ask(await working.agent(), "Which colour?")
    await source.until(frames.Completed)
    asked = command(working, source)
    answer = await fork_conversation(working.bus.rpc, asked)
    assert answer == ForkAnswered(outcome="forked", version=8)
    assert await erase_conversation(
        working.bus.rpc, working.account_id, asked.source_id, trace_id=os.urandom(16).hex()
    )
    later = await working.go_on(source, "Say again?", conversation_id=asked.conversation_id)
    await later.until(frames.Completed)
    assert [each["content"][0]["text"] for each in provider.calls[-1].messages] == [
        "Which colour?",
        "It is blue.",
        "Say again?",
    ]
    assert await fork_conversation(working.bus.rpc, asked) == answer
    assert len((await working.conversation(later)).runs) == 2


async def test_of_one_command_given_often_and_to_many_there_is_one_fork(
    working: World, provider: ScriptedProvider
) -> None:
    provider.will(says("shipped."))
    source = await working.ask(await working.agent())
    await source.until(frames.Completed)
    asked = command(working, source)
    async with working.worker("second"):
        answers = await asyncio.gather(*(fork_conversation(working.bus.rpc, asked) for _ in range(8)))
    assert {(each.outcome, each.version) for each in answers} == {("forked", 8)}
    assert (await working.log.conversation(asked.conversation_id)).version == 8


async def test_what_cannot_be_forked_begins_nothing(working: World, provider: ScriptedProvider) -> None:
    gate = asyncio.Event()
    provider.will(says("First."), holds(gate, "Second"))
    source = await working.ask(await working.agent())
    await source.until(frames.Completed)
    later = await working.go_on(source, "And?")
    await later.until_said("Second")
    stranger = await working.stranger()
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "busy"),
        ({"at": 99}, "unknown_version"),
        ({"at": new_id()}, "unknown_message"),
        ({"at": 0}, "nothing_said"),
        ({"source_id": new_id()}, "not_found"),
        ({"account_id": stranger.account_id}, "not_found"),
    ]
    for fields, outcome in refused:
        asked = command(working, source, **fields)
        assert (await fork_conversation(working.bus.rpc, asked)).outcome == outcome
        assert (await working.log.conversation(asked.conversation_id)).version == 0
    before = command(working, source, at=9)
    assert await fork_conversation(working.bus.rpc, before) == ForkAnswered(outcome="forked", version=8)
    gate.set()
    assert (await later.until(frames.Completed)).message.content == "Second and the rest"
