"""Run loops: wait for an event with a limit, retry, follow with retries, repeat at a pace."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from agentchat.runtime.logs import BoundLogger, get_first_line

T = TypeVar("T")

Away = type[Exception] | tuple[type[Exception], ...]
"""Errors that mean that something is away for now, such as DatabaseUnavailable."""


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Return True if `event` is set within `seconds`; None waits without a limit."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def retry(
    work: Callable[[], Awaitable[T]],
    away: Away,
    *,
    pause_seconds: float,
    seconds: float = math.inf,
    log: BoundLogger | None = None,
    problem: str = "",
) -> T:
    """Return the result of `work`, which is called again after each error of `away`.

    With `log` the errors are logged as `problem`. Raises the last one once `seconds` are over.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return await work()
        except away as error:
            if time.monotonic() > until:
                raise
            if log is not None:
                log.warning(problem, reason=get_first_line(error))
        await asyncio.sleep(pause_seconds)


async def follow(
    step: Callable[[], Awaitable[object]], away: Away, *, retry_seconds: float, log: BoundLogger, problem: str
) -> NoReturn:
    """Call `step` again and again; `step` itself waits for what it follows.

    After an error of `away`, logged as `problem`, call it again in `retry_seconds`. Any other error is
    raised.
    """
    while True:
        try:
            await step()
        except away as error:
            log.warning(problem, reason=get_first_line(error))
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
    """Call `work` after each pause of `seconds`. Whatever it raises is logged as `problem`.

    After an error of `away` the pause is `retry_seconds`, if that is given.
    """
    pause = seconds
    while True:
        await asyncio.sleep(pause)
        pause = seconds
        try:
            await work()
        except away as error:
            log.warning(problem, reason=get_first_line(error))
            pause = seconds if retry_seconds is None else retry_seconds
        except Exception:  # the outermost loop of a task
            log.exception(problem)


def compute_backoff(first_seconds: float, number: int) -> float:
    """Return the seconds to wait after failure `number`, counted from 1: doubling, with jitter."""
    return first_seconds * 2.0 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
