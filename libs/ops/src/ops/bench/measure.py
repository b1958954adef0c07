"""What is measured, each a function from where to look to numbers; no printing here."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from statistics import median

import msgspec
import psutil

from ops.bench.client import BenchError, stream

_NUMBER = re.compile(rb"(\d{6})[ .]")  # the model demo-load numbers its deltas, so that merged ones count


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a load goes: the service, or the model server itself for comparison.

    `marker` is in every line that carries text, and in no other.
    """

    name: str
    url: str
    headers: dict[str, str]
    body: dict[str, object]
    marker: bytes


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in milliseconds."""

    p50: float
    p90: float
    p99: float
    worst: float


class Paced(msgspec.Struct, frozen=True, kw_only=True):
    """Many paced streams: how late deltas came, and how many of those expected never did."""

    first_delta: Spread
    delay: Spread
    lost: int


def spread(seconds: list[float]) -> Spread:
    """Percentiles of durations in seconds, as milliseconds."""
    ordered = sorted(value * 1000 for value in seconds)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return Spread(p50=median(ordered), p90=at(0.90), p99=at(0.99), worst=ordered[-1])


async def _numbers(target: Target) -> AsyncIterator[tuple[int, float]]:
    """The number of each delta and when it came."""
    async for arrival in stream(target.url, target.headers, target.body):
        if target.marker in arrival.data:
            for number in _NUMBER.findall(arrival.data):
                yield int(number), arrival.at
        elif b'"type":"error"' in arrival.data:
            raise BenchError(f"{target.name} ended in an error: {arrival.data.decode()}")


async def time_to_first_delta(target: Target, requests: int) -> Spread:
    """From the request to its first delta, one stream after the other."""
    return spread(await first_deltas(target, requests))


async def first_deltas(target: Target, requests: int) -> list[float]:
    """The same in seconds, one by one."""
    return [(await _one(target))[0] for _ in range(requests)]


async def _one(target: Target) -> tuple[float, dict[int, float]]:
    """Seconds to the first delta, and when each came."""
    begun = time.perf_counter()
    came = {number: at async for number, at in _numbers(target)}
    if not came:
        raise BenchError(f"{target.name} sent no delta")
    return min(came.values()) - begun, came


async def paced_streams(target: Target, *, streams: int, deltas: int, spacing: float) -> Paced:
    """`streams` at once, each of `deltas` that the model sends every `spacing` seconds.

    A delta's delay is how much later it came than its place in the schedule, which is laid through the
    stream's most punctual delta. Streams begin evenly spread over half a second.
    """

    async def one(place: int) -> tuple[float, dict[int, float]]:
        await asyncio.sleep(0.5 * place / streams)
        return await _one(target)

    firsts, delays, received = [], [], 0
    for first, came in await asyncio.gather(*map(one, range(streams))):
        firsts.append(first)
        offsets = [at - number * spacing for number, at in came.items()]
        delays += [offset - min(offsets) for offset in offsets]
        received += len(came)
    return Paced(first_delta=spread(firsts), delay=spread(delays), lost=streams * deltas - received)


def proportional_set_sizes(pids: Mapping[str, int]) -> dict[str, float]:
    """MiB of proportional set size by process name, children added to their parent's."""
    return {name: sum(map(_pss, family)) / 2**20 for name, family in _families(pids).items()}


def cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds used so far by process name, children included."""
    return {name: sum(map(_cpu, family)) for name, family in _families(pids).items()}


def _families(pids: Mapping[str, int]) -> dict[str, list[psutil.Process]]:
    """Each named process with its descendants, but for those that have a name themselves, or are theirs."""
    named = set(pids.values())

    def family(process: psutil.Process) -> list[psutil.Process]:
        children = [child for child in process.children() if child.pid not in named]
        return [process, *(member for child in children for member in family(child))]

    return {name: family(psutil.Process(pid)) for name, pid in pids.items()}


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
