"""A cluster of three NATS nodes in the place of the stack's one server, and who leads what in it."""

import re
from collections.abc import Callable, Mapping, Sequence

import httpx
import msgspec

from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.probes import HttpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import nats

META = "the cluster"
"""The group of all nodes, which places streams and consumers."""
NODES = ("nats-1", "nats-2", "nats-3")
_NOWHERE = "127.0.0.1:1"
"""The address that a node tells its peers: they have proxies to it."""


def client_port(process: Process) -> int:
    """Return the port of a NATS server for clients."""
    return int(process.argv[process.argv.index("-p") + 1])


class NatsCluster:
    """Describes the nodes. Each reaches each other by a `link`, as `nats-1>nats-2`, to its port."""

    def __init__(self, single: Process, folder: RunFolder, key: str, link: Callable[[str, int], int]) -> None:
        self._single = single
        self._folder = folder
        self._key = key
        self._ports = {name: find_free_port() for name in NODES}
        self._routes = {name: find_free_port() for name in NODES}
        self._links = {(a, b): link(f"{a}>{b}", self._routes[b]) for a in NODES for b in NODES if a != b}

    def join_cluster(self, found: Mapping[str, Process]) -> dict[str, Process]:
        """Return the processes with the nodes in the place of the server, and named to all others."""
        others = {
            name: msgspec.structs.replace(
                each,
                env={variable: self.replace_address(value) for variable, value in each.env.items()}
                | ({"AGENTCHAT_NATS_REPLICAS": str(len(NODES))} if name.startswith("projector") else {}),
                after=tuple(
                    node for one in each.after for node in (NODES if one == self._single.name else (one,))
                ),
            )
            for name, each in found.items()
            if name != self._single.name
        }
        return {name: self._node(name) for name in NODES} | others

    def replace_address(self, text: str) -> str:
        """Return an address of the server with all nodes in its place."""
        address = re.compile(rf"nats://([^@,]*@){re.escape(LOOPBACK)}:{client_port(self._single)}\b")
        return address.sub(
            lambda found: ",".join(f"nats://{found[1]}{LOOPBACK}:{port}" for port in self._ports.values()),
            text,
        )

    def _node(self, name: str) -> Process:
        folder = RunFolder(self._folder.path / name)
        folder.create()
        node = nats.describe_process(
            folder, self._ports[name], key=self._key, stop_rank=self._single.stop_rank
        )

        async def prepare() -> None:
            await node.prepare()
            settings = folder.path / "nats.conf"
            settings.write_text(settings.read_text() + self._settings(name))

        assert isinstance(node.probe, HttpProbe)
        # Without its peers a node is not well, and still takes part.
        probe = msgspec.structs.replace(node.probe, path="/healthz?js-enabled-only=true")
        return msgspec.structs.replace(
            node, name=name, log=self._folder.log(name), prepare=prepare, probe=probe
        )

    def _settings(self, name: str) -> str:
        routes = ", ".join(f'"nats://{LOOPBACK}:{port}"' for (a, _), port in self._links.items() if a == name)
        return f"""
server_name: {name}
cluster {{
  name: agentchat
  listen: "{LOOPBACK}:{self._routes[name]}"
  no_advertise: true
  advertise: "{_NOWHERE}"
  routes: [{routes}]
}}
"""


async def leaders(nodes: Sequence[Process]) -> dict[str, str]:
    """The node that leads each stream, and META, by those of the nodes that answer ("Monitoring", /jsz)."""
    found: dict[str, str] = {}
    for node in nodes:
        try:
            shown = await _monitor(node, "/jsz?accounts=true&streams=true")
        except httpx.HTTPError:
            continue
        found[META] = shown.json().get("meta_cluster", {}).get("leader", "") or found.get(META, "")
        for account in shown.json().get("account_details", ()):
            for stream in account.get("stream_detail", ()):
                found[stream["name"]] = stream["cluster"].get("leader", "") or found.get(stream["name"], "")
    return found


async def are_whole(nodes: Sequence[Process]) -> bool:
    """Whether all have all streams and consumers up to date."""
    try:
        return all([(await _monitor(node, "/healthz")).status_code == 200 for node in nodes])
    except httpx.HTTPError:
        return False


async def _monitor(node: Process, path: str) -> httpx.Response:
    assert isinstance(node.probe, HttpProbe)
    async with httpx.AsyncClient(trust_env=False, timeout=2) as http:
        return await http.get(f"http://{LOOPBACK}:{node.probe.port}{path}")
