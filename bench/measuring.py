"""One scenario with one subject, once: from a load to figures."""

import asyncio
import os

import msgspec

from bench import processes
from bench.load import Load, Loaded, run, share
from bench.measured_systems import Subject
from bench.scenarios import Chats, Scenario, Streams

UPSTREAM = "upstream"


class Measured(msgspec.Struct, kw_only=True):
    """`figures` by name, with the unit in the name; `cpu`: seconds by process, provider and client too.

    `others`: the machine's load average before it.
    """

    scenario: str
    subject: str
    round: int
    figures: dict[str, float]
    cpu: dict[str, float]
    failures: dict[str, int]
    others: float = 0.0


class Measuring:
    """Keeps conversations of each length between rounds. `upstream` is the provider's process id."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._conversations: dict[tuple[str, int], str] = {}

    async def measure(self, scenario: Scenario, subject: Subject, number: int) -> Measured:
        """Raises StackError, TimeoutError."""
        load = await self._load(scenario, subject)
        pids = {**subject.pids, UPSTREAM: self._upstream}
        await subject.settle()
        idle = _megabytes(subject)
        others, before = os.getloadavg()[0], processes.cpu_seconds(pids)
        clients = scenario.clients if isinstance(scenario, Streams) else 1
        loading = asyncio.create_task(run(load, clients))
        memory = await self._memory(scenario, subject)
        loaded = await loading
        await subject.settle()
        cpu = processes.since(before, processes.cpu_seconds(pids))
        own = sum(seconds for name, seconds in cpu.items() if name != UPSTREAM)
        figures = _of_chats(loaded, own) if isinstance(scenario, Chats) else _of_streams(loaded, own)
        if memory:
            figures["KiB / open stream"] = (memory - idle) * 1024 / max(1.0, figures["streams"])
        return Measured(
            scenario=scenario.name,
            subject=subject.name,
            round=number,
            figures=figures | {"client share of a core": loaded.busiest},
            cpu=cpu | {"client": loaded.cpu},
            failures=loaded.failures,
            others=others,
        )

    async def _load(self, scenario: Scenario, subject: Subject) -> Load:
        if isinstance(scenario, Chats):
            conversation = await self._conversation(subject, scenario.history)
            return subject.load(scenario.model, scenario.chats, scenario.at_once, conversation)
        load = subject.load(scenario.model, scenario.streams, scenario.streams)
        return paced(load, scenario)

    async def _conversation(self, subject: Subject, messages: int | None) -> str | None:
        if not messages:
            return None
        place = subject.name, messages
        if place not in self._conversations:
            self._conversations[place] = await subject.conversation(messages)
        return self._conversations[place]

    async def _memory(self, scenario: Scenario, subject: Subject) -> float:
        """MiB of the subject when the last stream has begun and the first is still open; 0.0 if not asked."""
        if not (isinstance(scenario, Streams) and scenario.memory):
            return 0.0
        await asyncio.sleep((scenario.ramp + scenario.seconds) / 2)
        return await asyncio.to_thread(_megabytes, subject)


def paced(load: Load, streams: Streams) -> Load:
    return msgspec.structs.replace(
        load, ramp=streams.ramp, spacing=streams.spacing_ms / 1000, deltas=streams.deltas
    )


def _megabytes(subject: Subject) -> float:
    return sum(processes.memory(subject.pids).values())


def _of_chats(loaded: Loaded, cpu: float) -> dict[str, float]:
    good = len(loaded.firsts)
    return _firsts(loaded) | {
        "chats": good,
        "CPU s / 1,000 chats": cpu / max(1, good) * 1e3,
        "chats / s": good / loaded.seconds,
    }


def _of_streams(loaded: Loaded, cpu: float) -> dict[str, float]:
    stretches = sorted(loaded.stretches)
    deltas = max(1, loaded.deltas)
    return _firsts(loaded) | {
        "streams": len(loaded.firsts),
        "deltas": deltas,
        "CPU s / 1M deltas": cpu / deltas * 1e6,
        "stretch p50": share(stretches, 0.5),
        "stretch p99": share(stretches, 0.99),
        "delay p50 ms": loaded.delays[0] * 1e3,
        "delay p99 ms": loaded.delays[1] * 1e3,
        "lost deltas": loaded.lost,
    }


def _firsts(loaded: Loaded) -> dict[str, float]:
    firsts = sorted(loaded.firsts)
    return {"first p50 ms": share(firsts, 0.5) * 1e3, "first p99 ms": share(firsts, 0.99) * 1e3}
