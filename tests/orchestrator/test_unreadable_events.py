"""A conversation with an event that cannot be decoded: its run ends, and who asks is told."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from redis.asyncio import Redis

from agentchat.contracts import frames
from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.values import AgentFacts
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.aggregate.opening_rules import StartRun, decide_opening
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.orchestrator.services import Timings
from tests.orchestrator.given import World
from tests.orchestrator.scripted import reply_with

NOBODY_KNOWS = ("unheard_of.v9", b"\xff\x00")


@pytest.fixture(scope="module")
async def system(world: World) -> AsyncIterator[World]:
    """With one orchestrator, which takes at once what was put back."""
    async with world.worker(timings=Timings(put_back_seconds=(0.05,))):
        yield world


async def _interrupt_run(world: World, *facts: tuple[str, bytes]) -> ChatRequested:
    """A request whose run has begun, with something in the log after its start."""
    request = world.request(await world.agent())
    async with open_store(world.settings.database_url) as store:
        version = await _begin(store, request)
        await store.append_stored(request.conversation_id, version, facts)
    return request


async def _begin(store: ConversationStore, request: ChatRequested) -> int:
    facts = AgentFacts(agent_version=1, model="demo")
    conversation = Conversation(conversation_id=request.conversation_id)
    opening = decide_opening(conversation, request, facts, now=request.requested_at, expired=False)
    assert isinstance(opening, StartRun)
    return (await store.append(conversation, opening.events)).version


async def _load_topics(world: World, request: ChatRequested) -> list[str]:
    return [row.topic for row in await world.log.read_rows(request.conversation_id)]


async def test_its_run_fails_and_gives_its_slot_back(system: World, redis_url: str) -> None:
    request = await _interrupt_run(system, NOBODY_KNOWS)
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        slots = f"limits:{{{system.account_id}}}:slots"
        await redis.zadd(slots, {request.trace_id: 2**33})
        caller = await system.request_again(request)
        failed = await caller.until(frames.Failed)
        assert await redis.zscore(slots, request.trace_id) is None
    assert (failed.code, failed.message) == ("internal_error", mapper.UNREADABLE)
    assert (await _load_topics(system, request))[-2:] == [NOBODY_KNOWS[0], "run_failed.v1"]
    assert not await system.log.is_under_way(request.conversation_id, request.trace_id)


async def test_run_with_unknown_end_is_not_ended_again(system: World) -> None:
    request = system.request(await system.agent())
    end = msgspec.json.encode({"trace_id": request.trace_id, "at": request.requested_at, "new": 1})
    async with open_store(system.settings.database_url) as store:
        version = await _begin(store, request)
        await store.append_stored(request.conversation_id, version, [("run_completed.v9", end)])
    caller = await system.request_again(request)
    assert (await caller.until(frames.Failed)).code == "internal_error"
    assert (await _load_topics(system, request))[-1] == "run_completed.v9"


async def test_its_next_message_is_refused_in_plain_words_and_not_saved(system: World) -> None:
    system.will(reply_with("Hello."))
    first = await system.chat(await system.agent())
    version = (await system.conversation(first)).version
    async with open_store(system.settings.database_url) as store:
        await store.append_stored(first.request.conversation_id, version, [NOBODY_KNOWS])
    refused = await (await system.go_on(first, "And then?")).until(frames.Refused, seconds=10.0)
    assert (refused.code, refused.message) == ("internal_error", mapper.UNREADABLE)
    assert (await _load_topics(system, first.request))[-1] == NOBODY_KNOWS[0]


async def test_another_accounts_is_not_found_in_the_words_of_an_unknown_one(system: World) -> None:
    request = await _interrupt_run(system, NOBODY_KNOWS)
    stranger = await system.create_stranger_world()
    theirs = stranger.request(
        await stranger.agent(), conversation_id=request.conversation_id, new_conversation=False
    )
    caller = await stranger.listen(theirs)
    await stranger.bus.queues.request_chat(theirs)
    assert (await caller.until(frames.Refused)).code == "conversation_not_found"
