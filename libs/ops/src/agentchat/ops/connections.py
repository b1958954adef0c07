"""Connect a command to a system's database and NATS; failures are one line on stderr."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import psycopg

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.conversations.errors import ConversationsError, UnreadableEvent
from agentchat.ops import environment
from agentchat.ops.errors import RefusedError, SetupError, StackError, StoppedError
from agentchat.runtime.postgres import DatabaseUnavailable, Pool, connect_options, open_pool

if TYPE_CHECKING:
    from agentchat.conversations.application import ConversationLog

DATABASE_URL = "AGENTCHAT_DATABASE_URL"
T = TypeVar("T")
_OLD_TABLES = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)


async def check_reachable(url: str) -> None:
    """Connect once, since a pool would retry without reporting the reason. Raises StackError."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **connect_options(url))
    except psycopg.OperationalError as error:
        raise StackError(f"the database cannot be reached: {error}") from None
    except psycopg.Error as error:
        raise SetupError(f"{DATABASE_URL} cannot be used: {error}") from None
    await connection.close()


@contextlib.contextmanager
def translate_database_errors() -> Iterator[None]:
    """Turn the database's errors in the block into StackErrors of one line."""
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its errors are reported here, once
    try:
        yield
    except DatabaseUnavailable as error:
        raise StackError(f"the database does not answer: {error}") from None
    except _OLD_TABLES:
        raise SetupError("the database's tables are missing or old: run `agentchat migrate`") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise StackError(f"the database user lacks the right: {error.diag.message_primary}") from None


class NoneSuchError(StackError):
    """The thing that the command names does not exist."""

    exit_code = 2


def run_with_pool(work: Callable[[str, Pool], Awaitable[T]], *, stopped: str = "stopped") -> T:
    """Run `work` with the database's address and a pool; return its result. Raises StackError.

    `stopped` is the message after Ctrl-C.
    """
    with _translate_errors(stopped):
        return asyncio.run(_run(work))


def read_log(work: Callable[["ConversationLog"], T]) -> T:
    """Run `work` with the log and return its result. Raises StackError.

    It runs outside an event loop, so that Ctrl-C ends it.
    """
    from agentchat.conversations.application import ConversationLog

    with _translate_errors("stopped"):
        url = find_database_url()
        asyncio.run(check_reachable(url))
        with ConversationLog({DATABASE_URL: url}) as log:
            return work(log)


@contextlib.contextmanager
def _translate_errors(stopped: str) -> Iterator[None]:
    try:
        with translate_database_errors():
            yield
    except KeyboardInterrupt:
        raise StoppedError(stopped) from None
    except UnreadableEvent as error:
        raise StackError(f"an event in the log cannot be read: {error}") from None
    except ConversationsError as error:
        raise StackError(str(error)) from None


def find_database_url() -> str:
    """Return the database's address from the environment, or the running stack's. Raises NotRunningError."""
    own = environment.get_variable(os.environ, DATABASE_URL)
    return own or environment.load(elsewhere=f"; for another database set {DATABASE_URL}").database_url


async def _run(work: Callable[[str, Pool], Awaitable[T]]) -> T:
    url = find_database_url()
    await check_reachable(url)
    async with open_pool(url) as pool:
        return await work(url, pool)


_SECONDS = 8.0


@contextlib.asynccontextmanager
async def connect_bus(url: str, name: str) -> AsyncIterator[Bus]:
    """Connect to NATS within 8 s. Raises RefusedError."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(_SECONDS):
                bus = await stack.enter_async_context(Bus.connect(url, name=name))
        except (TimeoutError, BusUnavailable):
            raise RefusedError("NATS cannot be reached") from None
        yield bus
