"""Loops without an end: wait for a wake-up with a limit, follow something and back off, repeat at a pace; and
several calls at once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn

from agentchat.runtime.logs import BoundLogger, first_line

Away = type[Exception] | tuple[type[Exception], ...]
"""What says that something is away for now, such as DatabaseUnavailable."""


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether `event` is set within so many seconds; None: without a limit."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def follow(
    step: Callable[[], Awaitable[object]], away: Away, *, retry_seconds: float, log: BoundLogger, problem: str
) -> NoReturn:
    """Call `step` again and again; it waits for what it follows. After an error of `away`, which is logged as
    `problem`, it is called again in `retry_seconds`. Raises any other.
    """
    while True:
        try:
            await step()
        except away as error:
            log.warning(problem, reason=first_line(error))
            await asyncio.sleep(retry_seconds)


async def repeat(
    work: Callable[[], Awaitable[object]],
    seconds: float,
    away: Away,
    *,
    log: BoundLogger,
    problem: str,
    retry_seconds: float | None = None,
) -> NoReturn:
    """Call `work` after each pause of so many seconds, whatever it raises: that is logged as `problem`.

    After an error of `away` the pause is `retry_seconds`, if that is given.
    """
    pause = seconds
    while True:
        await asyncio.sleep(pause)
        pause = seconds
        try:
            await work()
        except away as error:
            log.warning(problem, reason=first_line(error))
            pause = seconds if retry_seconds is None else retry_seconds
        except Exception:  # the outermost loop of a task
            log.exception(problem)


async def together(work: Iterable[Awaitable[object]]) -> None:
    """All of it, then the first error: nothing is still running when this returns."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def backoff(first_seconds: float, number: int) -> float:
    """Seconds after failure `number`, from 1: doubling, with jitter."""
    return first_seconds * 2.0 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
