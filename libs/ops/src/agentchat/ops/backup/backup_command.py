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

from agentchat.ops import environment, folder_secrets, printing
from agentchat.ops.backup.base_backups import BackupFolder, read_end_time, read_first_segment, verify
from agentchat.ops.environment import get_variable
from agentchat.ops.errors import RefusedError
from agentchat.ops.folder import write_private
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.process import Output
from agentchat.ops.servers.postgres_server import BACKUP, NAME, find_program
from agentchat.ops.servers.server_files import build_server_environment

_DATABASE_URL = "AGENTCHAT_BACKUP_DATABASE_URL"
_SLOT = "agentchat_backup"
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
    server = _Server.find(folder)
    if follow:  # before the base backup, so that nothing is missing between it and what follows
        server.run("pg_receivewal", "--slot", _SLOT, "--create-slot", "--if-not-exists")
    done = _make_base_backup(server, folder, keep)
    if as_json:
        printing.print_json(done)
    else:
        gone = f"; removed {', '.join(done.removed)}" if done.removed else ""
        sys.stdout.write(f"{done.backup}: {done.bytes / 2**20:,.0f} MiB, complete at {done.ended_at}{gone}\n")
        sys.stdout.flush()
    if follow:
        printing.print_note(f"archiving the write-ahead log to {folder.wal}; Ctrl-C stops")
        server.follow(folder)


def _make_base_backup(server: "_Server", folder: BackupFolder, keep: int) -> BackedUp:
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


class _Server:
    """A Postgres server and the login that may copy it."""

    def __init__(self, url: str, **login: str) -> None:
        parts = conninfo_to_dict(url) | login
        password = str(parts.pop("password", None) or "")
        for name in ("dbname", "options"):  # all databases are copied
            parts.pop(name, None)
        self._connection = ("-d", make_conninfo("", **parts), "--no-password")
        self._environ = build_server_environment() | {"PGPASSWORD": password, "PGAPPNAME": "agentchat backup"}

    @classmethod
    def find(cls, folder: BackupFolder) -> "_Server":
        """Return the server of AGENTCHAT_BACKUP_DATABASE_URL, or the running stack's.

        Creates the backup folder, with the secrets of the stack.

        Raises:
            StackError
        """
        if (url := get_variable(os.environ, _DATABASE_URL)) is not None:
            try:
                parts = conninfo_to_dict(url)
            except psycopg.ProgrammingError:
                parts = {}
            if not (parts.get("host") and parts.get("user")):
                raise RefusedError(f"{_DATABASE_URL} must name a host and a user", 2)
            folder.create()
            return cls(url)
        run_folder = environment.find_run_folder()
        url = environment.load(run_folder, elsewhere=f"; {_DATABASE_URL} names another server").database_url
        key = folder_secrets.load_or_create_secrets(run_folder.secrets).servers_key
        folder.create()
        write_private(folder.secrets, run_folder.secrets.read_bytes())
        return cls(url, user=BACKUP, password=derive_password(key, NAME, BACKUP))

    def run(self, name: str, *arguments: str) -> None:
        """Run a Postgres program to its end, without a time limit. Raises RefusedError."""
        done = subprocess.run(
            (find_program(name), *self._connection, *arguments),
            env=self._environ,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode != 0:
            reason = Output(done.returncode, done.stdout + done.stderr).last_line
            raise RefusedError(f"{name} failed: {reason}")

    def follow(self, folder: BackupFolder) -> None:
        """Run pg_receivewal until SIGINT or SIGTERM; it connects again if the server was away."""
        options = ("-D", str(folder.wal), "--slot", _SLOT, "--synchronous")
        command = (find_program("pg_receivewal"), *self._connection, *options)
        running = subprocess.Popen(command, env=self._environ, start_new_session=True)
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True
            running.send_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        if running.wait() != 0 and not stopped:
            raise RefusedError("pg_receivewal ended unexpectedly; see its last line above")
