"""`make soak`: many requests, three in ten left by their clients, and what the processes hold meanwhile.

The stack is that of `agentchat up`, without proxies and without faults.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.chaos.client import perform
from tests.chaos.growth import Growth, Sample, growths
from tests.chaos.load import conversation_of
from tests.chaos.recording import on_a_stack
from tests.chaos.records import Clock, Exchange
from tests.chaos.report import Outcome
from tests.chaos.watched import Watched, watched_stack

_AT_ONCE = 32
_SAMPLES = 20
_LEAVING = 0.3
_QUIET_SECONDS = 2.0
_REST_SECONDS = 65.0
"""Behind the last request: connections that nobody uses are closed after a minute."""
_LONGEST_THREAD = 5


class Soak:
    """Sends requests and samples the processes whenever a part of them is done."""

    def __init__(self, stack: Watched) -> None:
        self.samples: list[Sample] = []
        self.outcomes: dict[str, int] = {}
        self._stack = stack
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
        await asyncio.sleep(_REST_SECONDS)
        await self._sample(done)

    async def _part(self, count: int) -> None:
        left = iter(range(count))

        async def client() -> None:
            for _ in left:
                await self._one()

        await asyncio.gather(*(client() for _ in range(_AT_ONCE)))

    async def _one(self) -> None:
        thread, length = self._threads.pop() if self._threads and self._chance.random() < 0.5 else (None, 0)
        url = self._chance.choice(self._stack.environment.gateway_urls)
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
        found = self._stack.environment
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": found.load_agent_id}
        if exchange.form != "json":
            headers["X-Stream-Form"] = exchange.form[-1]
        body: dict[str, object] = {"message": f"soak {exchange.ask}"}
        if exchange.conversation is not None:
            body["conversation_id"] = exchange.conversation
        await perform(exchange, port, headers, body, self._clock)

    async def _sample(self, done: int) -> None:
        self.samples += await self._stack.samples(done)
        print(f"{done:,} requests, {self._clock.now():.0f} s", file=sys.stderr, flush=True)


def _text(outcomes: dict[str, int], found: list[Growth], seconds: float) -> str:
    told = ", ".join(f"{name} {count:,}" for name, count in sorted(outcomes.items()))
    lines = [f"{sum(outcomes.values()):,} requests in {seconds:.0f} s: {told}"]
    for each in found:
        counts = ", ".join(f"{name} {first} → {last}" for name, (first, last) in each.counts.items() if last)
        memory = f"{each.mib_first:.1f} → {each.mib_last:.1f} MiB ({each.mib_per_10_000:+.2f} each 10,000)"
        lines.append(f"  {each.name}: {memory if each.mib_last else ''} {counts}")
    problems = [problem for each in found for problem in each.problems()]
    return "\n".join([*lines, *(problems or ["nothing grows"])])


async def _soaked(given: argparse.Namespace, path: Path) -> Soak:
    async with watched_stack(path) as stack:
        soak = Soak(stack)
        await soak.run(given.requests)
        return soak


def run(given: argparse.Namespace) -> Outcome:
    """It has failed where something grows."""
    began = time.monotonic()
    soak = on_a_stack(partial(_soaked, given))
    found = growths(soak.samples)
    return Outcome(
        name=f"soak-{given.requests}",
        text=_text(soak.outcomes, found, time.monotonic() - began),
        failed=any(each.problems() for each in found),
        invalid=[],
        files={"soak": [soak.samples, found]},
    )
