"""`make redelivered`: each request is on the bus two to ten times; the checker judges what came of it.

The copies have the same bytes, and message ids of their own, so that NATS does not know them for duplicates.
Exit code 1: an invariant is violated; 2: too little was done.
"""

import argparse
import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.chaos.plan import make_plan
from tests.chaos.records import History
from tests.chaos.report import report_of, write
from tests.chaos.rig import Rig, running_rig
from tests.chaos.run import OUTPUT, begin, close
from tests.harness import temporary_folder

_REQUESTS = "chat.requests.*"
_MARK = "Chat-Test-Copy"
_MOST = 9
_LATEST_SECONDS = 15.0
_LAST_SECONDS = 300.0


class Copies:
    """Publishes again what it sees, one to nine times within 15 s: at once, or when it is answered."""

    def __init__(self, writer: Client, chance: random.Random) -> None:
        self.published: Counter[str] = Counter()
        """How often each request was on the bus, by the id that its publisher gave it."""
        self._writer = writer
        self._chance = chance
        self._tasks: set[asyncio.Task[None]] = set()

    async def on_message(self, message: Msg) -> None:
        if message.headers and _MARK in message.headers:
            return
        name = str((message.headers or {}).get("Nats-Msg-Id"))
        for number in range(self._chance.randint(1, _MOST)):
            delay = self._chance.uniform(0, _LATEST_SECONDS) if self._chance.random() < 0.7 else 0.0
            copying = asyncio.create_task(self._copy(message, f"{name} {number}", delay))
            self._tasks.add(copying)
            copying.add_done_callback(self._tasks.discard)
            self.published[name] += 1
        self.published[name] += 1

    async def _copy(self, message: Msg, message_id: str, delay: float) -> None:
        await asyncio.sleep(delay)
        headers = (message.headers or {}) | {"Nats-Msg-Id": message_id, _MARK: "1"}
        await self._writer.publish(message.subject, message.data, headers=headers)

    async def done(self) -> None:
        """All are out."""
        while self._tasks:
            await asyncio.gather(*self._tasks)
        await self._writer.flush()


@contextlib.asynccontextmanager
async def copying(rig: Rig, seed: int) -> AsyncIterator[Copies]:
    """While the block runs. The operator may read, a gateway may publish."""
    publisher = rig.kin.kept["gateway-1"].process.env["AGENTCHAT_NATS_URL"]
    reader, writer = await nats.connect(rig.environment.nats_url), await nats.connect(publisher)
    try:
        copies = Copies(writer, random.Random(seed))
        await reader.subscribe(_REQUESTS, cb=copies.on_message)
        await reader.flush()
        yield copies
    finally:
        await reader.close()
        await writer.close()


async def redelivered(seed: int, requests: int, seconds: float, folder: Path) -> tuple[Counter[str], History]:
    """A run on a stack of its own in `folder`; returns how often each message was published."""
    plan = make_plan(seed, requests, seconds, every=seconds * 2)
    async with running_rig(folder, links=False) as rig:
        load, history = begin(rig, seed)
        async with copying(rig, seed) as copies:
            async with asyncio.timeout(seconds + _LAST_SECONDS):
                await load.run(plan.talks)
            await copies.done()
        history.final.healed = rig.clock.now()
        await close(rig, load, history, rebuilds=1)
        return copies.published, history


def text_of(published: Counter[str]) -> str:
    """For a terminal."""
    counts = sorted(published.values()) or [0]
    often = f"{counts[0]} to {counts[-1]} times, {sum(counts) / len(counts):.1f} on average"
    return f"{len(published)} requests, each published {often}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make redelivered")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=8.0)
    given = parser.parse_args()
    with temporary_folder("agentchat-chaos-") as name:
        running = redelivered(given.seed, given.requests, given.minutes * 60, name / "run")
        published, history = asyncio.run(running)
    few = len(published) < given.requests // 2
    report = msgspec.structs.replace(report_of(history), invalid=["few requests were seen"] if few else [])
    write(report, history, OUTPUT / f"redelivered-{given.seed}-{given.requests}")
    print(report.text(), text_of(published), sep="\n")
    sys.exit(1 if report.violations else 2 if few else 0)


if __name__ == "__main__":
    main()
