"""Every user of NATS tries every subject and call of JetStream, on a real server."""

import asyncio
import contextlib
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from agentchat.bus import nats_users, stream_settings
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import messages, subjects
from agentchat.ops import credentials
from agentchat.ops.free_ports import find_free_port
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import nats as server
from agentchat.ops.servers import valkey
from agentchat.ops.servers.server_files import find_nats_server, find_settings_file
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor

KEY = "a-key"
EVENT = "chat.events.account.RunCompleted"
PUBLISHES = {
    "chat.requests.account": {"gateway", "orchestrator", "projector", "console"},
    "chat.tools.requests.trace": {"orchestrator"},
    "chat.tools.results.trace.call": {"orchestrator", "tool-runner", "provisioner"},
    "chat.traces.trace": {"orchestrator", "tool-runner"},
    "chat.control.cancel.trace": {"gateway", "orchestrator", "provisioner", "console"},
    "chat.commands.account": {"gateway", "operator", "console", "projector"},
    subjects.TOOLS_LIST: {"orchestrator", "operator", "console"},
    subjects.TOOLS_CHECK: {"gateway", "operator", "console"},
    subjects.MODELS_CHECK: {"gateway", "operator", "console"},
    subjects.WHAT_IF: {"operator", "console"},
    EVENT: {"projector", "provisioner"},
    "chat.dead.REQUESTS": {"orchestrator", "tool-runner"},
    "_INBOX_provisioner.x": set[str](),
    "_INBOX_orchestrator.x": {"tool-runner"},
    "$JS.FC.EVENTS.consumer.x": {"operator"},
    "anything": set[str](),
}
SUBSCRIBES = {
    "chat.requests.>": {"operator"},
    "chat.tools.requests.>": {"operator"},
    "chat.tools.results.*.*": {"orchestrator", "operator"},
    "chat.traces.*": {"gateway", "orchestrator", "operator", "console"},
    "chat.control.cancel.*": {"orchestrator", "tool-runner", "operator"},
    "chat.commands.*": {"orchestrator", "operator"},
    subjects.TOOLS_LIST: {"tool-runner", "operator"},
    "chat.events.>": {"operator"},
    "chat.dead.>": {"operator"},
    "_INBOX.>": {"operator"},
    "_INBOX_gateway.>": {"gateway"},
    "$JS.>": set[str](),
    ">": set[str](),
}
READS = {  # of one stream
    subjects.REQUESTS: {"orchestrator", "projector", "operator", "provisioner", "console"},
    subjects.TOOLS: {"orchestrator", "projector", "operator", "provisioner", "console"},
    subjects.TRACES: {"gateway", "orchestrator", "projector", "operator", "provisioner", "console"},
    subjects.RESULTS: {"orchestrator", "tool-runner", "projector", "operator", "provisioner", "console"},
    subjects.CANCELS: {"orchestrator", "tool-runner", "projector", "operator", "provisioner", "console"},
    subjects.EVENTS: {"projector", "operator", "provisioner", "console"},
    subjects.DEAD: {"projector", "operator", "provisioner", "console"},
}
DELETES = {
    subjects.REQUESTS: {"orchestrator", "projector", "provisioner"},
    subjects.TOOLS: {"orchestrator", "projector", "provisioner"},
    subjects.RESULTS: {"projector", "provisioner"},
    subjects.EVENTS: {"projector", "provisioner"},
    subjects.DEAD: {"projector", "provisioner"},
}
TAKES = {
    f"{subjects.REQUESTS}.orchestrator": {"orchestrator", "provisioner"},
    f"{subjects.TOOLS}.tool-runner": {"tool-runner", "provisioner"},
    f"{subjects.EVENTS}.analytics": {"operator", "provisioner"},
}
CALLS = {
    **{f"$JS.API.DIRECT.GET.{stream}": who for stream, who in READS.items()},
    **{f"$JS.API.STREAM.MSG.DELETE.{stream}": who for stream, who in DELETES.items()},
    **{f"$JS.API.CONSUMER.MSG.NEXT.{place}": who for place, who in TAKES.items()},
    **{f"$JS.API.STREAM.{call}.EVENTS": {"provisioner"} for call in ("CREATE", "UPDATE", "DELETE", "PURGE")},
    "$JS.API.STREAM.PURGE.TRACES": {"projector", "provisioner"},
    "$JS.API.STREAM.PURGE.REQUESTS": {"provisioner"},
    "$JS.API.CONSUMER.DELETE.EVENTS.analytics": {"provisioner"},
    "$JS.API.CONSUMER.CREATE.REQUESTS.mine": {"provisioner"},
    "$JS.API.CONSUMER.CREATE.EVENTS.mine": {"operator", "provisioner"},
    "$JS.API.CONSUMER.DELETE.EVENTS.mine": {"operator", "provisioner"},
    "$JS.API.CONSUMER.DELETE.REQUESTS.mine": {"provisioner"},
    "$JS.API.CONSUMER.CREATE.EVENTS.analytics": {"provisioner"},
    "$JS.API.CONSUMER.CREATE.EVENTS.analytics.chat.events.>": {"provisioner"},
    "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.analytics": {"provisioner"},
    "$JS.API.ACCOUNT.PURGE.AGENTCHAT": {"provisioner"},
    "$JS.ACK.REQUESTS.orchestrator.1.1.1.1.1": {"orchestrator"},
    "$JS.ACK.TOOLS.tool-runner.1.1.1.1.1": {"tool-runner"},
}


@pytest.fixture(scope="module")
async def port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    """A server as `up` has it, provisioned."""
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.create()
    port = find_free_port()
    async with Supervisor(
        folder, [server.describe_process(folder, port, key=KEY)], QuietReport()
    ) as supervisor:
        await supervisor.wait_up(20)
        async with Bus.connect(server.build_url(port, KEY, "provisioner"), name="provisioner"):
            yield port


class Tried:
    """One user's connection, and what the server has refused it."""

    def __init__(self, client: Client, refused: list[str]) -> None:
        self.client = client
        self._refused = refused

    async def is_refused(self) -> bool:
        """Return True if the server has refused something since the last look: it answers in order.

        Not by `flush`, which sends its PING ahead of what waits to be sent.
        """
        await self.client.request("$JS.API.INFO", timeout=5)
        refused = bool(self._refused)
        self._refused.clear()
        return refused


@contextlib.asynccontextmanager
async def connect_user(port: int, user: str) -> AsyncIterator[Tried]:
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error))

    client = await nats.connect(
        server.build_url(port, KEY, user),
        inbox_prefix=nats_users.get_inbox_prefix(user),
        error_cb=on_error,
        allow_reconnect=False,
    )
    try:
        yield Tried(client, refused)
    finally:
        await client.close()


@pytest.mark.parametrize("user", nats_users.USERS)
async def test_each_user_has_its_subjects_and_no_others(port: int, user: str) -> None:
    wanted, found = {}, {}
    async with connect_user(port, user) as tried:
        for subject, who in (PUBLISHES | CALLS).items():
            await tried.client.publish(subject, b"no message")
            wanted[subject], found[subject] = user in who, not await tried.is_refused()
        for subject, who in SUBSCRIBES.items():
            subscription = await tried.client.subscribe(subject)
            wanted[f"sub {subject}"], found[f"sub {subject}"] = user in who, not await tried.is_refused()
            with contextlib.suppress(nats.errors.Error):
                await subscription.unsubscribe()
    assert found == wanted


@pytest.mark.parametrize("login", [{}, {"user": "gateway", "pass": "a guess"}], ids=["nobody", "a guess"])
async def test_nobody_gets_in_without_a_password(port: int, login: dict[str, str]) -> None:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()
        writer.write(b"CONNECT %b\r\nPING\r\n" % json.dumps({"verbose": False, **login}).encode())
        assert await reader.readline() == b"-ERR 'Authorization Violation'\r\n"
        writer.close()
        await writer.wait_closed()


async def test_an_operator_deletes_the_consumer_that_it_made(port: int) -> None:
    async with connect_user(port, "operator") as operator:
        jetstream = operator.client.jetstream()
        await jetstream.add_consumer("EVENTS", durable_name="mine", ack_policy="explicit")
        assert await jetstream.delete_consumer("EVENTS", "mine")
        assert [each.name for each in await jetstream.consumers_info("EVENTS")] == ["analytics"]


async def test_analytics_reads_its_consumer_and_reaches_nothing_else(port: int) -> None:
    async with connect_user(port, "provisioner") as owner, connect_user(port, "analytics") as analytics:
        jetstream = owner.client.jetstream()
        await jetstream.publish(EVENT, b'{"type":"run_completed.v1"}')
        before = {name: (await jetstream.stream_info(name)).state.messages for name in READS}
        for subject in (*PUBLISHES, *CALLS):
            await analytics.client.publish(subject, b"{}", reply="chat.requests.account")
        next_message = f"{nats_users.FEED_PREFIX}.CONSUMER.MSG.NEXT.EVENTS.analytics"
        for reply in (
            "chat.requests.account",
            "$JS.API.STREAM.PURGE.EVENTS",
        ):  # what the server would send on
            await analytics.client.publish(next_message, b'{"batch":1,"no_wait":true}', reply=reply)
        await analytics.client.flush()
        feed = analytics.client.jetstream(prefix=nats_users.FEED_PREFIX)
        subscription = await feed.pull_subscribe_bind("analytics", "EVENTS")
        await jetstream.publish(EVENT, b'{"type":"run_completed.v1","second":true}')
        (message,) = await subscription.fetch(1, timeout=20)
        assert json.loads(message.data)["second"]
        await message.ack_sync()
        after = {name: (await jetstream.stream_info(name)).state.messages for name in READS}
        assert after == {**before, "EVENTS": before["EVENTS"] + 1}


async def test_lost_streams_come_back_without_rights_of_services(port: int) -> None:
    async with (
        Bus.connect(server.build_url(port, KEY, "gateway"), name="gateway") as gateway,
        connect_user(port, "provisioner") as owner,
    ):
        for name in reversed(stream_settings.NAMES):
            await owner.client.jetstream().delete_stream(name)
        cancel = messages.CancelRequested(trace_id="0" * 32, account_id="account")
        async with asyncio.timeout(40):
            while True:
                with contextlib.suppress(BusUnavailable):  # for less than two seconds
                    return await gateway.traces.cancel(cancel)


def test_printed_settings_are_valid_with_new_passwords(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "nats.conf"
    settings.write_text(f"{find_settings_file('nats.conf').read_text()}\n{credentials.render_users('nats')}")
    subprocess.run([find_nats_server(), "-t", "-c", settings], check=True, capture_output=True, timeout=20)
    passwords = re.findall(
        r'password: "([^"]{40,})"', credentials.render_users("nats") + credentials.render_users("nats")
    )
    assert len(set(passwords)) == len(passwords) == 2 * len(nats_users.NAMES)
    assert {line.split()[1] for line in credentials.render_users("redis").splitlines()} == {
        "default",
        *valkey.USERS,
    }
