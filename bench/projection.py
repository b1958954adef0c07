"""Read models followed by 1, 2, 4 and 8 processes that share the shards of accounts.

Of each number: how fast they catch up with a log that is there, and how far they lag behind chats that are
appended at a steady rate, by connections whose commits take 0, 1 and 3 ms (`commit_delay`). A process here
follows read models as a projector does, without what one does for all. Six minutes.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
from msgspec.structs import replace

from bench.appends import FOLDER, made, server, url_of
from bench.histories import copy_in, events_of, row
from bench.processes import Pids, cpu_seconds, serving, since
from bench.report import AddRow
from contracts import events
from contracts.ids import new_id
from conversations.database import EVENTS_TABLE
from conversations.event_store import mapper
from conversations.event_store.log import Log
from conversations.event_store.shared_log import SharedLog
from conversations.event_store.store import open_store
from conversations.migrations import migrate
from conversations.projections.follower import Follower
from conversations.projections.log_cursors import lock_positions
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.shards import SHARDS
from conversations.shard_leases import ShardLeases, holders
from projector.log_follower import LogFollower
from runtime.postgres import Pool, connection, open_pool

PROCESSES = (1, 2, 4, 8)
DELAYS_MS = (0, 1, 3)
CHATS = 6_000
RATE = 100
_EVENTS_OF_A_CHAT = 6
_ACCOUNTS = 500
_WRITERS = 8
_WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.005
_CATCH_UP = f"read models of {CHATS:,} chats that are in the log, brought up to it"
_LAG = f"read models behind {RATE} chats a second"
_CATCH_UP_COLUMNS = ("processes", "events a second", "CPU, ms a chat: processes", "the server")
_LAG_COLUMNS = (
    *("processes", "a commit", "chats a second"),
    *("lag, ms: p50", "p99", "most", "CPU, ms a chat: processes", "the server"),
)
_REACHED = "SELECT coalesce(min(position), 0) FROM read_model_positions"


async def measure(add: AddRow, only: str, seconds: float) -> None:
    """All of it, or the part whose name contains `only`: `catch-up`, `lag`. Raises psycopg.Error."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        with server(folder) as pid:
            url = made(folder, "projection")
            await migrate(url)
            async with open_pool(url) as pool:
                _append(url, CHATS)
                await Follower(pool, Log(pool), PROJECTIONS, batch=1).step()
                for processes in PROCESSES:
                    async with _following(url, pool, processes) as pids:
                        pids = {**pids, "server": pid}
                        if only in "catch-up":
                            found = await _caught_up(url, pool, pids)
                            add(_CATCH_UP, _CATCH_UP_COLUMNS, str(processes), *found)
                        for delay in DELAYS_MS if only in "lag" else ():
                            delayed = url_of(folder, "projection", f"-c commit_delay={delay * 1000}")
                            found = await _lagging(delayed, pool, pids, seconds)
                            add(_LAG, _LAG_COLUMNS, str(processes), f"{delay} ms", *found)


@contextlib.asynccontextmanager
async def _following(url: str, pool: Pool, processes: int) -> AsyncIterator[dict[str, int]]:
    """So many processes, when all have their part of the shards and are at the end of the log."""
    async with contextlib.AsyncExitStack() as stack:
        names = [f"projector-{number}" for number in range(1, processes + 1)]
        commands = [(sys.executable, "-m", "bench.projection", url, name) for name in names]
        started = [await stack.enter_async_context(serving(*command)) for command in commands]
        async with asyncio.timeout(_WAIT_SECONDS):
            while [len(each.shards) for each in await holders(pool)] != [SHARDS // processes] * processes:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(_POLL_SECONDS)
        await _reached(pool, await Log(pool).head())
        yield {name: each.pid for name, each in zip(names, started, strict=True)}


async def _caught_up(url: str, pool: Pool, pids: Pids) -> tuple[str, ...]:
    tables = ", ".join(each.name for each in PROJECTIONS)
    async with connection(pool) as conn, conn.transaction():
        await lock_positions(conn)
        await conn.execute(f"TRUNCATE {tables}".encode())
        await conn.execute("UPDATE projection_cursors SET position = 0")
        count = await (await conn.execute(f"SELECT count(*) FROM {EVENTS_TABLE}".encode())).fetchone()
    assert count is not None, "an aggregate gives one row"
    before, began = cpu_seconds(pids), time.perf_counter()
    _append(url, 1)  # they find their positions gone
    await _reached(pool, await Log(pool).head())
    took = time.perf_counter() - began
    return f"{count[0] / took:,.0f}", *_cpu(before, pids, count[0] / _EVENTS_OF_A_CHAT)


async def _lagging(url: str, pool: Pool, pids: Pids, seconds: float) -> tuple[str, ...]:
    before, began, lags = cpu_seconds(pids), time.perf_counter(), list[float]()
    appending = asyncio.create_task(_appended(url, seconds))
    log = Log(pool)
    while not appending.done():
        seen, head = time.perf_counter(), await log.head()
        await _reached(pool, head)
        lags.append((time.perf_counter() - seen) * 1000)
    chats = await appending
    lags.sort()
    quantiles = (lags[int(len(lags) * share)] for share in (0.5, 0.99))
    rate = chats / (time.perf_counter() - began)
    most = f"{lags[-1]:.0f}"
    return f"{rate:.0f}", *(f"{each:.0f}" for each in quantiles), most, *_cpu(before, pids, chats)


def _cpu(before: dict[str, float], pids: Pids, chats: float) -> tuple[str, str]:
    used = since(before, cpu_seconds(pids))
    of_server = used.pop("server")
    return f"{sum(used.values()) / chats * 1000:.2f}", f"{of_server / chats * 1000:.2f}"


async def _reached(pool: Pool, head: int) -> None:
    async with asyncio.timeout(_WAIT_SECONDS):
        while True:
            async with connection(pool) as conn:
                row = await (await conn.execute(_REACHED)).fetchone()
            if row and row[0] >= head:
                return
            await asyncio.sleep(_POLL_SECONDS)


def _chat(number: int) -> list[events.Event]:
    first, *others = events_of(2)
    assert isinstance(first, events.ConversationStarted)
    return [replace(first, account_id=f"account-{number % _ACCOUNTS}"), *others]


def _append(url: str, chats: int) -> None:
    made = ((new_id(), _chat(number)) for number in range(chats))
    with psycopg.connect(url) as conn:
        copy_in(conn, (row(id_, *each) for id_, chat in made for each in enumerate(chat, start=1)))
        conn.execute(f"NOTIFY {EVENTS_TABLE}".encode())


async def _appended(url: str, seconds: float) -> int:
    """At RATE, by so many connections as there are writers, each as an orchestrator's; returns how many."""
    due = iter(range(int(RATE * seconds)))
    began = time.perf_counter()

    async def writing() -> int:
        count = 0
        async with open_store(url) as store:
            for number in due:
                await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
                await store.append_stored(new_id(), 0, mapper.stored(_chat(number)))
                count += 1
        return count

    return sum(await asyncio.gather(*(writing() for _ in range(_WRITERS))))


async def _follow(url: str, name: str) -> None:
    async with open_pool(url, durable=False) as pool:
        log = SharedLog(pool)
        follower = Follower(pool, log, PROJECTIONS, reset=False)
        following = LogFollower("read models", follower.step, follower.batch)

        def notify() -> None:
            log.appended()
            following.wake()

        async def lead() -> None:
            await asyncio.Event().wait()

        leases = ShardLeases(url, name, channel=EVENTS_TABLE, notify=notify, hold=follower.hold)
        sys.stdout.write("0\n")
        sys.stdout.flush()
        await leases.run(following.run, lead)


if __name__ == "__main__":
    asyncio.run(_follow(*sys.argv[1:]))
