"""`make redelivered`: each request is on the bus two to ten times; the checker judges what came of it.

The copies have the same bytes, and message ids of their own, so that NATS does not know them for duplicates.
"""

import argparse
import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.chaos.plan import make_plan
from tests.chaos.recording import on_a_stack, recorded
from tests.chaos.records import History
from tests.chaos.report import Outcome, outcome_of
from tests.chaos.rig import Rig

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


async def _redelivered(given: argparse.Namespace, folder: Path) -> tuple[Counter[str], History]:
    """How often each message was published."""
    seconds = given.minutes * 60
    plan = make_plan(given.seed, given.requests, seconds, every=seconds * 2)
    async with recorded(folder, given.seed, links=False) as (rig, load, history):
        async with copying(rig, given.seed) as copies:
            async with asyncio.timeout(seconds + _LAST_SECONDS):
                await load.run(plan.talks)
            await copies.done()
        return copies.published, history


def text_of(published: Counter[str]) -> str:
    """For a terminal."""
    counts = sorted(published.values()) or [0]
    often = f"{counts[0]} to {counts[-1]} times, {sum(counts) / len(counts):.1f} on average"
    return f"{len(published)} requests, each published {often}"


def run(given: argparse.Namespace) -> Outcome:
    published, history = on_a_stack(partial(_redelivered, given))
    few = len(published) < given.requests // 2
    return outcome_of(
        f"redelivered-{given.seed}-{given.requests}",
        history,
        text=text_of(published),
        invalid=["few requests were seen"] if few else [],
    )
