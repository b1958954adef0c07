"""What a projection is: tables, a version, and a function that brings facts of the log into them."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from contracts import events
from runtime.postgres import Connection


class LoggedFact(msgspec.Struct, frozen=True):
    """An event with its place in the log and the account that its conversation belongs to."""

    position: int
    conversation_id: str
    account_id: str
    event: events.Event


Apply = Callable[[Connection, Sequence[LoggedFact]], Awaitable[None]]


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One read model, in the table that has its name; `tables` is the SQL of its first migration.

    A new `version` has it built anew from the log. `apply` gets facts in log order, each once, inside the
    transaction that also stores the position.
    """

    name: str
    version: int
    tables: str
    apply: Apply
