"""One piece of work on the database of a system, from the connection to the error that ends the command."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from conversations.errors import ConversationsError, UnreadableEvent
from ops import environment
from ops.database import DATABASE_URL, reached
from ops.errors import NotRunningError, SetupError, StackError
from runtime.postgres import DatabaseUnavailable, Pool, open_pool

T = TypeVar("T")


class NoneSuchError(StackError):
    """What the command names is not there."""

    exit_code = 2


def run(work: Callable[[str, Pool], Awaitable[T]]) -> T:
    """What `work` returns, given the database's address and a pool on it. Raises StackError."""
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # what it says is said below, once
    try:
        return asyncio.run(_run(work))
    except UnreadableEvent as error:
        raise StackError(f"an event in the log cannot be read: {error}") from None
    except ConversationsError as error:
        raise StackError(str(error)) from None
    except DatabaseUnavailable as error:
        raise StackError(f"the database does not answer: {error}") from None
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction):
        raise SetupError("the database's tables are missing or old: run `agentchat migrate`") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise StackError(f"the database's user may not do that: {error.diag.message_primary}") from None


def database_url() -> str:
    """The one of the environment, or the running stack's. Raises NotRunningError."""
    own = os.environ.get(DATABASE_URL, "").strip()
    if own:
        return own
    try:
        return environment.load().database_url
    except NotRunningError as error:
        raise NotRunningError(f"{error}; for another database set {DATABASE_URL}") from None


async def _run(work: Callable[[str, Pool], Awaitable[T]]) -> T:
    url = database_url()
    await reached(url)
    async with open_pool(url) as pool:
        return await work(url, pool)
