"""What a projection is: tables, a version, and a function from facts of the log to changes of them."""

from collections.abc import Callable, Collection, Sequence

import msgspec

from contracts import events, wire


class LoggedFact(msgspec.Struct, frozen=True):
    """An event with its place in the log, the account of its conversation, and its bytes as stored."""

    position: int
    conversation_id: str
    account_id: str
    event: events.Event
    size: int


Statement = tuple[str, Sequence[object]]
"""SQL with `%s` for its parameters, and these."""

Changes = Callable[[Sequence[LoggedFact]], list[Statement]]


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One read model, in the table that has its name, with a primary key and a column `conversation_id`.

    `tables` is the SQL that makes it, by names without a schema; the migration that made it first keeps the
    text of that time. `changes` gets facts in log order, each once, of the types that it `takes`. What it
    gives runs in the transaction that also stores the position, and calls the table by its bare name. It is
    pure, and may raise UnicodeError. Copies that a fork has of events are given only to one that
    `takes_inherited`. A new `version`, of the table or of what is in it, has it rebuilt
    next to the old one (`rebuilding`).
    """

    name: str
    version: int
    tables: str
    takes: frozenset[type[events.Fact]]
    takes_inherited: bool = False
    changes: Changes


def put(statement: str, rows: Sequence[object]) -> list[Statement]:
    """`statement` once for all `rows`, its one parameter: a JSON array, to be read by json_to_recordset.

    A statement a batch is several times as fast as one a row.
    """
    return [(statement, (wire.encode(rows).decode(),))] if rows else []


def remove(statement: str, ids: Collection[str]) -> list[Statement]:
    """`statement` once for all `ids`, its one parameter."""
    return [(statement, (list(ids),))] if ids else []
