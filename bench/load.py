"""The load client, in processes of its own, so that it holds up nothing and its own cost is known."""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import uvloop

from bench.client import DONE, Connection, Reply, request
from bench.processes import ROOT
from runtime.web import raise_open_files


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """`chats` in all, `at_once` of them on as many connections, which begin spread over `ramp` seconds.

    `bodies` are sent in turn. `spacing` is that of the provider's deltas, in seconds, of which each stream
    has `deltas`; 0.0: they are not looked at one by one. `done` is in the last event where all went well.
    """

    url: str
    headers: dict[str, str]
    bodies: tuple[dict[str, Any], ...]
    chats: int
    at_once: int
    ramp: float = 0.0
    spacing: float = 0.0
    deltas: int = 0
    done: str = DONE


class Loaded(msgspec.Struct, kw_only=True):
    """What came of a load. Times in seconds; `delays`: how late deltas came, at 50 and 99 % and at most.

    `stretches`: how much longer each paced stream took than the provider needs for it. `deltas`: those that
    came, `lost`: those that never did. `busiest`: the share of a core that the busiest client process took.
    """

    seconds: float
    firsts: list[float]
    stretches: list[float]
    delays: list[float]
    deltas: int
    lost: int
    failures: dict[str, int]
    cpu: float
    busiest: float


async def run(load: Load, processes: int = 1) -> Loaded:
    part = msgspec.structs.replace(load, chats=load.chats // processes, at_once=load.at_once // processes)
    parts = await asyncio.gather(*(_process(part) for _ in range(processes)))
    return Loaded(
        seconds=max(each.seconds for each in parts),
        firsts=[first for each in parts for first in each.firsts],
        stretches=[stretch for each in parts for stretch in each.stretches],
        delays=[max(values) for values in zip(*(each.delays for each in parts), strict=True)],
        deltas=sum(each.deltas for each in parts),
        lost=sum(each.lost for each in parts),
        failures=dict(sum((Counter(each.failures) for each in parts), Counter())),
        cpu=sum(each.cpu for each in parts),
        busiest=max(each.busiest for each in parts),
    )


async def _process(load: Load) -> Loaded:
    command = (sys.executable, "-m", "bench.load")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=pipe, stdout=pipe)
    try:
        output, _ = await process.communicate(msgspec.json.encode(load))
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    return msgspec.json.decode(output, type=Loaded)


async def _load(load: Load) -> Loaded:
    requests = [request(load.url, load.headers, body) for body in load.bodies]
    clients = min(load.at_once, load.chats)
    # Streams that begin one after the other connect when they begin: a gateway waits 10 s for a request.
    connections = [None if load.ramp else await _connection(load) for _ in range(clients)]
    turns = iter(range(load.chats))
    cpu, began = time.process_time(), time.perf_counter()

    async def client(place: int) -> list[Reply]:
        await asyncio.sleep(load.ramp * place / clients)
        connection, replies = connections[place] or await _connection(load), []
        for turn in turns:
            replies.append(await connection.ask(requests[turn % len(requests)]))
            if replies[-1].failed:
                connection = await _connection(load)
        return replies

    each = await asyncio.gather(*map(client, range(clients)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return _loaded(load, [reply for replies in each for reply in replies], seconds, cpu)


async def _connection(load: Load) -> Connection:
    return await Connection.to(load.url, every=bool(load.spacing), done=load.done)


def _loaded(load: Load, replies: Sequence[Reply], seconds: float, cpu: float) -> Loaded:
    good = [reply for reply in replies if not reply.failed]
    delays = sorted(delay for reply in good for delay in _delays(reply, load.spacing))
    ideal = load.spacing * (load.deltas - 1)
    return Loaded(
        seconds=seconds,
        firsts=[reply.first - reply.began for reply in good],
        stretches=[(reply.ended - reply.began) / ideal for reply in good] if ideal else [],
        delays=[share(delays, 0.5), share(delays, 0.99), share(delays, 1.0)],
        deltas=sum(len(reply.numbers) for reply in good),
        lost=sum(load.deltas - len(reply.numbers) for reply in good) if load.spacing else 0,
        failures=dict(Counter(reply.failed for reply in replies if reply.failed)),
        cpu=cpu,
        busiest=cpu / seconds,
    )


def _delays(reply: Reply, spacing: float) -> list[float]:
    """How late each delta came, by the schedule that the stream's most punctual one lays."""
    offsets = [at - number * spacing for number, at in reply.numbers]
    first = min(offsets, default=0.0)
    return [offset - first for offset in offsets]


def share(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


if __name__ == "__main__":
    raise_open_files()
    with contextlib.suppress(KeyboardInterrupt):
        found = uvloop.run(_load(msgspec.json.decode(sys.stdin.buffer.read(), type=Load)))
        sys.stdout.buffer.write(msgspec.json.encode(found))
