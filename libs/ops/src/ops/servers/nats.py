"""The embedded NATS server, with JetStream."""

from ops.folder import RunFolder
from ops.ports import LOOPBACK
from ops.probes import NatsProbe
from ops.process import Process
from ops.servers.files import nats_server, server_environment, settings_file

NAME = "nats"


def process(folder: RunFolder, port: int, *, stop_rank: int = 0) -> Process:
    """It is ready some 10 ms after its start. SIGTERM ends it, with its streams on disk."""
    arguments = ("-c", settings_file("nats.conf"), "-a", LOOPBACK, "-p", port, "-sd", folder.nats)
    return Process(
        name=NAME,
        argv=(str(nats_server()), *map(str, arguments)),
        env=server_environment(),
        log=folder.log(NAME),
        probe=NatsProbe(port),
        stop_rank=stop_rank,
        stop_seconds=10.0,
    )


def url(port: int) -> str:
    return f"nats://{LOOPBACK}:{port}"
