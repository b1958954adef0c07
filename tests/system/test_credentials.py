"""What the logins of demo.env are good for."""

import nats
import nats.errors
import pytest

from bus import Bus
from ops.admin import direct
from tests.harness import RunningStack
from tests.system.calling import Caller

pytestmark = pytest.mark.requirement("SERVICE-LOGINS")


async def test_the_operator_of_demo_env_reads_every_stream_and_empties_none(
    stack: RunningStack, caller: Caller
) -> None:
    assert (await caller.chat("Hello.")).status_code == 200
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error))

    client = await nats.connect(stack.environment.nats_url, error_cb=on_error)
    try:
        jetstream = client.jetstream()
        names = [info.config.name for info in await jetstream.streams_info()]
        assert {"REQUESTS", "TOOLS", "TRACES", "RESULTS", "CANCELS", "EVENTS", "DEAD"} <= set(names)
        reading = await jetstream.subscribe("chat.events.>", stream="EVENTS", ordered_consumer=True)
        assert (await reading.next_msg(timeout=40)).subject.startswith("chat.events.")
        pulling = await jetstream.pull_subscribe("chat.events.>", stream="EVENTS")
        assert await pulling.fetch(1, timeout=40)
        before = (await jetstream.stream_info("EVENTS")).state.messages
        assert refused == []
        for call in ("STREAM.PURGE.EVENTS", "STREAM.DELETE.EVENTS", "STREAM.MSG.DELETE.EVENTS"):
            with pytest.raises(nats.errors.TimeoutError):
                await client.request(f"$JS.API.{call}", b'{"seq":1}', timeout=0.2)
        assert len(refused) == 3
        assert (await jetstream.stream_info("EVENTS")).state.messages >= before
    finally:
        await client.close()


async def test_the_command_that_feeds_again_finds_the_login_for_it_in_the_run_folder(
    stack: RunningStack,
) -> None:
    found = direct.find({"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    assert found.provisioner_url == stack.provisioner_url
    assert found.provisioner_url != found.nats_url
    async with Bus.connect(stack.provisioner_url, name="tests") as bus:
        await bus.feed.oldest()
