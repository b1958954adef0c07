"""The nodes of a NATS cluster in the rig: their links to each other and who leads what."""

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import httpx
import msgspec

from ops.probes import HttpProbe
from ops.process import Process

META = "the cluster"
"""The group of all nodes, which places streams and consumers."""
_LISTENS = re.compile(r'listen: "127\.0\.0\.1:(\d+)"')
_NOWHERE = "127.0.0.1:1"
"""What a node tells its peers to connect to, who have proxies for that."""


async def joined(processes: Sequence[Process], link: Callable[[str, int], int]) -> list[Process]:
    """Where there are several nodes, each reaches each other by a `link`, as `nats-1>nats-2`, to its port."""
    nodes = [each for each in processes if each.name.startswith("nats-")]
    ports: dict[str, int] = {}
    for node in nodes:
        await node.prepare()
        ports[node.name] = int(_LISTENS.findall(_settings(node).read_text())[0])
    ways = {
        (a.name, f"127.0.0.1:{ports[b.name]}"): f"127.0.0.1:{link(f'{a.name}>{b.name}', ports[b.name])}"
        for a, b in product(nodes, nodes)
        if a is not b
    }
    return [_routed(each, ways) if each in nodes else each for each in processes]


def _settings(node: Process) -> Path:
    return Path(node.argv[node.argv.index("-c") + 1])


def _routed(node: Process, ways: dict[tuple[str, str], str]) -> Process:
    async def prepare() -> None:
        await node.prepare()
        text = _settings(node).read_text()
        for (name, peer), way in ways.items():
            if name == node.name:
                text = text.replace(f"@{peer}", f"@{way}")
        text = text.replace("  no_advertise: true", f'  no_advertise: true\n  advertise: "{_NOWHERE}"')
        _settings(node).write_text(text)

    return msgspec.structs.replace(node, prepare=prepare)


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
    assert isinstance(node.health, HttpProbe)
    async with httpx.AsyncClient(trust_env=False, timeout=2) as http:
        return await http.get(f"http://127.0.0.1:{node.health.port}{path}")
