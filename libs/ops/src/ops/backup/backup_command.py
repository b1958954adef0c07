"""`agentchat backup`: a base backup of Postgres, and with `--follow` its write-ahead log as it is written."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import msgspec
import psycopg
from psycopg.abc import ConnDict
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ops import environment, folder_secrets, printing
from ops.backup.base_backups import BackupFolder, BackupInfo, info_of, now, verify
from ops.environment import given
from ops.errors import RefusedError
from ops.folder import write_private
from ops.folder_secrets import login_password
from ops.process import Output
from ops.servers.postgres_server import BACKUP, NAME
from ops.servers.postgres_server import program as program_path
from ops.servers.server_files import server_environment

DATABASE_URL = "AGENTCHAT_BACKUP_DATABASE_URL"
SLOT = "agentchat_backup"


class Server(msgspec.Struct, frozen=True):
    """Postgres and the login that may copy it. `address` is libpq's, without the password."""

    address: str
    password: str
    secrets: bytes | None
    """Of the run folder, for an embedded server."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"Server({self.address})"


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. `removed`: the names of older base backups."""

    backup: str
    bytes: int
    ended_at: str
    removed: list[str]


def backup(path: Path, *, follow: bool, keep: int, as_json: bool) -> None:
    """Make it; with `follow` go on until Ctrl-C. Raises StackError."""
    server, folder = _server(), BackupFolder(path)
    folder.create()
    if server.secrets is not None:
        write_private(folder.secrets, server.secrets)
    if follow:  # before the base backup, so that nothing is missing between it and what follows
        _run(server, "pg_receivewal", "--slot", SLOT, "--create-slot", "--if-not-exists")
    done = _base_backup(server, folder, keep)
    if as_json:
        printing.as_json(done)
    else:
        gone = f"; removed {', '.join(done.removed)}" if done.removed else ""
        sys.stdout.write(f"{done.backup}: {done.bytes / 2**20:,.0f} MiB, complete at {done.ended_at}{gone}\n")
        sys.stdout.flush()
    if follow:
        printing.note(f"the write-ahead log goes to {folder.wal} until Ctrl-C")
        asyncio.run(_follow(server, folder))


def _base_backup(server: Server, folder: BackupFolder, keep: int) -> BackedUp:
    began = now()
    made = folder.begin(began)
    try:
        options = ("--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256")
        _run(server, "pg_basebackup", "-D", str(made), *options)
        first_segment = verify(made)
        _check_timeline(folder, first_segment)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    info = BackupInfo(
        began_at=began.isoformat(timespec="milliseconds"),
        ended_at=now().isoformat(timespec="milliseconds"),
        version=metadata.version("agentchat"),
        first_segment=first_segment,
    )
    done = folder.complete(made, info)
    size = sum(file.stat().st_size for file in done.rglob("*") if file.is_file())
    return BackedUp(backup=str(done), bytes=size, ended_at=info.ended_at, removed=folder.remove_older(keep))


def _check_timeline(folder: BackupFolder, first_segment: str) -> None:
    """Raises RefusedError where the folder is of the time before a restore: what it has would be mixed up."""
    if (kept := folder.backups()) and info_of(kept[-1]).first_segment[:8] != first_segment[:8]:
        raise RefusedError(f"{folder.path} is of the time before a restore; back up into another folder", 2)


async def _follow(server: Server, folder: BackupFolder) -> None:
    """pg_receivewal in the foreground: it connects again by itself when the server was away."""
    argv = ("pg_receivewal", *_connection(server), "-D", str(folder.wal), "--slot", SLOT, "--synchronous")
    running = await asyncio.create_subprocess_exec(
        program_path(argv[0]), *argv[1:], env=_environment(server), start_new_session=True
    )
    loop, stopped = asyncio.get_running_loop(), False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        with contextlib.suppress(ProcessLookupError):
            running.send_signal(signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if await running.wait() != 0 and not stopped:
        raise RefusedError("pg_receivewal has ended; its last line above says why")


def _server() -> Server:
    """The one that AGENTCHAT_BACKUP_DATABASE_URL names, or the running stack's. Raises StackError."""
    url = given(os.environ, DATABASE_URL)
    if url is not None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            parts = {}
        if not (parts.get("host") and parts.get("user")):
            raise RefusedError(f"{DATABASE_URL} must name a host and a user", 2)
        return _server_of(parts, None)
    folder = environment.run_folder()
    elsewhere = f"; {DATABASE_URL} names another server"
    parts = conninfo_to_dict(environment.load(folder, elsewhere=elsewhere).database_url)
    kept = folder_secrets.keep(folder.secrets)
    login = {"user": BACKUP, "password": login_password(kept.servers_key, NAME, BACKUP)}
    return _server_of({**parts, **login}, folder.secrets.read_bytes())


def _server_of(parts: ConnDict, secrets: bytes | None) -> Server:
    """A database that is named plays no part: all of them are copied."""
    address = {name: value for name, value in parts.items() if name not in ("password", "dbname", "options")}
    return Server(make_conninfo("", **address), str(parts.get("password") or ""), secrets)


def _run(server: Server, program: str, *arguments: str) -> None:
    """To its end, however long that takes. Raises RefusedError, KeyboardInterrupt."""
    done = subprocess.run(
        (program_path(program), *_connection(server), *arguments),
        env=_environment(server),
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        reason = Output(done.returncode, done.stdout + done.stderr).last_line
        raise RefusedError(f"{program} failed: {reason}")


def _connection(server: Server) -> Sequence[str]:
    return ("-d", server.address, "--no-password")


def _environment(server: Server) -> dict[str, str]:
    return server_environment() | {"PGPASSWORD": server.password, "PGAPPNAME": "agentchat backup"}
