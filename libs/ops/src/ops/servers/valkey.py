"""The embedded Valkey server (spoken to as Redis). It holds counters, in memory only."""

from ops.folder import RunFolder
from ops.ports import LOOPBACK
from ops.probes import ValkeyProbe
from ops.process import Process
from ops.servers.files import server_environment, settings_file, valkey_server

NAME = "valkey"


def process(folder: RunFolder, port: int, *, stop_rank: int = 0) -> Process:
    arguments = (settings_file("valkey.conf"), "--bind", LOOPBACK, "--port", port, "--dir", folder.valkey)
    return Process(
        name=NAME,
        argv=(str(valkey_server()), *map(str, arguments)),
        env=server_environment(),
        log=folder.log(NAME),
        probe=ValkeyProbe(port),
        stop_rank=stop_rank,
        stop_seconds=5.0,
    )


def url(port: int) -> str:
    return f"redis://{LOOPBACK}:{port}/0"
