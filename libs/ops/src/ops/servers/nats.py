"""The embedded NATS server, with JetStream and a user for each service."""

from bus import users
from ops.folder import RunFolder, write_private
from ops.ports import LOOPBACK
from ops.probes import NatsProbe
from ops.process import Process
from ops.secrets import login_password
from ops.servers.files import nats_server, server_environment, settings_file

NAME = "nats"


def process(folder: RunFolder, port: int, *, key: str | None = None, stop_rank: int = 0) -> Process:
    """It is ready some 10 ms after its start. SIGTERM ends it, with its streams on disk.

    `key` makes the users' passwords; without it anybody may do anything, which is for tests.
    """
    settings = settings_file("nats.conf") if key is None else folder.path / "nats.conf"

    async def prepare() -> None:
        if key is not None:
            accounts = users.configuration(lambda user: f'"{login_password(key, NAME, user)}"')
            write_private(settings, f"{settings_file('nats.conf').read_text()}\n{accounts}".encode())

    arguments = ("-c", settings, "-a", LOOPBACK, "-p", port, "-sd", folder.nats)
    return Process(
        name=NAME,
        argv=(str(nats_server()), *map(str, arguments)),
        env=server_environment(),
        log=folder.log(NAME),
        probe=NatsProbe(port),
        prepare=prepare,
        stop_rank=stop_rank,
        stop_seconds=10.0,
    )


def url(port: int, key: str | None = None, user: str = "") -> str:
    """The server for a user, or for anybody."""
    login = "" if key is None else f"{user}:{login_password(key, NAME, user)}@"
    return f"nats://{login}{LOOPBACK}:{port}"
