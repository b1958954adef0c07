"""Appends to the log by several writers, in the form of release 0.9.0 and in today's, in turns.

A writer is a connection that appends all the time, as each orchestrator has one; the clients are pgbench's,
which cost next to nothing. The data is in memory; what a commit takes is `commit_delay`, for which Postgres
sleeps before it flushes. Then another account's appends while a long conversation is deleted. Ten minutes.
"""

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo

import conversations.migrations
from bench.histories import copy_in, events_of, row
from bench.processes import cpu_seconds, since
from bench.report import AddRow
from contracts import events
from contracts.ids import new_id
from conversations.database import EVENTS_TABLE, listen, notifications, open_session
from conversations.erased_rows import erase_piece
from conversations.event_store import mapper
from conversations.event_store.store import ConversationStore, open_store
from ops.servers.server_files import postgres_install, settings_file
from runtime.migrations import apply, migrating
from runtime.postgres import open_pool

WRITERS = (1, 2, 4, 8, 16)
DELAYS_MS = (0, 1, 3)
DELETED = 300_000
_ROUNDS = 2
_BIN = postgres_install() / "bin"
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
_MESSAGES = 2
"""A chat's: its events are appended at once."""
_START_SECONDS = 30.0
_BETWEEN_PIECES_SECONDS = 0.01
_BETWEEN_APPENDS_SECONDS = 0.005
_AT = "2026-11-21T09:00:00.000000Z"
_TITLE = "one chat's events appended by so many writers: ms of each append, ms of the server's CPU"
_FIGURES = ("a second", "p50", "p99", "CPU")
_COLUMNS = (
    *("a commit", "writers"),
    *(f"{form}: {figure}" for form in ("0.9.0", "now") for figure in _FIGURES),
    "now / 0.9.0",
)
_DELETION_COLUMNS = ("another account's append, ms", "p50", "p99", "most")

_APPEND = """SELECT FROM (SELECT gen_random_uuid()::text AS id) AS new, append_events(
    15, 10, 1, ARRAY[id], ARRAY[0]::bigint[],
    ARRAY[NULL], ARRAY[NULL], ARRAY[NULL]::float8[], ARRAY[NULL], NULL,
    array_fill(id, ARRAY[{count}]), ARRAY(SELECT generate_series(1, {count})::bigint), ARRAY[{topics}],
    ARRAY(SELECT convert_to(replace(state, '{trace}', replace(id, '-', '')), 'UTF8')
            FROM unnest(ARRAY[{states}]) WITH ORDINALITY AS of (state, place) ORDER BY place));
"""
_NOTIFIED = f"\\startpipeline\n{{append}}\\syncpipeline\nNOTIFY {EVENTS_TABLE};\n\\endpipeline\n"


_COLON = "\\x3a"
"""As it is no variable of pgbench's."""


class Times(msgspec.Struct, frozen=True):
    """Milliseconds of each append, in order of size; how many there were a second; what the server used."""

    sorted_ms: list[float]
    rate: float
    cpu_ms: float

    def at(self, share: float) -> float:
        """The quantile."""
        return self.sorted_ms[min(int(len(self.sorted_ms) * share), len(self.sorted_ms) - 1)]


async def measure(add: AddRow, only: str, seconds: float, rounds: int | None) -> None:
    """All of it, or the part whose name contains `only`. Raises psycopg.Error, subprocess.SubprocessError."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = Path(name)
        with server(folder) as pid:
            if only in "writers":
                await _measure_writers(folder, pid, add, seconds, rounds or _ROUNDS)
            if only in "deletion":
                await _measure_deletion(folder, add)


async def _measure_writers(folder: Path, server: int, add: AddRow, seconds: float, rounds: int) -> None:
    append = _append()
    scripts = {"released": folder / "released.sql", "now": folder / "now.sql"}
    scripts["released"].write_text(append)
    scripts["now"].write_text(_NOTIFIED.format(append=append))
    urls = [made(folder, name) for name in scripts]
    async with migrating(urls[0]) as conn:
        await apply(conn, "conversations", conversations.migrations.STEPS[:1])
    await conversations.migrations.migrate(urls[1])
    async with _listening(urls):
        for delay in DELAYS_MS:
            for writers in WRITERS:
                times: dict[str, list[Times]] = {name: [] for name in scripts}
                for _ in range(rounds):
                    for name, script in scripts.items():
                        found = await asyncio.to_thread(
                            _run, folder, server, name, script, writers, delay, seconds
                        )
                        times[name].append(found)
                add(_TITLE, _COLUMNS, f"{delay} ms", str(writers), *_cells(times["released"], times["now"]))


def _cells(released: Sequence[Times], now: Sequence[Times]) -> Iterator[str]:
    for each in (released, now):
        yield f"{statistics.median(times.rate for times in each):,.0f}"
        for share in (0.5, 0.99):
            yield f"{statistics.median(times.at(share) for times in each):.1f}"
        yield f"{statistics.median(times.cpu_ms for times in each):.2f}"
    ratios = [new.rate / old.rate for old, new in zip(released, now, strict=True)]
    yield f"{statistics.median(ratios):.2f}"


def _run(
    folder: Path, server: int, database: str, script: Path, writers: int, delay_ms: int, seconds: float
) -> Times:
    """One run of pgbench, each client of which is a writer."""
    whole, before = max(1, round(seconds)), cpu_seconds({"server": server})
    with tempfile.TemporaryDirectory(dir=folder) as logs:
        options = f"-c commit_delay={delay_ms * 1000} -c plan_cache_mode=force_generic_plan"
        subprocess.run(
            (
                *(_BIN / "pgbench", "-h", folder, "-U", "postgres", "-n", "-M", "prepared", "-f", script),
                *("-c", str(writers), "-T", str(whole), "--log", f"--log-prefix={logs}/of", database),
            ),
            check=True,
            env={"PGOPTIONS": options},
            stdout=subprocess.DEVNULL,
        )
        lines = [line for log in Path(logs).iterdir() for line in log.read_text().splitlines()]
    took = sorted(int(line.split()[2]) / 1000 for line in lines)
    used = sum(since(before, cpu_seconds({"server": server})).values())
    return Times(took, len(took) / whole, used / len(took) * 1000)


def _append() -> str:
    """Appends a chat of a new conversation, under a trace of its own."""
    chat = list(events_of(_MESSAGES))
    trace = chat[-1].trace_id
    states = [mapper.state_of(each).decode().replace(chat[0].trace_id, trace) for each in chat]
    return _APPEND.format(
        count=len(chat),
        topics=", ".join(f"'{mapper.topic_of(each)}'" for each in chat),
        states=", ".join(f"E'{state.replace(':', _COLON)}'" for state in states),
        trace=trace,
    )


async def _measure_deletion(folder: Path, add: AddRow) -> None:
    url = made(folder, "deletion")
    await conversations.migrations.migrate(url)
    long = new_id()
    with psycopg.connect(url) as conn:
        stored = (row(long, *each) for each in enumerate(events_of(DELETED * 2 // 5, "a text"), start=1))
        copy_in(conn, stored)
    delayed = url_of(folder, "deletion", "-c commit_delay=3000")
    async with open_store(delayed) as store:
        add(
            "a deletion, commits of 3 ms",
            _DELETION_COLUMNS,
            "idle",
            *await _appended(store, asyncio.sleep(10)),
        )
        version = (await store.load(long)).version
        erasure = events.ConversationErased(trace_id="e" * 32, at=_AT, account_id="account")
        deleting = _delete(delayed, long, version, erasure)
        title = f"while {version:,} events are deleted"
        add("a deletion, commits of 3 ms", _DELETION_COLUMNS, title, *await _appended(store, deleting))


async def _delete(url: str, conversation_id: str, version: int, erased: events.ConversationErased) -> None:
    """As an orchestrator and the projector do."""
    async with open_store(url) as other, open_pool(url, durable=False) as pool:
        await other.append_stored(conversation_id, version, mapper.stored([erased]))
        while await erase_piece(pool):  # noqa: ASYNC110 - as the projector's steps
            await asyncio.sleep(_BETWEEN_PIECES_SECONDS)


async def _appended(store: ConversationStore, meanwhile: Coroutine[Any, Any, None]) -> tuple[str, ...]:
    """What appends took, one after the other, until `meanwhile` has ended."""
    ending = asyncio.create_task(meanwhile)
    took: list[float] = []
    while not ending.done():
        began = time.perf_counter()
        await store.append_stored(new_id(), 0, [("a.v1", b"{}")])
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_BETWEEN_APPENDS_SECONDS)
    await ending
    times = Times(sorted(took), 0.0, 0.0)
    return f"{times.at(0.5):.1f}", f"{times.at(0.99):.1f}", f"{times.at(1):.1f}"


@contextlib.contextmanager
def server(folder: Path) -> Iterator[int]:
    """A Postgres with the settings of the product, reached by a socket in the folder; its process."""
    # It refuses to run as root: in a user namespace it is not.
    prefix = ("unshare", "--user", "--map-user=1000") if os.geteuid() == 0 else ()
    data = folder / "data"
    initial = ("-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
    subprocess.run((*prefix, _BIN / "initdb", "-D", data, *initial), check=True, stdout=subprocess.DEVNULL)
    settings = {
        "config_file": settings_file("postgresql.conf"),
        "hba_file": data / "pg_hba.conf",
        "unix_socket_directories": folder,
        "listen_addresses": "",
        "commit_siblings": 0,
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen((*prefix, _BIN / "postgres", "-D", data, *options), stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def made(folder: Path, database: str) -> str:
    """The address of a new database."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with psycopg.connect(url_of(folder, "postgres"), autocommit=True) as conn:
                conn.execute(f"CREATE DATABASE {database}".encode())
            return url_of(folder, database)
        except psycopg.OperationalError:  # it starts
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def url_of(folder: Path, database: str, options: str = "") -> str:
    return make_conninfo(dbname=database, host=str(folder), user="postgres", options=options)


@contextlib.asynccontextmanager
async def _listening(urls: Sequence[str]) -> AsyncIterator[None]:
    """A session for each that is notified, as the projector's is."""

    async def listening(url: str) -> None:
        async with open_session(url, "bench") as session:
            await listen(session, EVENTS_TABLE)
            while True:
                await notifications(session, seconds=1.0)

    tasks = [asyncio.create_task(listening(url)) for url in urls]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
