"""Describe the embedded Postgres. Its data folder is created completely or not at all."""

import asyncio
import hashlib
import os
import pwd
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentchat.ops.errors import SetupError, StartError
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.free_ports import LOOPBACK
from agentchat.ops.probes import TcpProbe
from agentchat.ops.process import Process, run_command
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.server_files import (
    build_server_environment,
    find_postgres_install,
    find_settings_file,
)
from agentchat.runtime.database_roles import ANALYST, DEFAULTS, MEMBERS, OPERATOR, ROLES, SERVICES, get_role

if TYPE_CHECKING:
    import psutil

NAME = "postgres"
DATABASE = "agentchat"
SUPERUSER = "postgres"
OWNER = "agentchat_owner"
BACKUP = "agentchat_backup"
"""Copies the server's files and its write-ahead log (`agentchat backup`), and reads no table."""

LOGINS = (OWNER, OPERATOR, ANALYST, BACKUP, *map(get_role, SERVICES))
_VERSION = "18"
_FAST = ("fsync=off", "full_page_writes=off", "max_connections=300")
_END_SECONDS = 5.0
_USERS = ("postgres", "nobody")
_CAPABILITIES = "+dac_override,+dac_read_search"


class Cluster:
    """The data folder `postgres` in a run folder.

    Args:
        folder: The run folder.
        key: Key from which passwords are derived (`ops.folder_secrets.derive_password`).
        fast: For tests: no durability, and the superuser has a password.

    Raises:
        SetupError: The stack runs as root, and there is no other user to run Postgres.
    """

    def __init__(self, folder: RunFolder, key: str, *, fast: bool = False) -> None:
        self.data = folder.postgres
        self._folder = folder
        self._key = key
        self._fast = fast
        self._user = find_unprivileged_user() if os.geteuid() == 0 else None
        self._run_as = () if self._user is None else build_setpriv_options(self._user)

    def process(self, port: int, *, stop_rank: int = 0) -> Process:
        """Describe the server. SIGINT is Postgres' fast shutdown: sessions are cut, data is flushed."""
        settings = [
            f"config_file={find_settings_file('postgresql.conf')}",
            f"hba_file={find_settings_file('pg_hba.conf')}",
            f"listen_addresses={LOOPBACK}",
            f"port={port}",
            *(_FAST if self._fast else ()),
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        return Process(
            name=NAME,
            argv=(find_program("postgres"), "-D", str(self.data), *options),
            env=build_server_environment(),
            log=self._folder.log(NAME),
            probe=TcpProbe(port, str(self.data / "postmaster.pid")),
            prepare=self.prepare,
            run_as=self._run_as,
            stop_rank=stop_rank,
            is_server=True,
            version=_VERSION,
            stop_signal=signal.SIGINT,
            stop_seconds=15.0,
        )

    def url(self, port: int, role: str = OWNER) -> str:
        """Return the database's address for `role`."""
        password = quote(derive_password(self._key, NAME, role), safe="")
        return f"postgresql://{role}:{password}@{LOOPBACK}:{port}/{DATABASE}"

    async def prepare(self) -> None:
        """Create the data folder if needed, end processes of a killed server, and set up the logins.

        Raises:
            SetupError: The data folder cannot be used.
        """
        if not self.data.exists() or (self.data.is_dir() and not any(self.data.iterdir())):
            await self._create()
        self._check()
        await end_leftovers(self.data)
        await self._make_logins()

    def take_ownership(self) -> None:
        """Make the server's user the owner of the data folder and all its files."""
        if self._user:
            for path in (self.data, *self.data.rglob("*")):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)

    async def _create(self) -> None:
        """Create the data in a folder next to it, which is renamed when complete."""
        new = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if self._user:
            os.chown(new, self._user.pw_uid, self._user.pw_gid)
        initdb = ("initdb", "-D", str(new), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--data-checksums")
        await self._run(*initdb, "--auth=reject", *(("--no-sync",) if self._fast else ()))
        await self._execute(new, "postgres", (f"CREATE DATABASE {DATABASE}",))
        new.replace(self.data)

    async def _make_logins(self) -> None:
        """Run the statements again if roles or passwords have changed since the last start."""
        statements = list_login_statements(self._key, DATABASE, superuser=self._fast)
        digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
        mark = self.data / "agentchat_logins"
        if not mark.exists() or mark.read_text() != digest:
            await self._execute(self.data, DATABASE, statements)
            mark.write_text(digest)

    async def _execute(self, data: Path, database: str, statements: tuple[str, ...]) -> None:
        """Run statements in a single-user server, as the superuser, who has no password."""
        argv = ("postgres", "--single", "-D", str(data), "-c", "log_min_messages=error", database)
        printed = await self._run(*argv, stdin="".join(f"{statement}\n" for statement in statements))
        wrong = [line for line in printed.splitlines() if "ERROR:" in line or "FATAL:" in line]
        if wrong:
            raise StartError(f"the embedded Postgres cannot be set up: {wrong[0]}")

    async def _run(self, name: str, *arguments: str, stdin: str = "") -> str:
        output = await run_command(
            (find_program(name), *arguments), env=build_server_environment(), run_as=self._run_as, stdin=stdin
        )
        if output.code != 0:
            raise StartError(f"{name} failed: {output.last_line}")
        return output.text

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
        if self.data.stat().st_uid != (self._user.pw_uid if self._user else os.geteuid()):
            raise SetupError(f"{self.data} belongs to another user; start the stack as that user")


def find_unprivileged_user() -> pwd.struct_passwd:
    """Find a user to run Postgres, which refuses to run as root. Raises SetupError."""
    for name in _USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise SetupError(
        f"Postgres does not run as root, and this machine has no user named {' or '.join(_USERS)}; "
        "start the stack as an ordinary user, or set AGENTCHAT_DATABASE_URL"
    )


def build_setpriv_options(user: pwd.struct_passwd) -> tuple[str, ...]:
    """Return options of setpriv(1) for a user with access to folders of root, such as /root.

    Raises:
        SetupError: There is no setpriv.
    """
    if shutil.which("setpriv") is None:
        raise SetupError("Postgres does not run as root: install setpriv (util-linux), or start as a user")
    identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return (*identity, f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}")


def find_program(name: str) -> str:
    """Return the path of one of Postgres' programs."""
    return str(find_postgres_install() / "bin" / name)


async def end_leftovers(data: Path) -> None:
    """Kill processes that a killed server left on the data folder, and remove its lock file."""
    import psutil

    lock_file = data / "postmaster.pid"
    if not lock_file.exists():
        return
    left = [each for each in psutil.process_iter() if _is_working_in(each, data)]
    for process in left:
        process.kill()
    await asyncio.to_thread(psutil.wait_procs, left, _END_SECONDS)
    lock_file.unlink(missing_ok=True)


def _is_working_in(process: "psutil.Process", folder: Path) -> bool:
    """Return True for a process of the server on this folder, which is their working directory."""
    import psutil

    try:
        return bool(process.cwd() == os.path.realpath(folder))
    except (psutil.Error, OSError):
        return False


def list_login_statements(key: str, database: str, *, superuser: bool = False) -> tuple[str, ...]:
    """Return SQL that is safe to repeat, a statement a line, for the superuser within `database`.

    The superuser has no password, so nobody can log in as it. The owner of the database migrates it and may
    make roles; each service has its own role as login. Passwords are 256 bits that nobody can guess: hashing
    them 4,096 times, as Postgres does for people's, would take 4 ms of each connection.
    """
    passwords = {role: derive_password(key, "postgres", role) for role in LOGINS}
    own = f"'{derive_password(key, 'postgres', SUPERUSER)}'" if superuser else "NULL"
    return (
        "SET scram_iterations = 1",
        *(_create_role(role) for role in (OWNER, BACKUP, *ROLES)),
        *(f"ALTER ROLE {role} LOGIN PASSWORD '{password}'" for role, password in passwords.items()),
        *(f"ALTER ROLE {role} SET {default}" for role, each in DEFAULTS.items() for default in each),
        f"ALTER ROLE {OWNER} CREATEROLE",
        f"ALTER ROLE {BACKUP} REPLICATION",
        f"ALTER ROLE CURRENT_USER PASSWORD {own}",
        *(f"GRANT {role} TO {OWNER} WITH ADMIN TRUE, INHERIT TRUE, SET TRUE" for role in ROLES),
        *(f"GRANT {role} TO {', '.join(members)}" for role, members in MEMBERS.items()),
        f"ALTER DATABASE {database} OWNER TO {OWNER}",
        "CREATE EXTENSION IF NOT EXISTS vector",
    )


def _create_role(role: str) -> str:
    exists = f"EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}')"
    return f"DO $$ BEGIN IF NOT {exists} THEN CREATE ROLE {role}; END IF; END $$"
