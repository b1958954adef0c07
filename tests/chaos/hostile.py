"""`make hostile`: 1,000 readers that do not read, 1,000 half heads and 5,000 idle sockets at one gateway.

The delay of 100 live streams next to them is compared with that next to the same readers before they stopped
reading: the work is the same then, on whatever machine. The gateway has to drop all of them by itself, and to
hold what it held before.
"""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg

from bench import load as live_load
from bench.client import BenchError
from ops import demo
from ops.environment import Environment
from runtime.web import raise_open_files
from tests.chaos.crowd import Crowd, chat, crowd_elsewhere
from tests.chaos.growth import SPARE, Sample
from tests.chaos.recording import on_a_stack
from tests.chaos.report import Outcome
from tests.chaos.rig import admin_of, post
from tests.chaos.watched import Watched, watched_stack

GATEWAY = "gateway-1"
LIVE, _DELTAS, _SPACING = 100, 80, 0.1
_CYCLES = 2
_LIVE_MODEL = f"demo-load?deltas={_DELTAS}&delay_ms={_SPACING * 1000:.0f}"
_LONG_MODEL = "demo-echo?repeat=200&deltas=40&delay_ms=2000"
"""A delta of 5 KB every 2 s for 80 s; one who takes nothing of it for 15 s is dropped."""
_MESSAGE = "x" * 1000
_MAX_TOKENS = 100_000
_RAMP_SECONDS = 50.0
_BURST_SECONDS = 6.0
"""In which heads and idle sockets come: 1,000 connections a second, while the live streams run for 8 s."""
_SLOWER = 1.2
_BACK_SECONDS = 150.0
"""Of the last run's beginning: its 80 s, and what a loaded machine adds."""
_MEMORY = 1.1
_OTHER_FILES = 1000


class Sizes(msgspec.Struct, frozen=True):
    """How many connections of each kind."""

    readers: int = 1000
    heads: int = 1000
    idle: int = 5000

    @property
    def total(self) -> int:
        return self.readers + self.heads + self.idle


class Paced(msgspec.Struct, frozen=True, kw_only=True):
    """How late the deltas of the live streams came, in ms, and how many never did."""

    p50: float
    p99: float
    worst: float
    lost: int


class Cycle(msgspec.Struct, kw_only=True):
    """Samples are of the gateway and of the clients of NATS, by when they were taken."""

    with_readers: Paced
    with_hostile: Paced
    samples: dict[str, list[Sample]]

    @property
    def ratio(self) -> float:
        return self.with_hostile.p99 / self.with_readers.p99


class Result(msgspec.Struct, kw_only=True):
    """The same twice: what is still held after the second and was not after the first has leaked."""

    sizes: Sizes
    alone: Paced
    at_first: list[Sample]
    cycles: list[Cycle]

    def problems(self) -> list[str]:
        """What a crowd did to others, and what stayed of it."""
        found = [f"{each.with_hostile.lost} deltas were lost" for each in self.cycles]
        found = [problem for problem, each in zip(found, self.cycles, strict=True) if each.with_hostile.lost]
        if (ratio := min(each.ratio for each in self.cycles)) > _SLOWER:
            found.append(f"p99 of the delay is {ratio:.2f} times that next to readers who read, at best")
        first, last = self.cycles[0].samples["after"], self.cycles[-1].samples["after"]
        if last[0].mib > first[0].mib * _MEMORY:
            found.append(f"{GATEWAY}: memory was {first[0].mib:.0f} MiB, is {last[0].mib:.0f} MiB")
        return [*found, *not_back(self.at_first, last)]

    def why_invalid(self) -> list[str]:
        """Where too few were there to prove anything."""
        found = []
        for each in self.cycles:
            (gateway, nats), (gateway_first, nats_first) = each.samples["with hostile"], self.at_first
            there = {
                "readers": (nats.subscriptions - nats_first.subscriptions - LIVE, self.sizes.readers),
                "connections": (gateway.sockets - gateway_first.sockets - LIVE, self.sizes.total),
            }
            found += [
                f"{n} of {all_} {kind} were there" for kind, (n, all_) in there.items() if n < 0.9 * all_
            ]
        return found

    def text(self) -> str:
        """For a terminal."""
        lines = [f"{self.sizes} at {GATEWAY}", f"  alone: {_delay(self.alone)}"]
        lines += [f"  at first: {_words(sample)}" for sample in self.at_first]
        for each in self.cycles:
            lines.append(f"  next to readers: {_delay(each.with_readers)}")
            lines.append(f"  next to hostile: {_delay(each.with_hostile)}, p99 {each.ratio:.2f} times")
            lines += [f"  {when}: {_words(one)}" for when, found in each.samples.items() for one in found]
        return "\n".join([*lines, *self.problems()])


def _delay(paced: Paced) -> str:
    return f"delay p50 {paced.p50:.1f}, p99 {paced.p99:.1f}, worst {paced.worst:.1f} ms, {paced.lost} lost"


def _words(sample: Sample) -> str:
    return (
        f"{sample.name} {sample.mib:.0f} MiB, {sample.files} files, {sample.sockets} sockets, "
        f"{sample.tasks} tasks, {sample.subscriptions} subscriptions"
    )


def not_back(before: list[Sample], after: list[Sample]) -> list[str]:
    """What is counted and has not come back to where it was."""
    return [
        f"{one.name}: {kind} were {getattr(one, kind)}, are {getattr(other, kind)}"
        for one, other in zip(before, after, strict=True)
        for kind in ("files", "sockets", "tasks", "subscriptions")
        if getattr(other, kind) > getattr(one, kind) + SPARE
    ]


class Hostile:
    """One run, against one gateway of a stack."""

    def __init__(self, stack: Watched, sizes: Sizes) -> None:
        self._stack = stack
        self._sizes = sizes
        self._port = urlsplit(stack.environment.base_url).port or 0
        self._agents: dict[str, str] = {}

    async def run(self) -> Result:
        found = self._stack.environment
        self._agents = {model: await _agent(found, model) for model in (_LIVE_MODEL, _LONG_MODEL)}
        await self._live()  # first connections and imports are not the point
        at_first = await self._stack.samples(0, [GATEWAY])
        alone = await self._live()
        cycles = [await self._cycle(at_first) for _ in range(_CYCLES)]
        return Result(sizes=self._sizes, alone=alone, at_first=at_first, cycles=cycles)

    async def _cycle(self, at_first: list[Sample]) -> Cycle:
        """Readers, first reading; then they stop, while heads and idle sockets come."""
        found = self._stack.environment
        readers = Crowd(self._port, chat(found.load_api_key, self._agents[_LONG_MODEL], _MESSAGE))
        await readers.grow(self._sizes.readers, _RAMP_SECONDS * self._sizes.readers / 1000)
        with_readers = await self._live()
        samples = {"with readers": await self._stack.samples(0, [GATEWAY])}
        live = asyncio.create_task(self._live())
        readers.stop_reading()
        async with crowd_elsewhere(self._port, self._sizes.heads, self._sizes.idle, _BURST_SECONDS):
            samples["with hostile"] = await self._stack.samples(0, [GATEWAY])
            with_hostile = await live
            samples["after"] = await self._gone(at_first)
        readers.go()
        return Cycle(with_readers=with_readers, with_hostile=with_hostile, samples=samples)

    async def _live(self) -> Paced:
        found = self._stack.environment
        agent = self._agents[_LIVE_MODEL]
        load = live_load.Load(
            url=f"{found.base_url}/v1/chat/stream",
            headers={"X-Api-Key": found.load_api_key, "X-Agent-Id": agent, "X-Stream-Form": "1"},
            bodies=({"message": "Go."},),
            chats=LIVE,
            at_once=LIVE,
            ramp=0.5,
            spacing=_SPACING,
            deltas=_DELTAS,
        )
        loaded = await live_load.run(load)
        if loaded.failures:
            raise BenchError(f"live streams failed: {loaded.failures}")
        p50, p99, worst = (delay * 1000 for delay in loaded.delays)
        return Paced(p50=p50, p99=p99, worst=worst, lost=loaded.lost)

    async def _gone(self, before: list[Sample]) -> list[Sample]:
        """What is held once the gateway has dropped all of them and no run is left, or after so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _BACK_SECONDS
        while True:
            after = await self._stack.samples(0, [GATEWAY])
            if loop.time() > until or not (not_back(before, after) or await self._runs()):
                return after
            await asyncio.sleep(1)

    async def _runs(self) -> int:
        url = self._stack.environment.database_url
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            found = await connection.execute("SELECT FROM run_leases WHERE expires_at > now()")
            return found.rowcount


async def _agent(found: Environment, model: str) -> str:
    async with admin_of(found) as admin:
        draft: dict[str, object] = {"account_id": demo.LOAD_ACCOUNT_ID, "name": model[:40], "model": model}
        draft |= {"provider_key": "offline", "parameters": {"max_tokens": _MAX_TOKENS}}
        return (await post(admin, "/agents", draft))["id"]


def fitting(sizes: Sizes, files: int) -> Sizes:
    """Fewer, in proportion, where this process may not open so many files."""
    share = min(1.0, (files - _OTHER_FILES) / sizes.total)
    return Sizes(*(int(each * share) for each in (sizes.readers, sizes.heads, sizes.idle)))


async def _crowded(sizes: Sizes, folder: Path) -> Result:
    """On a stack whose orchestrators have a slot for each reader."""
    slots = {"AGENTCHAT_RUN_SLOTS": str(sizes.readers + LIVE)}
    async with watched_stack(folder, slots) as stack:
        return await Hostile(stack, sizes).run()


def run(given: argparse.Namespace) -> Outcome:
    """It has failed where others were slower, or something stays of the crowd."""
    wanted = Sizes(given.readers, given.heads, given.idle)
    sizes = fitting(wanted, raise_open_files())
    if sizes != wanted:
        print(f"this process may open too few files for {wanted}", file=sys.stderr)
    result = on_a_stack(partial(_crowded, sizes))
    return Outcome(
        name=f"hostile-{sizes.readers}",
        text=result.text(),
        failed=bool(result.problems()),
        invalid=result.why_invalid(),
        files={"hostile": result},
    )
