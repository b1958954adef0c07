"""A cancellation is not lost in a library that waits with `asyncio.wait_for`."""

import asyncio

import pytest


async def test_one_who_is_cancelled_in_the_moment_of_the_answer_ends() -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waits = asyncio.create_task(asyncio.wait_for(answered, 60))
    await asyncio.sleep(0)
    answered.set_result(None)
    waits.cancel()
    await asyncio.wait((waits,))
    assert waits.cancelled()


@pytest.mark.parametrize("seconds", [0.01, 0, -1])
async def test_what_is_not_there_in_time_is_cancelled(seconds: float) -> None:
    awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(awaited, seconds)
    assert awaited.cancelled()


@pytest.mark.parametrize("seconds", [0, 1, None])
async def test_what_is_there_already_needs_no_time(seconds: float | None) -> None:
    there: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    there.set_result("there")
    assert await asyncio.wait_for(there, seconds) == "there"
