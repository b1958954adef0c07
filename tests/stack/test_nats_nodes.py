"""`agentchat up --nats-nodes 3`: a cluster of NATS, as the stack has it."""

import asyncio
from pathlib import Path

import nats
import nats.errors
import pytest

from bus import Bus
from bus.streams import STREAMS
from bus.users import OPERATOR, PROVISIONER
from ops.errors import SetupError
from ops.folder import RunFolder
from ops.folder_secrets import Secrets
from ops.ports import Ports
from ops.servers import nats as server
from ops.settings import Counts, UpSettings
from ops.stack import describe
from ops.stack_report import QuietReport
from ops.supervisor import Supervisor

_KEY = "a-key"


def _folder(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.create()
    return folder


async def test_the_nodes_find_each_other_and_hold_every_stream_three_times(
    tmp_path: Path, ports: Ports
) -> None:
    folder = _folder(tmp_path)
    processes, clients = server.processes(folder, ports, 3, key=_KEY)
    assert [each.name for each in processes] == ["nats-1", "nats-2", "nats-3"]
    address = server.urls(clients, _KEY, PROVISIONER)
    async with Supervisor(folder, processes, QuietReport()) as supervisor:
        await supervisor.wait_up(30)
        async with Bus.connect(address, name="test", replicas=3):
            pass
        assert server.for_user(address, _KEY, OPERATOR) == server.urls(clients, _KEY, OPERATOR)
        client = await nats.connect(
            server.urls(clients, _KEY, OPERATOR).split(","), inbox_prefix="_INBOX_operator"
        )
        try:
            found = [await client.jetstream().stream_info(stream["name"]) for stream in STREAMS]
        finally:
            await client.close()
        assert {info.config.num_replicas for info in found} == {3}
        assert {len(info.cluster.replicas or ()) for info in found if info.cluster} == {2}
        assert await _as_a_node(folder) == "Authorization Violation"
    assert server.stored_nodes(folder) == 3


async def _as_a_node(folder: RunFolder) -> str:
    """What who joins without the password is answered."""
    listen = next(
        line for line in (folder.path / "nats-1.conf").read_text().splitlines() if "listen:" in line
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", int(listen.rpartition(":")[2].strip('" ')))
    try:
        writer.write(b'CONNECT {"verbose":false,"name":"nats-9"}\r\nPING\r\n')
        async with asyncio.timeout(10):
            while not (line := await reader.readline()).startswith(b"-ERR"):
                assert line, "the route was closed without a reason"
            return line.decode().partition("'")[2].rpartition("'")[0]
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("count", "stored", "nats_url", "reason"),
    [
        (2, (), None, "there can be 1, 3 or 5 NATS nodes, not 2"),
        (
            3,
            ("jetstream",),
            None,
            "{0} holds the streams of 1 NATS node, not of 3: start as many, or remove it",
        ),
        (
            1,
            ("nats-1", "nats-2", "nats-3"),
            None,
            "{0} holds the streams of 3 NATS nodes, not of 1: start as many, or remove it",
        ),
        (3, (), "nats://elsewhere:4222", "AGENTCHAT_NATS_URL is set: there are no embedded NATS nodes then"),
    ],
)
def test_a_number_of_nodes_that_cannot_work_is_refused_by_name(
    tmp_path: Path, ports: Ports, count: int, stored: tuple[str, ...], nats_url: str | None, reason: str
) -> None:
    folder = _folder(tmp_path)
    for name in stored:
        (folder.nats / name).mkdir()
    settings = UpSettings(port=0, nats_url=nats_url)
    with pytest.raises(SetupError) as caught:
        describe(folder, ports, Secrets(), settings, Counts(nats_nodes=count), {})
    assert str(caught.value) == reason.format(folder.nats)


def test_the_projector_is_told_how_many_replicas_the_nodes_can_hold(tmp_path: Path, ports: Ports) -> None:
    stack = describe(_folder(tmp_path), ports, Secrets(), UpSettings(port=0), Counts(nats_nodes=3), {})
    (projector,) = (each for each in stack.processes if each.name == "projector-1")
    assert projector.env["AGENTCHAT_NATS_REPLICAS"] == "3"
    assert projector.env["AGENTCHAT_NATS_URL"].count("projector:") == 3
    assert stack.environment.nats_url.count("operator:") == 3
