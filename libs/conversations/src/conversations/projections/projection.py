"""What a projection is: tables, a version, and a function that brings facts of the log into them."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from contracts import events, wire
from runtime.postgres import Connection


class LoggedFact(msgspec.Struct, frozen=True):
    """An event with its place in the log and the account that its conversation belongs to."""

    position: int
    conversation_id: str
    account_id: str
    event: events.Event


Apply = Callable[[Connection, Sequence[LoggedFact]], Awaitable[None]]


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One read model, in the table that has its name, with a primary key and a column `conversation_id`.

    `tables` is the SQL that makes it, by names without a schema; the migration that made it first keeps the
    text of that time. `apply` gets facts in log order, each once, of the types that it `takes`, inside the
    transaction that also stores the position; it finds the table by its bare name. A new `version`, of the
    table or of what is in it, has it built anew beside the old one (`rebuilding`).
    """

    name: str
    version: int
    tables: str
    takes: frozenset[type[events.Fact]]
    apply: Apply


async def put(conn: Connection, statement: str, rows: Sequence[object]) -> None:
    """Run `statement` once for all `rows`, its one parameter: a JSON array, to be read by json_to_recordset.

    A statement a batch is several times as fast as one a row.
    """
    if rows:
        await conn.execute(statement, [wire.encode(rows).decode()])
