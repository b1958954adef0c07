"""What a chat and a page cost next to ever more that is stored."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from statistics import median

import httpx
import msgspec

from bench import usage
from bench.growth import stored
from bench.measuring import Measuring
from bench.report import CPU_CHATS, Table
from bench.scenarios import SERVICE, Chats
from bench.subjects import Service

_ALONE = Chats(name="1 at once", chats=100, at_once=1, subjects=(SERVICE,))
_BUSY = Chats(name="32 at once", chats=600, at_once=32, subjects=(SERVICE,))
_PAGES = 30
_SETTLE_SECONDS = 3600.0


class Axis(msgspec.Struct, frozen=True):
    """What grows. `fill(owner_url, have, want)` puts more of it into the database."""

    name: str
    fill: Callable[[str, int, int], None]
    largest: int


AXES = (
    Axis("conversations of the account", stored.more_conversations, 1_000_000),
    Axis("agents of the account", stored.more_agents, 100_000),
    Axis("accounts", stored.more_accounts, 100_000),
)
COLUMNS = (
    *("first delta p50 ms, 1 at once", "CPU ms a chat, 32 at once", "a page of conversations p50 ms"),
    *("MiB without Postgres", "seconds until projected"),
)


async def curve(service: Service, upstream: int, axis: Axis, largest: int) -> AsyncIterator[Table]:
    """The table of one axis, again with each row, of ten times as much as the one before."""
    measuring = Measuring(upstream)
    rows: list[tuple[str, ...]] = []
    have, want = 0, 1_000
    while want <= min(largest, axis.largest):
        await asyncio.to_thread(axis.fill, service.owner_url, have, want)
        began = time.monotonic()
        await service.settle(_SETTLE_SECONDS)
        projected = time.monotonic() - began
        rows.append((f"{want:,}", *await _row(service, measuring), f"{projected:.0f}"))
        yield Table(f"Next to {axis.name}", ("", *COLUMNS), list(rows))
        have, want = want, want * 10


async def _row(service: Service, measuring: Measuring) -> tuple[str, ...]:
    await measuring.measure(_BUSY, service, 0)  # what was read last is what is cached
    alone = await measuring.measure(_ALONE, service, 1)
    busy = await measuring.measure(_BUSY, service, 1)
    memory = sum(size for name, size in usage.memory(service.pids).items() if name != "postgres")
    page = await _page_seconds(service)
    first, cpu = alone.figures["first p50 ms"], busy.figures[CPU_CHATS]
    return f"{first:.1f}", f"{cpu:.2f}", f"{page * 1e3:.1f}", f"{memory:.0f}"


async def _page_seconds(service: Service) -> float:
    """The median of the newest conversations. Raises httpx.HTTPError."""
    found = service.environment
    headers = {"X-Api-Key": found.load_api_key}
    seconds: list[float] = []
    async with httpx.AsyncClient(base_url=found.base_url, headers=headers, timeout=60) as client:
        for _ in range(_PAGES):
            began = time.perf_counter()
            (await client.get("/v1/conversations")).raise_for_status()
            seconds.append(time.perf_counter() - began)
    return median(seconds)
