"""Cancel tasks reliably: the others when the first ends, and in `asyncio.wait_for` on Python 3.11.

The `asyncio.wait_for` of 3.11 loses a cancellation that arrives at the moment the awaited future is done, and
returns the result instead (CPython gh-86296, fixed in 3.12). nats-py and psycopg_pool wait with it. A
projector resumed after SIGSTOP, with an answer of NATS and the end of its session ready at once, kept a task
that nobody would cancel again, and never led again.
"""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


async def wait_first(*work: Awaitable[object]) -> None:
    """Return when the first of them ends, and cancel the others. Raises the error that ended it."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def repair_wait_for() -> None:
    """Give `asyncio.wait_for` the behaviour of 3.12 for every library. Call it before the loop starts."""
    if sys.version_info < (3, 12):
        asyncio.wait_for = asyncio.tasks.wait_for = _wait_for  # type: ignore[assignment]


async def _wait_for(fut: Awaitable[_T], timeout: float | None) -> _T:
    if timeout is None or timeout > 0:
        async with asyncio.timeout(timeout):
            return await fut
    future = asyncio.ensure_future(fut)
    if not future.done():
        future.cancel()
        await asyncio.wait((future,))
    try:
        return future.result()
    except asyncio.CancelledError as error:
        raise TimeoutError from error
