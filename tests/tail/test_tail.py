"""The feed followed: from anywhere, over outages and over an EVENTS that was lost or is fed again."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from bus import Bus, BusUnavailable, EventSelection
from contracts import events, examples
from contracts.feed import FeedEvent
from tests.bus.nats_server import NatsServer
from tests.tail.feeding import example, fed
from tests.terminal.terminal import CTRL_C, Terminal

ASKED = example(events.MessageSaved)
FAILED = example(events.RunFailed)


async def publish(bus: Bus, *published: FeedEvent) -> None:
    await bus.feed.publish_events(published, await bus.feed.end())


async def following(bus: Bus, wanted: EventSelection, count: int) -> list[int]:
    """The positions of the next `count` events."""
    found: list[int] = []
    async with asyncio.timeout(20), aclosing(bus.feed.follow(wanted, away=_ignored)) as followed:
        async for event in followed:
            found.append(event.position)
            if len(found) == count:
                break
    return found


def _ignored(_: BusUnavailable) -> None:
    """The caller waits for the events."""


async def test_it_begins_at_a_position_at_a_time_or_now_and_takes_what_is_wanted(
    nats_server: NatsServer,
) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await publish(bus, *(fed(ASKED, position) for position in (2, 4, 6)))
        between = datetime.now(UTC)
        await publish(bus, fed(FAILED, 8), fed(ASKED, 10, account_id="other"))
        assert await following(bus, EventSelection(start=1), 5) == [2, 4, 6, 8, 10]
        assert await following(bus, EventSelection(start=5), 3) == [6, 8, 10]
        assert await following(bus, EventSelection(start=between), 2) == [8, 10]
        assert await following(bus, EventSelection(start=1, name="RunFailed"), 1) == [8]
        assert await following(bus, EventSelection(start=1, account_id="other"), 1) == [10]
        now = asyncio.create_task(following(bus, EventSelection(), 1))
        position = 11
        while not now.done():  # it may not have begun yet
            position += 1
            await publish(bus, fed(ASKED, position))
            await asyncio.sleep(0.02)
        assert (await now)[0] > 10


async def test_a_stream_that_is_fed_again_is_read_on_by_position(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        every = [fed(ASKED, position) for position in range(1, 8)]
        await publish(bus, *every[:4])
        found: list[int] = []
        async with (
            asyncio.timeout(20),
            aclosing(bus.feed.follow(EventSelection(start=1), away=_ignored)) as published,
        ):
            async for event in published:
                found.append(event.position)
                if event.position == 4:
                    await bus.feed.publish_events(every, await bus.feed.clear())
                if event.position == 7:
                    break
        assert found == [1, 2, 3, 4, 5, 6, 7]


async def test_the_command_shows_what_comes_waits_for_nats_and_ends_well(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await publish(bus, fed(ASKED, 1))
        with Terminal(
            tmp_path, {"AGENTCHAT_NATS_URL": nats_server.url}, ("tail", "--from", "1"), columns=110
        ) as shown:
            await asyncio.to_thread(shown.see, "user: Where is it?")
            await nats_server.kill(wipe=True)
            await asyncio.to_thread(shown.see, "NATS is away")
            await nats_server.start()
            async with Bus.connect(nats_server.url, name="leader") as leader:
                await publish(leader, fed(ASKED, 1), fed(FAILED, 2))
            await asyncio.to_thread(shown.see, "NATS is back")
            await asyncio.to_thread(shown.see, "provider_timeout: The provider")
            assert shown.text.count("Where is it?") == 1
            assert "\x1b[1;31mRunFailed" in shown.raw
            shown.type(CTRL_C)
            assert await asyncio.to_thread(shown.end) == 0


async def test_json_goes_to_programs_and_a_wrong_start_is_one_sentence(nats_server: NatsServer) -> None:
    async with Bus.connect(nats_server.url, name="test") as bus:
        await publish(bus, fed(ASKED, 3), fed(FAILED, 4))
        process = await _tail(nats_server, ["--from", "1", "--type", "RunFailed", "--json"])
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = json.loads(await process.stdout.readline())
        process.terminate()
        await process.wait()
        assert line["position"] == 4
        assert line["event"]["code"] == "provider_timeout"
        assert line["account_id"] == examples.ACCOUNT
        assert line["conversation_id"] == examples.CONVERSATION
        process = await _tail(nats_server, ["--from", "6"])
        _, printed = await process.communicate()
        assert process.returncode == 2
        assert printed.decode() == "agentchat: there is no position 6 yet: EVENTS ends at 4\n"


async def _tail(server: NatsServer, arguments: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops.main", "tail", *arguments),
        env=os.environ | {"AGENTCHAT_NATS_URL": server.url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
