"""The example consumers as a reader runs them, on the feed of the whole system."""

import asyncio
import os
import runpy
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import nats
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from agentchat.contracts import events, wire
from agentchat.contracts.examples import ACCOUNT, AT, TRACE
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Usage
from agentchat.ops import demo
from tests.harness import RunningStack

FOLDER = Path(__file__).parents[2] / "examples" / "consumers"
SECONDS = 40


class Example:
    """One of them, under a name of its own."""

    def __init__(self, stack: RunningStack) -> None:
        self._url = stack.environment.nats_url
        self._owner_url = stack.provisioner_url
        self.name = f"test-{make_id()}"

    async def start(self, program: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, str(FOLDER / program), *arguments),
            env=os.environ | {"NATS_URL": self._url, "CONSUMER": self.name},
            stdout=asyncio.subprocess.PIPE,
        )

    async def forget(self) -> None:
        """Have the server lose the consumer."""
        client = await nats.connect(self._owner_url, inbox_prefix="_INBOX_provisioner")
        try:
            await client.jetstream().delete_consumer("EVENTS", self.name)
        except nats.js.errors.NotFoundError:
            pass
        finally:
            await client.close()


@pytest.fixture
async def example(stack: RunningStack) -> AsyncIterator[Example]:
    running = Example(stack)
    yield running
    await running.forget()


async def ask(stack: RunningStack, message: str) -> int:
    """The tokens that the answer took."""
    found = stack.environment
    headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": found.load_agent_id}
    async with httpx.AsyncClient(base_url=found.base_url, headers=headers, timeout=SECONDS) as client:
        reply = await client.post("/v1/chat", json={"message": message})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["message"]["token_count"])


async def wait_until_caught_up(example: Example, file: Path) -> tuple[int, int]:
    """(runs, tokens) of the load account, when the consumer has come to the end of the feed."""
    process = await example.start("tokens_per_hour.py", str(file), "--once")
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    assert process.returncode == 0
    rows = [line.split() for line in out.decode().splitlines()]
    mine = [
        (int(runs), int(tokens)) for _, account_id, runs, tokens in rows if account_id == demo.LOAD_ACCOUNT_ID
    ]
    return sum(runs for runs, _ in mine), sum(tokens for _, tokens in mine)


async def feed_to(file: Path, example: Example, runs: int) -> tuple[int, int]:
    """The feed is some milliseconds behind the reply."""
    async with asyncio.timeout(SECONDS):
        while (found := await wait_until_caught_up(example, file))[0] < runs:
            pass
    return found


async def test_tokens_are_counted_once_over_restarts_and_a_lost_consumer(
    stack: RunningStack, example: Example, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.sqlite"
    first = await ask(stack, "one")
    runs, tokens = await wait_until_caught_up(example, file)
    more = [await ask(stack, f"message {number}") for number in range(3)]
    after = await feed_to(file, example, runs + 3)
    assert after in ((runs + 3, tokens + sum(more)), (runs + 4, tokens + first + sum(more)))
    await example.forget()  # now everything is delivered again
    assert await wait_until_caught_up(example, file) == after


def test_tokens_that_a_model_thought_with_count_once() -> None:
    usage = Usage(input_tokens=5, output_tokens=40, cache_read_tokens=7, reasoning_tokens=24)
    ended = events.RunCompleted(trace_id=TRACE, at=AT, usage=usage, rounds=1)
    message = Msg(
        _client=Client(),
        subject=f"chat.events.{ACCOUNT}.RunCompleted",
        data=wire.encode(ended),
        headers={"Chat-Log-Position": "7"},
    )
    to_row = runpy.run_path(str(FOLDER / "tokens_per_hour.py"))["to_row"]
    assert to_row(message) == (TRACE, ACCOUNT, "2026-11-21T09:00Z", usage.total, 7)


# What was on its way to a consumer that ended comes again only after the 30 s of its acknowledgement.
@pytest.mark.timeout(3 * SECONDS)
async def test_a_consumer_that_was_away_reads_on(stack: RunningStack, example: Example) -> None:
    words = [make_id() for _ in range(4)]
    seen = []
    for pair in (words[:2], words[2:]):
        for word in pair:
            await ask(stack, word)
        process = await example.start("print_messages.py")
        assert process.stdout is not None
        lines: list[str] = []
        async with asyncio.timeout(SECONDS):
            while not any(pair[-1] in line for line in lines):
                lines.append((await process.stdout.readline()).decode())
                assert lines[-1], "the consumer has ended"
        process.terminate()  # Ctrl-C can be lost in asyncio.wait_for on Python 3.11 (CPython gh-86296)
        async with asyncio.timeout(SECONDS):
            await process.wait()
        seen.append("".join(lines))
    assert all(word in seen[0] for word in words[:2])
    assert all(word in seen[1] for word in words[2:])
    assert words[0] not in seen[1]
