"""Define projections: a table, and a function from facts of the log to its changes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import LiteralString

import msgspec

from agentchat.contracts import events, wire


class LoggedFact(msgspec.Struct, frozen=True):
    """An event with its place in the log, the account of its conversation, and its bytes as stored."""

    position: int
    conversation_id: str
    account_id: str
    event: events.Event
    size: int


Statement = tuple[str, Sequence[object]]
"""SQL with `%s` for its parameters, and the parameters."""

Changes = Callable[[Sequence[LoggedFact]], list[Statement]]


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """A second table, which sums up the rows of a read model.

    `changes` of the read model keep it up to date. `query` is a SELECT of all its rows, in the order of its
    columns, from the read model: a placeholder in braces, by its name.
    """

    table: str
    query: LiteralString


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One read model, in the table that has its name, with a primary key and a column `conversation_id`.

    `tables` is the SQL that makes it, by names without a schema. `changes` gets facts in log order, each
    once, of the types that it `takes`, and returns statements that call the table by its bare name; it is
    pure, and may raise UnicodeError. Only a model that `takes_inherited` gets the copies that a fork has of
    events. Rows of a conversation go when it is erased, unless the model `keeps_erased`: then its `changes`
    say what goes. A change of the table, or of its content, is a new read model: its name ends in the version
    (`runs_2`), a migration makes its table, and readers of that release use it.
    """

    name: str
    tables: str
    takes: frozenset[type[events.Fact]]
    takes_inherited: bool = False
    keeps_erased: bool = False
    changes: Changes
    sums: Sums | None = None

    def build_statements(self, facts: Sequence[LoggedFact]) -> list[Statement]:
        """Return the statements that apply these facts to the table. Raises UnicodeError."""
        if self.keeps_erased:
            return self.changes(facts)
        # Nothing follows an erasure, so the other facts of its conversation precede it.
        erased = {each.conversation_id for each in facts if isinstance(each.event, events.ConversationErased)}
        present = [fact for fact in facts if fact.conversation_id not in erased]
        delete = f"DELETE FROM {self.name} WHERE conversation_id = ANY(%s)"  # noqa: S608 - a name of ours
        return [*self.changes(present), *remove(delete, erased)]


def insert(table: str, columns: str, on_conflict: str, *, computed: Mapping[str, str] | None = None) -> str:
    """Return the SQL by which `put` adds rows.

    `columns` are names and types, `kept` is an existing row, `new` one to add. `computed` has the SQL of
    columns that the rows lack.
    """
    more = computed or {}
    names = ", ".join([*(column.split()[0] for column in columns.split(",")), *more])
    values = ", ".join(["new.*", *more.values()])
    rows = f"SELECT {values} FROM json_to_recordset(%s) AS new({columns})"  # noqa: S608 - as above
    return f"INSERT INTO {table} AS kept ({names}) {rows} ON CONFLICT {on_conflict}"


def put(statement: str, rows: Sequence[object]) -> list[Statement]:
    """Return `statement` once for all `rows`, its one parameter.

    A JSON array for json_to_recordset. One statement a batch is several times as fast as one a row.
    """
    return [(statement, (wire.encode(rows).decode(),))] if rows else []


def remove(statement: str, ids: Collection[str]) -> list[Statement]:
    """Return `statement` once for all `ids`, its one parameter."""
    return [(statement, (list(ids),))] if ids else []
