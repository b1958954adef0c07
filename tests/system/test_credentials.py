"""What the logins of demo.env are good for."""

from agentchat.bus.bus import Bus
from agentchat.ops import connections
from tests.harness import RunningStack


async def test_replay_feed_finds_its_login_in_the_run_folder(
    stack: RunningStack,
) -> None:
    found = connections.find_servers({"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    assert found.provisioner_url == stack.provisioner_url
    assert found.provisioner_url != found.nats_url
    async with Bus.connect(stack.provisioner_url, name="tests") as bus:
        await bus.feed.find_oldest_position()
