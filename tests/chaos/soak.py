"""`make soak`: many requests, three in ten left by their clients, and what the processes hold meanwhile.

Exit code 1 where something grows. The stack is that of `agentchat up`, without proxies and without faults.
"""

import argparse
import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from ops import secrets
from ops.environment import Environment
from ops.folder import RunFolder
from ops.ports import Ports
from ops.process import Process
from ops.settings import Counts, UpSettings
from ops.stack import describe
from tests.chaos import counted
from tests.chaos.client import perform
from tests.chaos.clock import Clock
from tests.chaos.growth import Growth, Sample, growths, sample, sample_nats
from tests.chaos.load import conversation_of
from tests.chaos.plan import SERVICES
from tests.chaos.processes import Kin
from tests.chaos.records import Exchange
from tests.chaos.run import OUTPUT

_AT_ONCE = 32
_SAMPLES = 20
_LEAVING = 0.3
_QUIET_SECONDS = 2.0
_LONGEST_THREAD = 5


class Soak:
    """Sends requests and samples the processes whenever a part of them is done."""

    def __init__(self, environment: Environment, kin: Kin, folder: RunFolder, monitor_port: int) -> None:
        self.samples: list[Sample] = []
        self.outcomes: dict[str, int] = {}
        self._environment = environment
        self._kin = kin
        self._folder = folder
        self._monitor_port = monitor_port
        self._clock = Clock()
        self._chance = random.Random(1)
        self._threads: list[tuple[str, int]] = []

    async def run(self, requests: int) -> None:
        done = 0
        while done < requests:
            part = min(max(1, requests // _SAMPLES), requests - done)
            await self._part(part)
            done += part
            await asyncio.sleep(_QUIET_SECONDS)
            await self._sample(done)

    async def _part(self, count: int) -> None:
        left = iter(range(count))

        async def client() -> None:
            for _ in left:
                await self._one()

        await asyncio.gather(*(client() for _ in range(_AT_ONCE)))

    async def _one(self) -> None:
        thread, length = self._threads.pop() if self._threads and self._chance.random() < 0.5 else (None, 0)
        url = self._chance.choice(self._environment.gateway_urls)
        exchange = Exchange(
            ask=str(uuid.uuid4()),
            account="load",
            form=self._chance.choice(("json", "form1", "form2")),
            gateway=url,
            began=self._clock.now(),
            conversation=thread,
        )
        stays = self._chance.random() >= _LEAVING
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if stays else self._chance.uniform(0.0, 0.3)):
                await self._perform(exchange, urlsplit(url).port or 80)
        outcome = str(exchange.status) if exchange.end == "eof" else exchange.end
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if exchange.end == "eof" and (found := conversation_of(exchange)) and length < _LONGEST_THREAD:
            self._threads.append((found, length + 1))

    async def _perform(self, exchange: Exchange, port: int) -> None:
        found = self._environment
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": found.load_agent_id}
        if exchange.form != "json":
            headers["X-Stream-Form"] = exchange.form[-1]
        body: dict[str, object] = {"message": f"soak {exchange.ask}"}
        if exchange.conversation is not None:
            body["conversation_id"] = exchange.conversation
        await perform(exchange, port, headers, body, self._clock)

    async def _sample(self, done: int) -> None:
        for name in SERVICES:
            tasks = self._folder.path / f"{name}.tasks"
            self.samples.append(await sample(name, self._kin.kept[name], done, tasks))
        self.samples.append(await sample_nats(self._monitor_port, done))
        print(f"{done:,} requests, {self._clock.now():.0f} s", file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def _stack(path: Path) -> AsyncIterator[Soak]:
    folder = RunFolder(path)
    folder.create()
    with folder.locked(), contextlib.closing(Ports()) as ports:
        counts = Counts(gateways=2, orchestrators=2, tool_runners=2)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
        kept = secrets.keep(folder.secrets)
        stack = describe(folder, ports, kept, UpSettings(port=0), counts, environ)
        monitor_port = ports.free()
        processes = [_watched(process, folder, monitor_port) for process in stack.processes]
        async with Kin(processes, Clock()) as kin:
            await kin.wait_ready(60)
            yield Soak(stack.environment, kin, folder, monitor_port)


def _watched(process: Process, folder: RunFolder, monitor_port: int) -> Process:
    """Services count their tasks, NATS has its monitoring port."""
    if process.name == "nats":
        return msgspec.structs.replace(process, argv=(*process.argv, "-m", str(monitor_port)))
    if process.name not in SERVICES:
        return process
    python, dash_m, *rest = process.argv
    env = process.env | {counted.VARIABLE: str(folder.path / f"{process.name}.tasks")}
    return msgspec.structs.replace(process, argv=(python, dash_m, "tests.chaos.counted", *rest), env=env)


def _text(outcomes: dict[str, int], found: list[Growth], seconds: float) -> str:
    told = ", ".join(f"{name} {count:,}" for name, count in sorted(outcomes.items()))
    lines = [f"{sum(outcomes.values()):,} requests in {seconds:.0f} s: {told}"]
    for each in found:
        counts = ", ".join(f"{name} {first} → {last}" for name, (first, last) in each.counts.items() if last)
        memory = f"{each.mib_first:.1f} → {each.mib_last:.1f} MiB ({each.mib_per_10_000:+.2f} each 10,000)"
        lines.append(f"  {each.name}: {memory if each.mib_last else ''} {counts}")
    problems = [problem for each in found for problem in each.problems()]
    return "\n".join([*lines, *(problems or ["nothing grows"])])


async def _soak(requests: int, path: Path) -> Soak:
    async with _stack(path) as soak:
        await soak.run(requests)
        return soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--requests", type=int, default=100_000)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentchat-soak-") as name:
        soak = asyncio.run(_soak(given.requests, Path(name) / "run"))
    found = growths(soak.samples)
    folder = OUTPUT / f"soak-{given.requests}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.json").write_bytes(msgspec.json.format(msgspec.json.encode([soak.samples, found])))
    print(_text(soak.outcomes, found, time.monotonic() - began))
    sys.exit(int(any(each.problems() for each in found)))


if __name__ == "__main__":
    main()
