"""A Postgres of a test's own, which it may freeze, stop and start again."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg

from agentchat.ops.servers.server_files import find_postgres_install
from tests.ports import find_free_port

_BIN = find_postgres_install() / "bin"
_FAST = ("fsync=off", "full_page_writes=off", "listen_addresses=127.0.0.1")


class PostgresServer:
    """One cluster on a free loopback port, which it keeps over restarts; no durability."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "postgres"
        self._folder = folder
        self.port = find_free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    async def create(self) -> None:
        arguments = ["-D", str(self.data), "-U", "postgres", "--auth=trust", "--no-sync", "--locale=C"]
        process = await self._spawn("initdb", [*arguments, "-E", "UTF8"])
        assert await process.wait() == 0

    async def start(self, *more: str) -> None:
        """`more` are settings, name=value."""
        settings = [*_FAST, *more, f"port={self.port}", f"unix_socket_directories={self._folder}"]
        options = [word for setting in settings for word in ("-c", setting)]
        self._process = await self._spawn("postgres", ["-D", str(self.data), *options])
        async with asyncio.timeout(30):
            await self._wait_until_up()

    def copy(self, folder: Path) -> "PostgresServer":
        """With the data of this one, which is stopped."""
        folder.mkdir()
        server = PostgresServer(folder)
        shutil.copytree(self.data, server.data)
        return server

    def follow(self, primary: "PostgresServer") -> None:
        """Be its standby from the next start on: asynchronous, unless it names `standby` as synchronous."""
        (self.data / "standby.signal").touch()
        address = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{address}'\n")

    async def promote(self) -> None:
        process = await self._spawn("pg_ctl", ["promote", "-D", str(self.data)])
        assert await process.wait() == 0

    async def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        await self._process.wait()

    async def crash(self) -> None:
        """All of its processes end at once, and what was in their memory is gone."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        await self._process.wait()

    def freeze(self) -> None:
        """The server first, so that it starts no more processes."""
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]

    async def _wait_until_up(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.url, connect_timeout=2):
                    return
            except psycopg.OperationalError:
                await asyncio.sleep(0.05)

    async def _spawn(self, program: str, arguments: Sequence[str]) -> asyncio.subprocess.Process:
        # Postgres refuses to run as root: in a user namespace it is not.
        prefix = ["unshare", "--user", "--map-user=1000"] if os.geteuid() == 0 else []
        log = (self._folder / "postgres.log").open("ab")
        with log:
            return await asyncio.create_subprocess_exec(
                *prefix, str(_BIN / program), *arguments, stdout=log, stderr=log
            )
