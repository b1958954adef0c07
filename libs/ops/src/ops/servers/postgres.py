"""The embedded Postgres: its data folder is made whole or not at all, then served on loopback by password."""

import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from ops.commands import run_command
from ops.errors import SetupError, StartError
from ops.folder import RunFolder
from ops.ports import LOOPBACK
from ops.probes import PostgresProbe
from ops.process import Process
from ops.servers.files import postgres_install, server_environment, settings_file
from ops.servers.identity import Identity, Other, identity, prefixed
from ops.servers.leftovers import end_leftovers

NAME = "postgres"
OWNER = "agentchat"
DATABASE = "agentchat"
_VERSION = "18"
_SETTINGS = ("postgresql.conf", "pg_hba.conf")
_FAST = ("fsync=off", "full_page_writes=off", "max_connections=300")


class Cluster:
    """One data folder `postgres` in a run folder.

    `fast` gives up durability, for tests. `who` is as in `identity`, which is asked where it is None.
    """

    def __init__(
        self, folder: RunFolder, password: str, *, fast: bool = False, who: Identity | None = None
    ) -> None:
        self.data = folder.postgres
        self._folder = folder
        self._password = password
        self._fast = fast
        self._who = who or identity()
        self._user = (self._who.uid, self._who.gid) if isinstance(self._who, Other) else None
        self._copies = folder.path / "postgres-program"

    def process(self, port: int, *, stop_rank: int = 0) -> Process:
        """The server; SIGINT is Postgres's fast shutdown: sessions are cut off, data is flushed."""
        settings = [
            f"config_file={self._settings('postgresql.conf')}",
            f"hba_file={self._settings('pg_hba.conf')}",
            f"listen_addresses={LOOPBACK}",
            f"port={port}",
            *(_FAST if self._fast else ()),
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        return Process(
            name=NAME,
            argv=prefixed(self._who, (self._program("postgres"), "-D", str(self.data), *options)),
            env=server_environment(),
            log=self._folder.log(NAME),
            probe=PostgresProbe(port, OWNER, DATABASE),
            prepare=self.prepare,
            user=self._user,
            stop_rank=stop_rank,
            stop_signal=signal.SIGINT,
            stop_seconds=15.0,
        )

    def url(self, port: int) -> str:
        """The owner's."""
        return f"postgresql://{OWNER}:{quote(self._password, safe='')}@{LOOPBACK}:{port}/{DATABASE}"

    async def prepare(self) -> None:
        """Make the data folder where there is none, and end what an earlier server has left.

        Raises SetupError where there is one that cannot be used.
        """
        if isinstance(self._who, Other):
            self._copy_program()
        if _is_empty(self.data):
            await self._create()
        self._check()
        await end_leftovers(self.data)

    async def _create(self) -> None:
        """Into a folder beside, which is renamed when complete: one that was cut short is thrown away."""
        new = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if self._user:
            os.chown(new, *self._user)
        initdb = ("initdb", "-D", str(new), "-U", OWNER, "-E", "UTF8", "--locale=C", "--data-checksums")
        await self._run(*initdb, "--auth=reject", *(("--no-sync",) if self._fast else ()))
        # A server for one session, without a network: nobody can reach it before it has a password.
        await self._run(
            *("postgres", "--single", "-D", str(new), "-c", "log_min_messages=error", "postgres"),
            stdin=f"ALTER ROLE {OWNER} PASSWORD '{self._password}';\nCREATE DATABASE {DATABASE};\n",
        )
        new.replace(self.data)

    async def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        argv = prefixed(self._who, (self._program(program), *arguments))
        output = await run_command(argv, env=server_environment(), user=self._user, stdin=stdin)
        if output.code != 0:
            raise StartError(f"{program} failed: {output.last_line}")

    def _check(self) -> None:
        version_file = self.data / "PG_VERSION"
        try:
            version = version_file.read_text().strip() if version_file.exists() else ""
            control = (self.data / "global" / "pg_control").exists()
        except OSError as error:
            raise SetupError(f"{self.data} cannot be read: {error.strerror}") from error
        if not (version and control):
            raise SetupError(
                f"{self.data} is not a complete Postgres data folder; put it back, or remove it to begin anew"
            )
        if version != _VERSION:
            raise SetupError(f"{self.data} was made by Postgres {version}, and this is Postgres {_VERSION}")
        if self.data.stat().st_uid != (self._user[0] if self._user else os.geteuid()):
            raise SetupError(f"{self.data} belongs to another user; start the stack as that user")

    def _program(self, name: str) -> str:
        install = self._copies / postgres_install().parent.name / postgres_install().name
        return str((install if self._user else postgres_install()) / "bin" / name)

    def _settings(self, name: str) -> Path:
        return self._copies / name if self._user else settings_file(name)

    def _copy_program(self) -> None:
        """Copies, because the other user may not be able to read where the originals are.

        The package's folder and the one of its shared libraries stay side by side, where they look for them.
        """
        package = postgres_install().parent
        if not self._copies.exists():
            new = self._copies.with_name(self._copies.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(postgres_install(), new / package.name / postgres_install().name, symlinks=True)
            libraries = package.with_name(package.name + ".libs")
            if libraries.exists():
                shutil.copytree(libraries, new / libraries.name, symlinks=True)
            new.replace(self._copies)
        for name in _SETTINGS:
            shutil.copyfile(settings_file(name), self._copies / name)


def _is_empty(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
