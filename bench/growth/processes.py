"""What each process costs by the streams that it holds, and what more processes bring."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

from bench import usage
from bench.load import run
from bench.measuring import Measuring, paced
from bench.processes import Started
from bench.report import CPU_CHATS, Table
from bench.scenarios import SERVICE, TOOL, Chats, Streams
from bench.settling import last_position
from bench.subjects import Service, service
from ops.settings import Counts

_WARM_UP = Chats(name="warm-up", chats=200, at_once=16, subjects=(SERVICE,))
_BUSY = Chats(name="64 at once", chats=1_200, at_once=64, subjects=(SERVICE,))
_TOOLS = Chats(name="tool calls", chats=300, at_once=32, model=TOOL, subjects=(SERVICE,))
_BEHIND = Chats(name="without projector", chats=2_000, at_once=32, subjects=(SERVICE,))
_SHAPES = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (2, 2, 2), (4, 4, 2))
_SHAPE_COLUMNS = (
    *("gateways · orchestrators · tool-runners", "chats / s", "with a tool call / s"),
    *("CPU ms a chat", "with a tool call", "MiB"),
)
_RAMP_PER_SECOND = 250
MODELS = (_BUSY.model, TOOL)


def streams(count: int) -> Streams:
    """So many that wait most of the time: a delta each 5 s, as of a model that thinks."""
    ramp = max(1.0, count / _RAMP_PER_SECOND)
    return Streams(name=f"{count} streams", streams=count, deltas=7, spacing_ms=5000, ramp=ramp)


async def by_streams(subject: Service, counts: tuple[int, ...]) -> AsyncIterator[Table]:
    """Memory above that without any, and CPU, of each process; again with each row."""
    rows: list[tuple[str, ...]] = []
    for count in counts:
        wanted = streams(count)
        await subject.settle()
        idle, before, began = usage.memory(subject.pids), usage.cpu_seconds(subject.pids), time.monotonic()
        load = subject.load(wanted.model, count, count)
        loading = asyncio.create_task(run(paced(load, wanted), processes=2))
        await asyncio.sleep((wanted.ramp + wanted.seconds) / 2)
        held = usage.memory(subject.pids)
        loaded = await loading
        seconds = time.monotonic() - began
        cpu = usage.since(before, usage.cpu_seconds(subject.pids))
        failed = sum(loaded.failures.values())
        rows += [
            (
                *(f"{count:,}", name, f"{held[name]:.0f}"),
                f"{(held[name] - idle.get(name, 0.0)) * 1024 / count:.0f}",
                *(f"{cpu[name] / seconds * 100:.1f}", str(failed or "")),
            )
            for name in sorted(held, key=lambda name: -held[name])
        ]
        columns = ("streams", "process", "MiB", "KiB more a stream", "% of a core", "failed")
        yield Table("Each process, by open streams of a delta each 5 s", columns, list(rows))


async def by_shape(upstream: Started) -> AsyncIterator[Table]:
    """Throughput by the number of gateways, orchestrators and tool-runners; again with each row."""
    rows: list[tuple[str, ...]] = []
    for gateways, orchestrators, tool_runners in _SHAPES:
        counts = Counts(gateways=gateways, orchestrators=orchestrators, tool_runners=tool_runners)
        async with service(upstream, MODELS, counts) as subject:
            measuring = Measuring(upstream.pid)
            await measuring.measure(_WARM_UP, subject, 0)
            busy = await measuring.measure(_BUSY, subject, 1)
            tools = await measuring.measure(_TOOLS, subject, 1)
            memory = sum(usage.memory(subject.pids).values())
        rows.append(
            (
                f"{gateways} · {orchestrators} · {tool_runners}",
                *(f"{each.figures['chats / s']:.0f}" for each in (busy, tools)),
                *(f"{each.figures[CPU_CHATS]:.2f}" for each in (busy, tools)),
                f"{memory:.0f}",
            )
        )
        yield Table("Throughput by processes, 64 at once", _SHAPE_COLUMNS, list(rows))


async def projector_end(subject: Service) -> Table:
    """How many chats a second the one projector takes when it does nothing but catch up."""
    projector = subject.pids["projector-1"]
    events = await last_position(subject.environment.database_url)
    os.kill(projector, signal.SIGSTOP)
    try:
        loaded = await run(subject.load(_BEHIND.model, _BEHIND.chats, _BEHIND.at_once))
    finally:
        os.kill(projector, signal.SIGCONT)
    began, before = time.monotonic(), usage.cpu_seconds(subject.pids)
    await subject.settle()
    seconds, cpu = time.monotonic() - began, usage.since(before, usage.cpu_seconds(subject.pids))
    chats, stored = len(loaded.firsts), await last_position(subject.environment.database_url) - events
    row = (f"{chats:,}", f"{stored:,}", f"{chats / seconds:.0f}", f"{stored / seconds:.0f}")
    used = f"{cpu['projector-1'] / chats * 1e3:.2f}", f"{cpu['postgres'] / chats * 1e3:.2f}"
    columns = ("chats", "events", "chats / s", "events / s", "its CPU ms a chat", "Postgres' CPU ms a chat")
    return Table("The projector, catching up alone", columns, [(*row, *used)])
