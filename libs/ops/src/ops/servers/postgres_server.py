"""The embedded Postgres: its data folder is made completely or not at all, then served on loopback."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
from pathlib import Path
from urllib.parse import quote

from ops.errors import SetupError, StartError
from ops.folder import RunFolder
from ops.folder_secrets import login_password
from ops.ports import LOOPBACK
from ops.probes import PostgresProbe
from ops.process import Process, run_command
from ops.servers.identity import Identity, Other, identity, identity_for, prefixed
from ops.servers.server_files import postgres_install, server_environment, settings_file
from runtime.roles import MEMBERS, OPERATOR, ROLES, SERVICES, role_of

NAME = "postgres"
DATABASE = "agentchat"
SUPERUSER = "postgres"
OWNER = "agentchat_owner"
BACKUP = "agentchat_backup"
"""Copies the server's files and its write-ahead log (`agentchat backup`), and reads no table."""

LOGINS = (OWNER, OPERATOR, BACKUP, *map(role_of, SERVICES))
_VERSION = "18"
_FAST = ("fsync=off", "full_page_writes=off", "max_connections=300")
_END_SECONDS = 5.0


class Cluster:
    """One data folder `postgres` in a run folder.

    `key` makes the passwords (`ops.folder_secrets.login_password`). `fast` is for tests: no durability,
    and the superuser has a password. `who` is as in `identity`, which is asked where it is None. Raises
    SetupError where the server's user cannot reach its files.
    """

    def __init__(
        self, folder: RunFolder, key: str, *, fast: bool = False, who: Identity | None = None
    ) -> None:
        self.data = folder.postgres
        self._folder = folder
        self._key = key
        self._fast = fast
        self._who = identity_for(who or identity(), self._files())
        self._user = (self._who.uid, self._who.gid) if isinstance(self._who, Other) else None

    def process(self, port: int, *, stop_rank: int = 0) -> Process:
        """The server; SIGINT is Postgres's fast shutdown: sessions are cut off, data is flushed."""
        settings = [
            f"config_file={_real(settings_file('postgresql.conf'))}",
            f"hba_file={_real(settings_file('pg_hba.conf'))}",
            f"listen_addresses={LOOPBACK}",
            f"port={port}",
            *(_FAST if self._fast else ()),
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        return Process(
            name=NAME,
            argv=prefixed(self._who, (_program("postgres"), "-D", _real(self.data), *options)),
            env=server_environment(),
            log=self._folder.log(NAME),
            probe=PostgresProbe(port, OWNER, DATABASE, str(self.data / "postmaster.pid")),
            prepare=self.prepare,
            user=self._user,
            stop_rank=stop_rank,
            is_server=True,
            version=_VERSION,
            stop_signal=signal.SIGINT,
            stop_seconds=15.0,
        )

    def url(self, port: int, role: str = OWNER) -> str:
        """The database's address for `role`."""
        password = quote(login_password(self._key, NAME, role), safe="")
        return f"postgresql://{role}:{password}@{LOOPBACK}:{port}/{DATABASE}"

    async def prepare(self) -> None:
        """Make the data folder where there is none, and end processes of an earlier server.

        Then set up the logins. Raises SetupError where there is a folder that cannot be used.
        """
        if _is_empty(self.data):
            await self._create()
        self._check()
        await end_leftovers(self.data)
        await self._make_logins()

    def own(self) -> None:
        """Give the data folder, and all in it, to the server's user."""
        if self._user:
            for path in (self.data, *self.data.rglob("*")):
                os.chown(path, *self._user)

    async def _create(self) -> None:
        """Into a folder next to it, which is renamed when complete; an incomplete one is removed."""
        new = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if self._user:
            os.chown(new, *self._user)
        initdb = ("initdb", "-D", _real(new), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--data-checksums")
        await self._run(*initdb, "--auth=reject", *(("--no-sync",) if self._fast else ()))
        await self._execute(new, "postgres", (f"CREATE DATABASE {DATABASE}",))
        new.replace(self.data)

    async def _make_logins(self) -> None:
        """Again where roles or passwords have changed since the last start."""
        statements = login_statements(self._key, DATABASE, superuser=self._fast)
        digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
        mark = self.data / "agentchat_logins"
        if not mark.exists() or mark.read_text() != digest:
            await self._execute(self.data, DATABASE, statements)
            mark.write_text(digest)

    async def _execute(self, data: Path, database: str, statements: tuple[str, ...]) -> None:
        """In a single-user server, without a network, as the superuser, who has no password."""
        argv = ("postgres", "--single", "-D", _real(data), "-c", "log_min_messages=error", database)
        printed = await self._run(*argv, stdin="".join(f"{statement}\n" for statement in statements))
        wrong = [line for line in printed.splitlines() if "ERROR:" in line or "FATAL:" in line]
        if wrong:
            raise StartError(f"the embedded Postgres cannot be set up: {wrong[0]}")

    async def _run(self, program: str, *arguments: str, stdin: str = "") -> str:
        argv = prefixed(self._who, (_program(program), *arguments))
        output = await run_command(argv, env=server_environment(), user=self._user, stdin=stdin)
        if output.code != 0:
            raise StartError(f"{program} failed: {output.last_line}")
        return output.text

    def _files(self) -> tuple[Path, ...]:
        """What the server reads and writes; its shared libraries are in the folder of the package."""
        settings = (settings_file("postgresql.conf"), settings_file("pg_hba.conf"))
        return (self.data, postgres_install(), *settings)

    def _check(self) -> None:
        version_file = self.data / "PG_VERSION"
        try:
            version = version_file.read_text().strip() if version_file.exists() else ""
            control = (self.data / "global" / "pg_control").exists()
        except OSError as error:
            raise SetupError(f"{self.data} cannot be read: {error.strerror}") from error
        if not (version and control):
            raise SetupError(
                f"{self.data} is not a complete Postgres data folder; restore it, or remove it to start empty"
            )
        if version != _VERSION:
            raise SetupError(f"{self.data} was made by Postgres {version}, and this is Postgres {_VERSION}")
        if self.data.stat().st_uid != (self._user[0] if self._user else os.geteuid()):
            raise SetupError(f"{self.data} belongs to another user; start the stack as that user")


def _program(name: str) -> str:
    return _real(postgres_install() / "bin" / name)


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _is_empty(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


async def end_leftovers(data: Path) -> None:
    """End every server process on the data folder, then remove the lock file."""
    lock_file = data / "postmaster.pid"
    if not lock_file.exists():
        return
    # The postmaster's children end by themselves once it is gone.
    await _end(data, signal.SIGQUIT)
    await _end(data, signal.SIGKILL)
    lock_file.unlink(missing_ok=True)


async def _end(data: Path, number: signal.Signals) -> None:
    for pid in _server_processes(data):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while _server_processes(data):  # noqa: ASYNC110 - they are not our children
                await asyncio.sleep(0.02)


def _server_processes(data: Path) -> list[int]:
    """Every process of a Postgres server works in its data folder."""
    import psutil

    folder = os.path.realpath(data)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == folder and process.pid != os.getpid():
                found.append(process.pid)
    return found


def login_statements(key: str, database: str, *, superuser: bool = False) -> tuple[str, ...]:
    """SQL that is safe to repeat, each statement a line, to be run by the superuser within `database`.

    The superuser has no password, so nobody can log in as it. The owner of the database migrates it and may
    make roles; each service has its own role as login. Passwords are 256 bits that nobody can guess: hashing
    them 4,096 times, as Postgres does for people's, would take 4 ms of each connection.
    """
    passwords = {role: login_password(key, "postgres", role) for role in LOGINS}
    own = f"'{login_password(key, 'postgres', SUPERUSER)}'" if superuser else "NULL"
    return (
        "SET scram_iterations = 1",
        *(_made(role) for role in (OWNER, BACKUP, *ROLES)),
        *(f"ALTER ROLE {role} LOGIN PASSWORD '{password}'" for role, password in passwords.items()),
        f"ALTER ROLE {OWNER} CREATEROLE",
        f"ALTER ROLE {BACKUP} REPLICATION",
        f"ALTER ROLE CURRENT_USER PASSWORD {own}",
        *(f"GRANT {role} TO {OWNER} WITH ADMIN TRUE, INHERIT TRUE, SET TRUE" for role in ROLES),
        *(f"GRANT {role} TO {', '.join(members)}" for role, members in MEMBERS.items()),
        f"ALTER DATABASE {database} OWNER TO {OWNER}",
        "CREATE EXTENSION IF NOT EXISTS vector",
    )


def _made(role: str) -> str:
    there = f"EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}')"
    return f"DO $$ BEGIN IF NOT {there} THEN CREATE ROLE {role}; END IF; END $$"
