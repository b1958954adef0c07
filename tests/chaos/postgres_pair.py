"""Postgres with a standby: made by pg_basebackup, promoted, and the old primary made its standby.

Streaming goes through a proxy, which can hold the log back. Nothing here decides: who promotes has ended the
old primary before, and lets it start again only as a standby.
"""

import asyncio
import functools
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo

from agentchat.ops.errors import StackError
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.free_ports import LOOPBACK, find_free_port
from agentchat.ops.probes import TcpProbe
from agentchat.ops.process import Process, run_command
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.postgres_server import (
    BACKUP,
    DATABASE,
    NAME,
    Cluster,
    end_leftovers,
    find_unprivileged_user,
)
from agentchat.ops.servers.postgres_server import find_program as program_of
from agentchat.ops.servers.server_files import build_server_environment
from tests.chaos.processes import Kept
from tests.support.proxy import Proxy

_CAUGHT_UP_SECONDS = 60.0
SECOND = "postgres-2"
_CANDIDATE = b"synchronous standby\n"


class PostgresPair:
    """Two servers, `postgres` and `postgres-2`; `primary` is the name of the one that is written to."""

    def __init__(self, first: Process, folder: RunFolder, key: str) -> None:
        other = RunFolder(folder.path / SECOND)
        other.create()
        second = Cluster(other, key).process(find_free_port(), stop_rank=first.stop_rank)
        second = msgspec.structs.replace(second, name=SECOND, log=folder.log(SECOND), after=(NAME,))
        self.primary = NAME
        self._data = {NAME: folder.postgres, SECOND: other.postgres}
        self._described = {NAME: first, SECOND: second}
        self._password = derive_password(key, NAME, BACKUP)
        self.link = Proxy(_port(first), find_free_port())

    @property
    def standby(self) -> str:
        return SECOND if self.primary == NAME else NAME

    @property
    def processes(self) -> dict[str, Process]:
        """The first start of the standby is after that of the primary."""
        return {
            name: msgspec.structs.replace(each, prepare=functools.partial(self._prepare, name))
            for name, each in self._described.items()
        }

    def data(self, name: str) -> Path:
        return self._data[name]

    def replace_address(self, text: str) -> str:
        """With both servers in the place of the first, in the address of a database."""
        first, second = (f"{LOOPBACK}:{_port(each)}" for each in self._described.values())
        both = f"@{first},{second}/{DATABASE}?target_session_attrs=read-write"
        return text.replace(f"@{first}/{DATABASE}", both)

    async def promote(self) -> None:
        """Make the standby the primary. Raises StackError."""
        await self._run(self.standby, "pg_ctl", "promote", "-D", str(self._data[self.standby]))
        self.primary = self.standby
        self.link.target = _port(self._described[self.primary])

    async def set_synchronous(self, kept: Mapping[str, Kept], names: str) -> None:
        """Whose standbys' disks commits wait for; "" is nobody's. Raises TimeoutError.

        The log tells that the standby is one of them, and nothing that the checkpointer, which has the same
        signal, has every commit wait: it gets a second more.
        """
        log = kept[self.primary].process.log
        before = log.read_bytes().count(_CANDIDATE)
        self._configure(self.primary, f"synchronous_standby_names = '{names}'")
        kept[self.primary].signal(signal.SIGHUP)
        if names:
            async with asyncio.timeout(_CAUGHT_UP_SECONDS):
                while log.read_bytes().count(_CANDIDATE) == before:  # noqa: ASYNC110 - a log of another
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)

    async def caught_up(self, database_url: str) -> None:
        """Until the standby has what the primary has written by now. Raises TimeoutError."""
        addresses = [
            make_conninfo(
                database_url, host=LOOPBACK, port=_port(self._described[each]), target_session_attrs="any"
            )
            for each in (self.primary, self.standby)
        ]
        async with asyncio.timeout(_CAUGHT_UP_SECONDS):
            written = await _one(addresses[0], "SELECT pg_current_wal_flush_lsn()::text")
            replayed = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
            while await _one(addresses[1], replayed) is not True:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

    async def _prepare(self, name: str) -> None:
        if name == self.primary:
            await self._described[name].prepare()
            return
        data = self._data[name]
        await end_leftovers(data)
        if not data.exists():
            data.mkdir(mode=0o700)
            if self._described[name].run_as:
                user = find_unprivileged_user()
                os.chown(data, user.pw_uid, user.pw_gid)
            await self._run(
                *(name, "pg_basebackup", "-d", self._address(name), "-D", str(data)),
                *("--wal-method=stream", "--checkpoint=fast"),
            )
        (data / "standby.signal").touch()
        password = f"password={self._password}"
        self._configure(name, f"primary_conninfo = '{self._address(name)} {password}'")
        self._configure(name, "synchronous_standby_names = ''")
        self._configure(name, "wal_keep_size = '256MB'")

    def _address(self, name: str) -> str:
        return f"host={LOOPBACK} port={self.link.port} user={BACKUP} application_name={name}"

    def _configure(self, name: str, line: str) -> None:
        with (self._data[name] / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"{line}\n")

    async def _run(self, name: str, program: str, *arguments: str) -> None:
        described = self._described[name]
        env = build_server_environment() | {"PGPASSWORD": self._password}
        argv = (program_of(program), *arguments)
        output = await run_command(argv, env=env, run_as=described.run_as)
        if output.code != 0:
            raise StackError(f"{program} failed: {output.last_line}")


async def _one(address: str, query: str) -> object:
    """What the query gives; None while the server is away."""
    try:
        async with await psycopg.AsyncConnection.connect(address, connect_timeout=2) as connection:
            row = await (await connection.execute(query.encode())).fetchone()
    except psycopg.OperationalError:
        return None
    return row[0] if row else None


def _port(process: Process) -> int:
    assert isinstance(process.probe, TcpProbe)
    return process.probe.port
