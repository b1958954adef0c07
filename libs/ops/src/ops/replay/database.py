"""One piece of work on the database of a system, from the connection to the error that ends the command."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from conversations.errors import ConversationsError, UnreadableEvent
from ops import environment
from ops.database import DATABASE_URL, failures_in_one_line, reached
from ops.errors import StackError
from runtime.postgres import Pool, open_pool

T = TypeVar("T")


class NoneSuchError(StackError):
    """What the command names is not there."""

    exit_code = 2


def run(work: Callable[[str, Pool], Awaitable[T]]) -> T:
    """What `work` returns, given the database's address and a pool on it. Raises StackError."""
    try:
        with failures_in_one_line():
            return asyncio.run(_run(work))
    except UnreadableEvent as error:
        raise StackError(f"an event in the log cannot be read: {error}") from None
    except ConversationsError as error:
        raise StackError(str(error)) from None


def database_url() -> str:
    """The one of the environment, or the running stack's. Raises NotRunningError."""
    own = environment.given(os.environ, DATABASE_URL)
    return own or environment.load(elsewhere=f"; for another database set {DATABASE_URL}").database_url


async def _run(work: Callable[[str, Pool], Awaitable[T]]) -> T:
    url = database_url()
    await reached(url)
    async with open_pool(url) as pool:
        return await work(url, pool)
