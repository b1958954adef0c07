"""How cost grows with what is stored, with open streams, processes and consoles.

A quarter of an hour; a million conversations take half an hour more.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from statistics import median

import httpx
import msgspec
import psycopg

from bench import consoles, histories, processes
from bench.load import run
from bench.measured_systems import Service, last_position, service
from bench.measuring import Measuring, paced
from bench.processes import Started, lean_upstream
from bench.report import CPU_CHATS, AddRow
from bench.scenarios import SERVICE, SHORT, TOOL, Chats, Streams
from ops import demo
from ops.settings import Counts

_ALONE = Chats(name="1 at once", chats=100, at_once=1, subjects=(SERVICE,))
_BUSY = Chats(name="32 at once", chats=600, at_once=32, subjects=(SERVICE,))
_WARM_UP = Chats(name="warm-up", chats=200, at_once=16, subjects=(SERVICE,))
_CROWDED = Chats(name="64 at once", chats=1_200, at_once=64, subjects=(SERVICE,))
_TOOLS = Chats(name="tool calls", chats=300, at_once=32, model=TOOL, subjects=(SERVICE,))
_BEHIND = Chats(name="without projector", chats=2_000, at_once=32, subjects=(SERVICE,))
_SHAPES = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (2, 2, 2), (4, 4, 2))
_STREAMS = (10, 1_000, 5_000)
_RAMP_PER_SECOND = 250
_PAGES = 30
_SETTLE_SECONDS = 3600.0
_MESSAGES = 2
"""Of each stored conversation."""
_AGENTS = """
WITH added AS (
    INSERT INTO agents (agent_id, account_id, current_version)
    SELECT 'bench-agent-' || number, %(account)s, 1 FROM generate_series(%(have)s + 1, %(want)s) AS number
)
INSERT INTO agent_versions (agent_id, version, config)
SELECT 'bench-agent-' || number, 1, found.config
  FROM generate_series(%(have)s + 1, %(want)s) AS number,
       (SELECT config FROM agent_versions WHERE agent_id = %(agent)s ORDER BY version DESC LIMIT 1) AS found
"""
_ACCOUNTS = """
WITH added AS (
    INSERT INTO accounts (account_id, name, plan)
    SELECT 'bench-account-' || number, 'Bench', found.plan
      FROM generate_series(%(have)s + 1, %(want)s) AS number,
           (SELECT plan FROM accounts WHERE account_id = %(account)s) AS found
)
INSERT INTO api_keys (key_id, account_id, name, key_hash, last4)
SELECT 'bench-key-' || number, 'bench-account-' || number, 'bench',
       sha256(convert_to('bench-key-' || number, 'UTF8')), '0000'
  FROM generate_series(%(have)s + 1, %(want)s) AS number
"""


class Limits(msgspec.Struct, frozen=True):
    """`largest`: of what is stored, 1,000 to 1,000,000; `streams`: the most that are opened."""

    largest: int
    streams: int


async def _stored(add: AddRow, upstream: Started, limits: Limits) -> None:
    """What a chat and a page cost, with ten times as much stored in each row."""
    axes = {
        "conversations of the account": (None, 1_000_000),
        "agents of the account": (_AGENTS, 100_000),
        "accounts": (_ACCOUNTS, 100_000),
    }
    columns = (
        *("", "first delta p50 ms, 1 at once", "CPU ms a chat, 32 at once"),
        *("a page of conversations p50 ms", "MiB without Postgres", "seconds until projected"),
    )
    for axis, (statement, most) in axes.items():
        async with service(upstream, (SHORT, TOOL)) as subject:
            have, want, measuring = 0, 1_000, Measuring(upstream.pid)
            while want <= min(limits.largest, most):
                await asyncio.to_thread(_fill, subject.owner_url, statement, have, want)
                began = time.monotonic()
                await subject.settle(_SETTLE_SECONDS)
                projected = f"{time.monotonic() - began:.0f}"
                add(f"With more {axis}", columns, f"{want:,}", *await _row(subject, measuring), projected)
                have, want = want, want * 10


def _fill(owner_url: str, statement: str | None, have: int, want: int) -> None:
    if statement is None:
        histories.fill(owner_url, want - have, _MESSAGES)
    with psycopg.connect(owner_url, autocommit=True) as conn:
        if statement is not None:
            values = {
                "have": have,
                "want": want,
                "account": demo.LOAD_ACCOUNT_ID,
                "agent": demo.LOAD_AGENT_ID,
            }
            conn.execute(statement.encode(), values)
        conn.execute("ANALYZE")  # as autovacuum does a minute later


async def _row(subject: Service, measuring: Measuring) -> tuple[str, ...]:
    await measuring.measure(_BUSY, subject, 0)  # fills the caches
    alone = await measuring.measure(_ALONE, subject, 1)
    busy = await measuring.measure(_BUSY, subject, 1)
    memory = sum(size for name, size in processes.memory(subject.pids).items() if name != "postgres")
    page = await _page_seconds(subject)
    first, cpu = alone.figures["first p50 ms"], busy.figures[CPU_CHATS]
    return f"{first:.1f}", f"{cpu:.2f}", f"{page * 1e3:.1f}", f"{memory:.0f}"


async def _page_seconds(subject: Service) -> float:
    found, seconds = subject.environment, []
    headers = {"X-Api-Key": found.load_api_key}
    async with httpx.AsyncClient(base_url=found.base_url, headers=headers, timeout=60) as client:
        for _ in range(_PAGES):
            began = time.perf_counter()
            (await client.get("/v1/conversations")).raise_for_status()
            seconds.append(time.perf_counter() - began)
    return median(seconds)


def _waiting(count: int) -> Streams:
    """Streams that wait most of the time: a delta each 5 s, as of a model that thinks."""
    ramp = max(1.0, count / _RAMP_PER_SECOND)
    return Streams(name=f"{count} streams", streams=count, deltas=7, spacing_ms=5000, ramp=ramp)


async def _streams(add: AddRow, upstream: Started, limits: Limits) -> None:
    """Memory and CPU of each process, more than without streams."""
    columns = ("streams", "process", "MiB", "KiB more a stream", "% of a core", "failed")
    async with service(upstream, (_waiting(1).model,)) as subject:
        for count in (each for each in _STREAMS if each <= limits.streams):
            wanted = _waiting(count)
            await subject.settle()
            idle, before = processes.memory(subject.pids), processes.cpu_seconds(subject.pids)
            began = time.monotonic()
            load = paced(subject.load(wanted.model, count, count), wanted)
            loading = asyncio.create_task(run(load, processes=2))
            await asyncio.sleep((wanted.ramp + wanted.seconds) / 2)
            held = processes.memory(subject.pids)
            failed = sum((await loading).failures.values())
            seconds = time.monotonic() - began
            cpu = processes.since(before, processes.cpu_seconds(subject.pids))
            for name in sorted(held, key=lambda name: -held[name]):
                more = (held[name] - idle.get(name, 0.0)) * 1024 / count
                cells = (f"{held[name]:.0f}", f"{more:.0f}", f"{cpu[name] / seconds * 100:.1f}")
                add("Open streams of a delta each 5 s", columns, f"{count:,}", name, *cells, f"{failed}")


async def _shapes(add: AddRow, upstream: Started, _: Limits) -> None:
    """Throughput by the number of gateways, orchestrators and tool-runners; then the projector alone."""
    columns = (
        *("gateways · orchestrators · tool-runners", "chats / s", "with a tool call / s"),
        *("CPU ms a chat", "with a tool call", "MiB"),
    )
    for shape in _SHAPES:
        gateways, orchestrators, tool_runners = shape
        counts = Counts(gateways=gateways, orchestrators=orchestrators, tool_runners=tool_runners)
        async with service(upstream, (SHORT, TOOL), counts) as subject:
            measuring = Measuring(upstream.pid)
            await measuring.measure(_WARM_UP, subject, 0)
            found = [(await measuring.measure(each, subject, 1)).figures for each in (_CROWDED, _TOOLS)]
            memory = sum(processes.memory(subject.pids).values())
        add(
            "Throughput by processes, 64 at once",
            columns,
            " · ".join(map(str, shape)),
            *(f"{each['chats / s']:.0f}" for each in found),
            *(f"{each[CPU_CHATS]:.2f}" for each in found),
            f"{memory:.0f}",
        )
    async with service(upstream, (SHORT,)) as subject:
        await _projector_alone(add, subject)


async def _projector_alone(add: AddRow, subject: Service) -> None:
    """How many chats a second the one projector takes when it only catches up."""
    projector = subject.pids["projector-1"]
    events = await last_position(subject.environment.database_url)
    os.kill(projector, signal.SIGSTOP)
    try:
        loaded = await run(subject.load(_BEHIND.model, _BEHIND.chats, _BEHIND.at_once))
    finally:
        os.kill(projector, signal.SIGCONT)
    began, before = time.monotonic(), processes.cpu_seconds(subject.pids)
    await subject.settle()
    seconds, cpu = (
        time.monotonic() - began,
        processes.since(before, processes.cpu_seconds(subject.pids)),
    )
    chats, stored = len(loaded.firsts), await last_position(subject.environment.database_url) - events
    add(
        "The projector, catching up alone",
        ("chats", "events", "chats / s", "events / s", "its CPU ms a chat", "Postgres' CPU ms a chat"),
        *(f"{chats:,}", f"{stored:,}", f"{chats / seconds:.0f}", f"{stored / seconds:.0f}"),
        *(f"{cpu[name] / chats * 1e3:.2f}" for name in ("projector-1", "postgres")),
    )


async def _consoles(add: AddRow, upstream: Started, limits: Limits) -> None:
    await consoles.measure(add, upstream, limits.largest)


PARTS: dict[str, Callable[[AddRow, Started, Limits], Awaitable[None]]] = {
    "stored": _stored,
    "streams": _streams,
    "processes": _shapes,
    "consoles": _consoles,
}


async def measure(add: AddRow, only: str, limits: Limits) -> None:
    """Each part whose name contains `only`."""
    for part, measured in PARTS.items():
        if only in part:
            async with lean_upstream() as upstream:
                await measured(add, upstream, limits)
