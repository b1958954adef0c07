"""`agentchat backup`: make a base backup of Postgres, and with `--follow` archive its write-ahead log."""

import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentchat.ops import demo_env, folder_secrets, printing
from agentchat.ops.backup.base_backups import BackupFolder, read_end_time, read_first_segment, verify
from agentchat.ops.demo_env import get_variable
from agentchat.ops.errors import RefusedError
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.run_folder import write_private
from agentchat.ops.servers.postgres_server import BACKUP, NAME, find_program
from agentchat.ops.servers.server_files import build_server_environment

_DATABASE_URL = "AGENTCHAT_BACKUP_DATABASE_URL"
_SLOT = ("--slot", "agentchat_backup")
_OPTIONS = ("--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256")


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A completed backup, as `--json` prints it. `removed` names deleted older base backups."""

    backup: str
    bytes: int
    ended_at: str
    removed: list[str]


def back_up(path: Path, *, follow: bool, keep: int, as_json: bool) -> None:
    """Make a base backup; with `follow`, archive the write-ahead log until Ctrl-C. Raises StackError."""
    folder = BackupFolder(path)
    server = _PostgresTools(_find_login(folder))
    if follow:  # before the base backup, so that nothing is missing between it and what follows
        server.run("pg_receivewal", *_SLOT, "--create-slot", "--if-not-exists")
    done = _make_base_backup(server, folder, keep)
    if as_json:
        printing.print_json(done)
    else:
        gone = f"; removed {', '.join(done.removed)}" if done.removed else ""
        sys.stdout.write(f"{done.backup}: {done.bytes / 2**20:,.0f} MiB, complete at {done.ended_at}{gone}\n")
        sys.stdout.flush()
    if follow:
        printing.print_note(f"archiving the write-ahead log to {folder.wal}; Ctrl-C stops")
        server.follow("pg_receivewal", *_SLOT, "-D", str(folder.wal), "--synchronous")


def _make_base_backup(server: "_PostgresTools", folder: BackupFolder, keep: int) -> BackedUp:
    shutil.rmtree(folder.unfinished, ignore_errors=True)
    server.run("pg_basebackup", "-D", str(folder.unfinished), *_OPTIONS)
    verify(folder.unfinished)
    timelines = {read_first_segment(each)[:8] for each in (*folder.list_backups()[-1:], folder.unfinished)}
    if len(timelines) > 1:  # what the folder has would be mixed up
        shutil.rmtree(folder.unfinished)
        raise RefusedError(f"{folder.path} holds backups from before a restore; back up to another folder", 2)
    done = folder.complete(datetime.now(UTC))
    return BackedUp(
        backup=str(done),
        bytes=sum(file.stat().st_size for file in done.rglob("*") if file.is_file()),
        ended_at=read_end_time(done).isoformat(timespec="milliseconds"),
        removed=folder.remove_older(keep),
    )


def _find_login(folder: BackupFolder) -> dict[str, str]:
    """Return the login of AGENTCHAT_BACKUP_DATABASE_URL, or the running stack's.

    Creates the backup folder, with the secrets of the stack.

    Raises:
        StackError
    """
    if (url := get_variable(os.environ, _DATABASE_URL)) is not None:
        try:
            login = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            login = {}
        if not (login.get("host") and login.get("user")):
            raise RefusedError(f"{_DATABASE_URL} must name a host and a user", 2)
        folder.create()
    else:
        run_folder = demo_env.find_run_folder()
        stack = demo_env.load(run_folder, elsewhere=f"; {_DATABASE_URL} names another server")
        key = folder_secrets.load_or_create_secrets(run_folder.secrets).servers_key
        login = conninfo_to_dict(stack.database_url)
        login |= {"user": BACKUP, "password": derive_password(key, NAME, BACKUP)}
        folder.create()
        write_private(folder.secrets, run_folder.secrets.read_bytes())
    # All databases are copied.
    return {name: str(value) for name, value in login.items() if name not in ("dbname", "options")}


class _PostgresTools:
    """Postgres' own programs, connected as a login that may copy the server."""

    def __init__(self, login: dict[str, str]) -> None:
        password = login.pop("password", "")
        self._connection = ("-d", make_conninfo("", **login), "--no-password")
        self._environ = build_server_environment() | {"PGPASSWORD": password, "PGAPPNAME": "agentchat backup"}

    def run(self, name: str, *arguments: str) -> None:
        """Run a program to its end, without a time limit. Raises RefusedError."""
        command = (find_program(name), *self._connection, *arguments)
        done = subprocess.run(
            command, env=self._environ, check=False, capture_output=True, text=True, errors="replace"
        )
        if done.returncode != 0:
            reason = (done.stdout + done.stderr).strip().rpartition("\n")[2] or f"exit code {done.returncode}"
            raise RefusedError(f"{name} failed: {reason}")

    def follow(self, name: str, *arguments: str) -> None:
        """Run a program until SIGINT or SIGTERM; pg_receivewal connects again if the server was away."""
        command = (find_program(name), *self._connection, *arguments)
        running = subprocess.Popen(command, env=self._environ, start_new_session=True)
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True
            running.send_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        if running.wait() != 0 and not stopped:
            raise RefusedError(f"{name} ended unexpectedly; see its last line above")
