"""The first try of a system's database: a pool would go on trying, and not say what is wrong."""

import psycopg

from ops.errors import SetupError, StackError
from runtime.postgres import connect_options

DATABASE_URL = "AGENTCHAT_DATABASE_URL"


async def reached(url: str) -> None:
    """Connect once. Raises StackError, SetupError."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **connect_options(url))
    except psycopg.OperationalError as error:
        raise StackError(f"the database cannot be reached: {error}") from None
    except psycopg.Error as error:
        raise SetupError(f"{DATABASE_URL} cannot be used: {error}") from None
    await connection.close()
