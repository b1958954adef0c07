"""The console with much stored and many runs open, and what it costs chats next to it. Five minutes.

The goals: a page within 200 ms, Now under 10 % of a core, chats no slower with 50 consoles open.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from statistics import median

import httpx
import psycopg

from bench import histories, processes
from bench.load import run, share
from bench.measured_systems import Service, service
from bench.measuring import Measuring
from bench.processes import Started
from bench.report import CPU_CHATS, AddRow
from bench.scenarios import SERVICE, SHORT, Chats, Streams
from ops import demo

_MESSAGES = 2
_OPEN = Streams(name="open runs", streams=500, deltas=200, spacing_ms=5000)
_WATCHERS = 50
_TURNS = (0, _WATCHERS) * 3
_ALONE = Chats(name="1 at once", chats=100, at_once=1, subjects=(SERVICE,))
_BUSY = Chats(name="32 at once", chats=600, at_once=32, subjects=(SERVICE,))
_CLIENTS = 3
_VISITS = 20
_WATCHED_SECONDS = 30.0
_SETTLE_SECONDS = 3600.0
_PAGES = (
    "/now",
    "/conversations",
    "/conversations?q=Monday",
    "/conversations?q=Monday&day=week",
    f"/conversations?agent={demo.LOAD_AGENT_ID}&end=completed",
    "/conversations/{conversation}",
    "/conversations/{conversation}/events",
    "/approvals",
    "/agents",
    f"/agents/{demo.LOAD_AGENT_ID}",
    f"/agents/{demo.LOAD_AGENT_ID}/canary",
    "/knowledge",
    "/accounts",
    f"/accounts/{demo.LOAD_ACCOUNT_ID}",
    "/webhooks",
    "/health",
    "/audit",
    "/playground",
    "/what-if",
)


async def measure(add: AddRow, upstream: Started, conversations: int) -> None:
    """With so many conversations stored: chats with and without consoles in turns, then runs and pages."""
    async with service(upstream, (SHORT, _OPEN.model)) as subject:
        made = await asyncio.to_thread(histories.fill, subject.owner_url, conversations, _MESSAGES)
        await subject.settle(_SETTLE_SECONDS)
        await asyncio.to_thread(_analyze, subject.owner_url)
        await _chats(add, subject, Measuring(upstream.pid))
        async with _open_runs(subject):
            await _live(add, subject)
            await _pages(add, subject, made[len(made) // 2])


def _analyze(owner_url: str) -> None:
    with psycopg.connect(owner_url, autocommit=True) as conn:
        conn.execute("ANALYZE")  # as autovacuum does a minute later


async def _chats(add: AddRow, subject: Service, measuring: Measuring) -> None:
    columns = (
        "consoles on Now",
        "first delta p50 ms",
        "p99 ms",
        "p50 ms, 32 at once",
        "CPU ms a chat, console too",
    )
    await measuring.measure(_BUSY, subject, 0)  # fills the caches
    for number, count in enumerate(_TURNS, start=1):
        async with _watched(subject, count):
            alone = (await measuring.measure(_ALONE, subject, number)).figures
            busy = (await measuring.measure(_BUSY, subject, number)).figures
        firsts = (alone["first p50 ms"], alone["first p99 ms"], busy["first p50 ms"], busy[CPU_CHATS])
        add("Chats next to consoles, in turns", columns, f"{count}", *(f"{each:.2f}" for each in firsts))


async def _live(add: AddRow, subject: Service) -> None:
    columns = ("consoles on Now", "console, % of a core", "gateways", "Postgres", "NATS", "the console's MiB")
    for count in _TURNS[:4]:
        async with _watched(subject, count):
            before = processes.cpu_seconds(subject.pids)
            await asyncio.sleep(_WATCHED_SECONDS)
            used = processes.since(before, processes.cpu_seconds(subject.pids))
        memory = processes.memory(subject.pids)["console-1"]
        shares = [_used(used, kind) / _WATCHED_SECONDS for kind in ("console", "gateway", "postgres", "nats")]
        cells = (*(f"{each * 100:.1f}" for each in shares), f"{memory:.0f}")
        add(f"Now with {_OPEN.streams} runs open", columns, f"{count}", *cells)


def _used(used: dict[str, float], kind: str) -> float:
    return sum(seconds for name, seconds in used.items() if name.startswith(kind))


async def _pages(add: AddRow, subject: Service, conversation: str) -> None:
    """Next to clients that chat all the time."""
    columns = ("page", "first ms", "p50 ms", "most ms")
    chatting = asyncio.create_task(run(subject.load(SHORT, 1_000_000, _CLIENTS)))
    try:
        async with httpx.AsyncClient(base_url=subject.environment.console_url, timeout=60) as browser:
            (await browser.get("/now")).raise_for_status()
            for path in _PAGES:
                times = [
                    await _seconds(browser, path.format(conversation=conversation)) for _ in range(_VISITS)
                ]
                cells = (f"{each * 1e3:.0f}" for each in (times[0], median(times), share(sorted(times), 1.0)))
                add(f"Pages with {_OPEN.streams} runs open, next to chats", columns, path, *cells)
    finally:
        chatting.cancel()
        await asyncio.wait([chatting])


async def _seconds(browser: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    (await browser.get(path)).raise_for_status()
    return time.perf_counter() - began


@contextlib.asynccontextmanager
async def _open_runs(subject: Service) -> AsyncIterator[None]:
    """All of them have begun, and none ends while the block runs."""
    load = subject.load(_OPEN.model, _OPEN.streams, _OPEN.streams)
    loading = asyncio.create_task(run(load))
    try:
        async with (
            asyncio.timeout(60),
            await psycopg.AsyncConnection.connect(subject.environment.database_url, autocommit=True) as conn,
        ):
            await _reached(conn, _OPEN.streams)
        yield
    finally:
        loading.cancel()
        await asyncio.wait([loading])


async def _reached(conn: psycopg.AsyncConnection, runs: int) -> None:
    while True:
        row = await (await conn.execute("SELECT count(*) FROM run_leases")).fetchone()
        if row and row[0] >= runs:
            return
        await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def _watched(subject: Service, count: int) -> AsyncIterator[None]:
    """By so many browsers that have Now open, each with a session of its own."""
    async with contextlib.AsyncExitStack() as opened:
        readers = [
            asyncio.create_task(_read(await opened.enter_async_context(_now(subject)))) for _ in range(count)
        ]
        try:
            yield
        finally:
            failed = [each for each in readers if each.done()]
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        assert not failed, f"{len(failed)} of {count} consoles lost their stream"


@contextlib.asynccontextmanager
async def _now(subject: Service) -> AsyncIterator[httpx.Response]:
    async with httpx.AsyncClient(base_url=subject.environment.console_url, timeout=60) as browser:
        (await browser.get("/now")).raise_for_status()
        async with browser.stream("GET", "/now/stream") as stream:
            stream.raise_for_status()
            yield stream


async def _read(stream: httpx.Response) -> None:
    async for _ in stream.aiter_raw():
        pass
