"""A follower of a run: a wake-up that comes while nobody waits is not lost, and ends one wait."""

import asyncio

import pytest

from agentchat.gateway.runs.event_stream import RunFollower, UpdateQueue
from agentchat.gateway.runs.frames_to_updates import View


@pytest.fixture
def follower() -> RunFollower:
    return RunFollower(View(), UpdateQueue())


async def is_waiting(follower: RunFollower) -> bool:
    """Return True if a wait does not end by itself; it is cancelled then."""
    waiting = asyncio.create_task(follower.wait())
    for _ in range(3):
        await asyncio.sleep(0)
    return waiting.cancel()


async def test_a_wake_up_before_the_wait_ends_it(follower: RunFollower) -> None:
    follower.wake()
    follower.wake()
    assert not await is_waiting(follower)
    assert await is_waiting(follower), "both were one"


async def test_a_wake_up_ends_the_wait_under_way_only(follower: RunFollower) -> None:
    waiting = asyncio.create_task(follower.wait())
    await asyncio.sleep(0)
    follower.wake()
    follower.wake()
    await waiting
    assert await is_waiting(follower)


async def test_a_wake_up_after_a_wait_has_ended_ends_the_next(follower: RunFollower) -> None:
    waiting = asyncio.create_task(follower.wait())
    await asyncio.sleep(0)
    follower.wake()
    await waiting
    follower.wake()
    assert not await is_waiting(follower)


async def test_a_wake_up_after_a_cancelled_wait_ends_the_next(follower: RunFollower) -> None:
    assert await is_waiting(follower)
    follower.wake()
    assert not await is_waiting(follower)
