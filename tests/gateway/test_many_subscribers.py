"""Many clients that subscribe to one run at one gateway."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from bus import Bus, Subscription, Traces
from bus.connection import Connection
from bus.jetstream import JetStream
from contracts import frames
from contracts.updates import Text
from conversations.event_store.log import open_log
from conversations.event_store.store import ConversationStore
from gateway.runs.followed_runs import Runs
from gateway.runs.run_follower import RunFollower
from tests.gateway.conftest import Accounts
from tests.gateway.event_streams import asked
from tests.gateway.stored import write
from tests.gateway.worker import Turn

pytestmark = pytest.mark.requirement("JOIN")


async def test_hundreds_of_subscribers_share_one_nats_subscription(
    fresh_nats_url: str, migrated_database_url: str, accounts: Accounts, store: ConversationStore
) -> None:
    request = asked(accounts)
    await write(store, request)
    async with Bus.connect(fresh_nats_url, name="counted") as bus, open_log(migrated_database_url) as log:
        bus.traces = counted = Counted(bus._connection)
        runs = Runs(bus, log)
        turn = await Turn(bus, request).accept()
        await turn.delta("Hello")
        async with contextlib.AsyncExitStack() as stack:
            enter = stack.enter_async_context
            readers = await asyncio.gather(
                *(
                    enter(
                        runs.follow(
                            request.trace_id,
                            request.conversation_id,
                            streaming=True,
                            from_beginning=True,
                            after_version=1,
                        )
                    )
                    for _ in range(500)
                )
            )
            await turn.delta(" there.")
            await turn.complete()
            for reader in readers:
                assert await _text(reader) == "Hello there."
            assert counted.followed == 1
            assert counted.read_back == 1
            assert len(runs) == 1
        assert len(runs) == 0


async def _text(reader: RunFollower) -> str:
    text = ""
    async with asyncio.timeout(20):
        while True:
            text += "".join(update.text for update in reader.take() if isinstance(update, Text))
            if reader.ended:
                return text
            await reader.wait()


class Counted(Traces):
    """The traces of a bus, which count what they are asked for."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, JetStream(connection))
        self.followed = self.read_back = 0

    def follow_trace(self, trace_id: str, deliver: Callable[[frames.Frame], None]) -> Subscription:
        self.followed += 1
        return super().follow_trace(trace_id, deliver)

    async def frames_of(self, trace_id: str) -> list[frames.Frame]:
        self.read_back += 1
        return await super().frames_of(trace_id)
