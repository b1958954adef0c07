"""The steps of a move. At each moment one cell at most takes requests of the account; each can be repeated.

1. Its conversations are imported there, while it is served here.
2. The account is closed: its requests get 503 and Retry-After. What was accepted before comes to its end: a
   request may begin for ACCEPT_SECONDS, one that waits in line when its turn comes.
3. What has changed since is imported, and the read models there come to its end.
4. Its other rows are copied in one transaction: from its commit on that cell serves it.
5. This cell answers 421 for it. Its copy of the data stays until the account is deleted here.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from contracts.events import ConversationErased
from contracts.timings import ACCEPT_SECONDS
from conversations.archive.recalls import has_archive
from conversations.database import MOVE_LOCK
from conversations.errors import ArchiveNotGiven
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore, open_store
from conversations.queries import find_run
from conversations.queries.under_way import read_models
from conversations.transfer import moving
from conversations.transfer.file_format import Carried, FileEvent
from directory import account_cells
from directory.secrets import Sealer
from ops.archive_folder import log_of
from ops.cells.account_rows import check_keys, copy_rows
from ops.errors import StackError
from runtime.postgres import CALL_SECONDS, Connection, Pool, connection, open_pool

LATE_SECONDS = 2 * CALL_SECONDS
"""A request counts its deadline from a look-up that may have taken so long, and the append by which its run
begins just before the deadline too.
"""
LOOK_SECONDS = 0.25
CAUGHT_UP_SECONDS = 120.0
_LONG_SECONDS = 3600.0
_HELD_SECONDS = 30 * 24 * 3600.0
_UNBOUNDED = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """`rows` by table; `closed_seconds`: how long the account was served nowhere."""

    account_id: str
    cell: str
    conversations: int
    events: int
    rows: dict[str, int]
    closed_seconds: float


class AccountMove:
    """Of one account from `source` to `target`, whose owners the pools act as; `cell` names the latter."""

    def __init__(
        self, source: Pool, target: Pool, store: ConversationStore, account_id: str, *, cell: str
    ) -> None:
        self._source = source
        self._target = target
        self._store = store
        self._account_id = account_id
        self._cell = cell
        self._log = log_of(source)

    async def run(self, sealer: Sealer, *, wait_seconds: float, report: Callable[[str], None]) -> Moved:
        """All steps; of a move that was broken off those that are left.

        Raises StackError: the account is as before where it cannot be moved, or its runs do not end within
        `wait_seconds`; after that it stays closed until the move is repeated or undone.
        """
        await self._check(sealer)
        begin = await self._log.settled()
        ids = [each async for each in find_run.all_ids(self._log, self._account_id)]
        events = await self._import(ids)
        report(f"{len(ids):,} conversations: {events:,} events imported")
        await self._close()
        report("closed; waiting for what was accepted before")
        await self._drain(wait_seconds)
        changed = await self._changed_since(begin)
        events += await self._import(changed, complete=True)
        report(f"{len(changed):,} conversations had changed")
        await self._catch_up()
        rows = await self._open()
        return Moved(
            account_id=self._account_id,
            cell=self._cell,
            conversations=len({*ids, *changed}),
            events=events,
            rows=rows,
            closed_seconds=round(await self._point(), 1),
        )

    async def undo(self) -> None:
        """Serve the account here again. Raises StackError where it is not closed, or is there already."""
        async with connection(self._source) as conn, connection(self._target) as there:
            if await account_cells.state_of(conn, self._account_id) != "moving":
                raise StackError("the account is not being moved")
            if await account_cells.state_of(there, self._account_id) != "unknown":
                raise StackError(
                    "the account is served by the other cell already: repeat the move to its end"
                )
            async with conn.transaction():
                await account_cells.reopen(conn, self._account_id)

    async def _check(self, sealer: Sealer) -> None:
        if not self._log.reads_archive and await has_archive(self._source):
            raise StackError(str(ArchiveNotGiven()))
        async with connection(self._source) as conn, connection(self._target) as there:
            here = await account_cells.state_of(conn, self._account_id)
            if here not in ("here", "moving"):
                reason = {"unknown": "there is no such account", "moved": "it has left this cell"}
                raise StackError(reason.get(here, "it is disabled: enable it first"))
            found = await account_cells.state_of(there, self._account_id)
            if found == "moved" or (found != "unknown" and here == "here"):
                raise StackError("the other cell has an account of this id: delete it there first")
            await check_keys(conn, self._account_id, sealer)

    async def _close(self) -> None:
        async with connection(self._source) as conn, conn.transaction():
            if await account_cells.state_of(conn, self._account_id) == "here":
                await account_cells.close(conn, self._account_id)

    async def _drain(self, wait_seconds: float) -> None:
        """Until nothing of the account is under way. Raises StackError, and the account is open again."""
        async with connection(self._source, seconds=_LONG_SECONDS) as conn:
            closed = await self._closed_seconds(conn)
            await asyncio.sleep(max(0.0, ACCEPT_SECONDS + LATE_SECONDS - closed))
            end = asyncio.get_running_loop().time() + wait_seconds
            while open_runs := await self._under_way(conn):
                if asyncio.get_running_loop().time() > end:
                    async with conn.transaction():
                        await account_cells.reopen(conn, self._account_id)
                    raise StackError(
                        f"after {wait_seconds:g} s these runs have no end: {', '.join(open_runs)}; "
                        "the account stays here. What was imported there is completed by the next move"
                    )
                await asyncio.sleep(LOOK_SECONDS)

    async def _closed_seconds(self, conn: Connection) -> float:
        cursor = await conn.execute(_CLOSED_FOR, [self._account_id])
        row = await cursor.fetchone()
        assert row is not None, "it was closed"
        return float(row[0])

    async def _under_way(self, conn: Connection) -> list[str]:
        """The runs that wait in line or have begun. A run leaves the line as it begins: so the line is read
        first, and then a read model that has all that had begun by then.
        """
        given = {"account": self._account_id}
        waiting = await (await conn.execute(_IN_LINE, given)).fetchall()
        begun = await conn.execute(_BEGUN, given | {"head": await self._log.head()})
        return [trace_id for (trace_id,) in [*waiting, *await begun.fetchall()]]

    async def _changed_since(self, position: int) -> list[str]:
        async with connection(self._source, seconds=_LONG_SECONDS) as conn:
            rows = await (await conn.execute(_CHANGED, [position])).fetchall()
        changed = [conversation_id for (conversation_id,) in rows]
        accounts = await self._log.accounts_of(changed)
        return [each for each in changed if accounts.get(each) == self._account_id]

    async def _import(self, conversation_ids: Sequence[str], *, complete: bool = False) -> int:
        """Returns how many events were new there. Runs under way are left out, of which none may be where it
        is to be `complete`.
        """
        events = 0
        for conversation_id in conversation_ids:
            found = await moving.outgoing(self._log, conversation_id)
            if found.left and complete:
                raise StackError(f"a run of conversation {conversation_id} is under way: repeat the move")
            if found.entries:
                events += await self._bring(found)
        return events

    async def _bring(self, found: moving.Outgoing) -> int:
        """Store what is not there yet; returns how many events."""
        first = found.entries[0]
        carried = Carried(
            line=0,
            conversation_id=first.conversation_id,
            account_id=self._account_id,
            agents=frozenset(),
            stored=tuple(FileEvent(each.version, each.topic, each.state) for each in found.entries),
        )
        if isinstance(first.event, ConversationErased):
            return await self._erase(carried)
        move = await moving.planned(self._target, carried)
        if move.kind != "present":
            await moving.bring(self._store, carried, move)
        return sum(each.version > move.have for each in carried.stored)

    async def _erase(self, carried: Carried) -> int:
        """A conversation that was erased, perhaps after an earlier try has brought its events."""
        (tombstone,) = carried.stored
        there = await Log(self._target).rows(carried.conversation_id)
        if there and isinstance(there[0].event, ConversationErased):
            return 0
        version = there[-1].version if there else tombstone.version - 1
        await self._store.append_stored(
            carried.conversation_id, version, [(tombstone.topic, tombstone.state)]
        )
        return 1

    async def _catch_up(self) -> None:
        """Until the read models there have what was imported. Raises StackError."""
        head = await Log(self._target).head()
        end = asyncio.get_running_loop().time() + CAUGHT_UP_SECONDS
        while any(each.position < head for each in await read_models(self._target)):
            if asyncio.get_running_loop().time() > end:
                raise StackError("the other cell's read models lag: see to its projectors, then repeat")
            await asyncio.sleep(LOOK_SECONDS)

    async def _open(self) -> dict[str, int]:
        seconds = _LONG_SECONDS
        async with (
            connection(self._source, seconds=seconds) as conn,
            connection(self._target, seconds=seconds) as there,
            there.transaction(),
        ):
            if await account_cells.state_of(there, self._account_id) != "unknown":
                return {}
            return await copy_rows(conn, there, self._account_id)

    async def _point(self) -> float:
        async with connection(self._source) as conn:
            closed = await self._closed_seconds(conn)
            await account_cells.point_to(conn, self._account_id, self._cell)
            return closed


@contextlib.asynccontextmanager
async def opened(source_url: str, target_url: str, account_id: str, cell: str) -> AsyncIterator[AccountMove]:
    """A move between two databases, each named as its owner.

    Raises StackError where another command is at work on the account: one that undoes a move just before
    the other opens the account would leave it open in both cells.
    """
    async with (
        open_pool(source_url, role=None, options=_UNBOUNDED) as source,
        open_pool(target_url, role=None, options=_UNBOUNDED) as target,
        open_store(target_url) as store,
        _alone(source, account_id),
    ):
        yield AccountMove(source, target, store, account_id, cell=cell)


@contextlib.asynccontextmanager
async def _alone(source: Pool, account_id: str) -> AsyncIterator[None]:
    async with connection(source, seconds=_HELD_SECONDS) as conn:
        if await (await conn.execute(_LOCK, [MOVE_LOCK, account_id])).fetchone() != (True,):
            raise StackError("another command is moving the account")
        try:
            yield
        finally:
            await conn.execute("SELECT pg_advisory_unlock_all()")


_LOCK = "SELECT pg_try_advisory_lock(%s, hashtext(%s))"

_CLOSED_FOR = """
SELECT extract(epoch FROM clock_timestamp() - since)::float8 FROM account_cells WHERE account_id = %s
"""

_IN_LINE = """
SELECT trace_id FROM waiting_line WHERE account_id = %(account)s AND expires_at > clock_timestamp()
"""

_BEGUN = """
SELECT trace_id FROM open_runs WHERE account_id = %(account)s
 UNION ALL
SELECT '(the read model open_runs is behind)' FROM read_model_positions
 WHERE name = 'open_runs' HAVING min(position) < %(head)s
"""

_CHANGED = "SELECT DISTINCT originator_id FROM conversation_events WHERE notification_id > %s ORDER BY 1"
