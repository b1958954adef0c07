"""Many who read one run at one gateway."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from bus import Bus, Subscription
from bus.connection import Connection
from contracts import frames
from contracts.updates import Text
from conversations.log import open_log
from conversations.store import ConversationStore
from gateway.runs import Runs
from gateway.stories import Reader, Stories
from tests.gateway.conftest import Accounts
from tests.gateway.event_streams import asked
from tests.gateway.stored import write
from tests.gateway.worker import Turn

pytestmark = pytest.mark.requirement("JOIN")


async def test_hundreds_of_watchers_are_one_subscription_and_one_reading(
    fresh_nats_url: str, migrated_database_url: str, accounts: Accounts, store: ConversationStore
) -> None:
    request = asked(accounts)
    await write(store, request)
    async with Counted.connect(fresh_nats_url, name="counted") as bus, open_log(migrated_database_url) as log:
        assert isinstance(bus, Counted)
        runs = Runs(bus, log)
        stories = Stories(runs)
        turn = await Turn(bus, request).accept()
        await turn.delta("Hello")
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            readers = await asyncio.gather(
                *(
                    enter(stories.read(request.trace_id, request.conversation_id, mark=None, after_version=1))
                    for _ in range(500)
                )
            )
            await turn.delta(" there.")
            await turn.complete()
            for reader in readers:
                assert await _text(reader) == "Hello there."
            assert (bus.followed, bus.read_back, len(runs), len(stories)) == (1, 1, 1, 1)
        assert (len(runs), len(stories)) == (0, 0)


async def _text(reader: Reader) -> str:
    text = ""
    async with asyncio.timeout(20):
        while True:
            taken = [entry.update for entry in reader.take()]
            text += "".join(update.text for update in taken if isinstance(update, Text))
            if reader.ended:
                return text
            await reader.wait()


class Counted(Bus):
    """A bus that counts what it is asked for."""

    def __init__(self, link: Connection, replicas: int) -> None:
        super().__init__(link, replicas)
        self.followed = self.read_back = 0

    async def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        self.followed += 1
        return await super().follow_trace(trace_id, deliver)

    async def frames_of(self, trace_id: str) -> list[frames.Frame]:
        self.read_back += 1
        return await super().frames_of(trace_id)
