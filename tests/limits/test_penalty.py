"""An account that asks on though it is refused waits; nobody else does."""

import asyncio
import time

from limits import penalty
from limits.penalty import Penalties


async def seconds(penalties: Penalties, account: str) -> float:
    began = time.monotonic()
    await penalties.wait(account)
    return time.monotonic() - began


async def is_delayed(penalties: Penalties, account: str) -> bool:
    answer = asyncio.create_task(penalties.wait(account))
    await asyncio.sleep(0)
    delayed = not answer.done()
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    return delayed


async def test_a_few_refusals_are_told_at_once_and_a_flood_of_them_is_slowed_down() -> None:
    now = 0.0
    penalties = Penalties(clock=lambda: now)
    for _ in range(penalty.FREE_REFUSALS):
        assert not await is_delayed(penalties, "one")
    assert await seconds(penalties, "one") >= penalty.WAIT_SECONDS - 0.01
    assert not await is_delayed(penalties, "other")
    now += 2.0 / penalty.PER_SECOND
    assert not await is_delayed(penalties, "one")


async def test_no_more_than_so_many_answers_wait() -> None:
    penalties = Penalties(clock=lambda: 0.0)
    number = penalty.FREE_REFUSALS + penalty.MAX_WAITING + 30
    waiting = [asyncio.create_task(penalties.wait("one")) for _ in range(number)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(not task.done() for task in waiting) == penalty.MAX_WAITING
    for task in waiting[-40:]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await seconds(penalties, "one") >= penalty.WAIT_SECONDS - 0.01
