"""An account that asks on though it is refused waits; nobody else does."""

import asyncio
import time

import pytest

from limits import penalty
from limits.penalty import Penalties

pytestmark = pytest.mark.requirement("LIMIT-FAIR")


async def seconds(penalties: Penalties, account: str) -> float:
    began = time.monotonic()
    await penalties.wait(account)
    return time.monotonic() - began


async def test_a_few_refusals_are_told_at_once_and_a_flood_of_them_is_slowed_down() -> None:
    now = 0.0
    penalties = Penalties(clock=lambda: now)
    for _ in range(penalty.FREE_REFUSALS):
        assert await seconds(penalties, "one") < penalty.WAIT_SECONDS / 2
    assert await seconds(penalties, "one") >= penalty.WAIT_SECONDS - 0.01
    assert await seconds(penalties, "other") < penalty.WAIT_SECONDS / 2
    now += 2.0 / penalty.PER_SECOND
    assert await seconds(penalties, "one") < penalty.WAIT_SECONDS / 2


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
