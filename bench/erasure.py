"""`python -m bench.erasure [EVENTS ...]`: deletes long conversations next to another account's appends."""

import asyncio
import sys
import time
from itertools import islice

import psycopg
from rich.console import Console

from bench.histories import copy_in, events_of, row
from bench.replay.lag import followed, projector
from bench.report import Table
from bench.show import show
from bench.statistics import share
from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.erased_rows import unfinished_erasures
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore, open_store
from conversations.queries.spent_by_runs import spent_by_runs
from ops import demo
from ops.prepare import migrate
from runtime.postgres import Pool, open_pool
from tests.harness import embedded_servers

SIZES = (60_000, 180_000, 300_000, 1_000_000)
_IDLE_SECONDS = 10.0
_EVERY_SECONDS = 0.01
_LONG_SECONDS = 900.0
_CHUNK = 20_000
_AT = "2026-11-21T09:00:00.000000Z"


class Appends:
    """One of an account every 10 ms, each after the one before; `seconds` has how long each took."""

    def __init__(self, store: ConversationStore) -> None:
        self.seconds: list[float] = []
        self._store = store

    async def run(self) -> None:
        """Until cancelled."""
        began = events.ConversationStarted(trace_id=new_id(), at=_AT, account_id="account-1")
        thread = await self._store.append(Conversation(conversation_id=new_id()), [began])
        while True:
            asked = time.monotonic()
            described = events.ConversationDescribed(trace_id=new_id(), at=_AT, title="A title.")
            thread = await self._store.append(thread, [described])
            self.seconds.append(time.monotonic() - asked)
            await asyncio.sleep(max(0.0, asked + _EVERY_SECONDS - time.monotonic()))

    def taken(self) -> str:
        """p50, p99 and the worst since this was called before, in milliseconds."""
        found, self.seconds = sorted(self.seconds), []
        return " / ".join(f"{1000 * each:.1f}" for each in (share(found, 0.5), share(found, 0.99), found[-1]))


def main() -> None:
    """A million events take some five minutes, most of them to be written."""
    sizes = [int(each) for each in sys.argv[1:]] or SIZES
    rows = asyncio.run(_main(sizes))
    title = "another account's appends, p50 / p99 / worst in ms; Postgres without durability"
    show(Console(), [Table(title, ("events", "idle", "deleting", "tombstone", "rows", "read models"), rows)])


async def _main(sizes: list[int] | tuple[int, ...]) -> list[tuple[str, ...]]:
    async with embedded_servers() as servers:
        url = servers.database_url
        await migrate(url)
        async with (
            projector(servers),
            open_pool(url) as pool,
            open_store(url) as store,
            open_store(url) as deleting,
        ):
            return [await _measured(url, pool, store, deleting, size) for size in sizes]


async def _measured(
    url: str, pool: Pool, store: ConversationStore, deleting: ConversationStore, size: int
) -> tuple[str, ...]:
    conversation_id = await asyncio.to_thread(_fill, url, size)
    await followed(pool, _LONG_SECONDS)
    appends = Appends(store)
    appending = asyncio.create_task(appends.run())
    await asyncio.sleep(_IDLE_SECONDS)
    idle, began = appends.taken(), time.monotonic()
    await _erase(pool, deleting, conversation_id)
    tombstone = time.monotonic() - began
    while any(each.rows_left for each in await unfinished_erasures(pool, limit=1)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    rows = time.monotonic() - began
    await _cleared(pool, conversation_id)
    read_models = time.monotonic() - began
    await asyncio.sleep(max(0.0, began + _IDLE_SECONDS - time.monotonic()))
    busy = appends.taken()
    appending.cancel()
    await asyncio.gather(appending, return_exceptions=True)
    return f"{size:,}", idle, busy, f"{tombstone:.2f} s", f"{rows:.1f} s", f"{read_models:.1f} s"


def _fill(url: str, size: int) -> str:
    conversation_id = new_id()
    rows = (row(conversation_id, *each) for each in islice(enumerate(events_of(size), start=1), size))
    with psycopg.connect(url, autocommit=True) as conn:
        for _ in range(0, size, _CHUNK):
            copy_in(conn, islice(rows, _CHUNK))
        conn.execute("ANALYZE")
    return conversation_id


async def _erase(pool: Pool, store: ConversationStore, conversation_id: str) -> None:
    log, account_id = Log(pool), demo.LOAD_ACCOUNT_ID
    conversation = await log.newest_run(conversation_id)
    spent = await spent_by_runs(pool, log, conversation_id, account_id)
    erased = events.ConversationErased(trace_id=new_id(), at=_AT, account_id=account_id, spent=spent)
    await store.append(conversation, [erased])


async def _cleared(pool: Pool, conversation_id: str) -> None:
    """Until its messages are no longer in the read model."""
    left = True
    while left:
        async with pool.connection() as conn:
            query = "SELECT EXISTS (SELECT FROM messages WHERE conversation_id = %s)"
            left = await (await conn.execute(query, [conversation_id])).fetchone() == (True,)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    main()
