"""A system's database for a command: the first try of it, and what is wrong with it in one line."""

import contextlib
import logging
from collections.abc import Iterator

import psycopg

from ops.errors import SetupError, StackError
from runtime.postgres import DatabaseUnavailable, connect_options

DATABASE_URL = "AGENTCHAT_DATABASE_URL"
_OLD_TABLES = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)


async def reached(url: str) -> None:
    """Connect once: a pool would go on trying, and not say what is wrong. Raises StackError, SetupError."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **connect_options(url))
    except psycopg.OperationalError as error:
        raise StackError(f"the database cannot be reached: {error}") from None
    except psycopg.Error as error:
        raise SetupError(f"{DATABASE_URL} cannot be used: {error}") from None
    await connection.close()


@contextlib.contextmanager
def failures_in_one_line() -> Iterator[None]:
    """Raises StackError for what the database does not allow or answer."""
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # what it says is said here, once
    try:
        yield
    except DatabaseUnavailable as error:
        raise StackError(f"the database does not answer: {error}") from None
    except _OLD_TABLES:
        raise SetupError("the database's tables are missing or old: run `agentchat migrate`") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise StackError(f"the database's user may not do that: {error.diag.message_primary}") from None
