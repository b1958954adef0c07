"""`agentchat restore`: a backup becomes a run folder's Postgres, and what follows the log is made to fit."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bus.bus import Bus
from bus.errors import BusUnavailable
from conversations.event_store.log import Log
from ops import environment, folder_secrets, printing
from ops.backup.base_backups import BackupFolder, info_of, now, verify
from ops.connections import failures_in_one_line
from ops.errors import RefusedError, StackError
from ops.folder import RunFolder, write_private
from ops.ports import free_port
from ops.process import Process, prepare_nothing
from ops.repair_command import LostEvents, Repaired, find_lost, lines_of, make_fit
from ops.servers.postgres_server import Cluster
from ops.services import Servers
from ops.stack import describe_servers
from ops.stack_report import Report, tail
from ops.supervisor import Supervisor
from runtime.postgres import Pool, open_pool

_WAL = "agentchat_wal"
_RECOVERY_SECONDS = 24 * 3600.0
_START_SECONDS = 90.0


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. `head`: the newest position of the log. `lost`: None where EVENTS had no more."""

    backup: str
    head: int
    next_position: int
    lost: LostEvents | None
    replaced: str | None


def restore(path: Path, *, at: datetime | None, replace: bool, as_json: bool) -> None:
    """Restore and report. Raises StackError; then nothing has changed, or the text says what has."""
    backups = BackupFolder(path)
    chosen = backups.choose(at)
    verify(chosen)
    folder = environment.run_folder()
    folder.create()
    with folder.locked():
        _check(folder, backups, replace=replace)
        there = folder.secrets if folder.secrets.exists() or not backups.secrets.exists() else backups.secrets
        key = folder_secrets.keep(there).servers_key
        made = asyncio.run(_recovered(folder, backups, chosen, at, key))
        if there != folder.secrets:
            write_private(folder.secrets, there.read_bytes())
        replaced = _put_in_place(folder, made)
        try:
            with failures_in_one_line():
                done = asyncio.run(_made_right(folder, key, str(chosen), replaced))
        except (StackError, BusUnavailable) as error:
            raise RefusedError(
                f"Postgres is restored, but EVENTS does not fit it: {error}; do it again with --replace"
            ) from error
    if as_json:
        printing.as_json(done)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _lines(done))


def _check(folder: RunFolder, backups: BackupFolder, *, replace: bool) -> None:
    if not replace and folder.postgres.exists() and any(folder.postgres.iterdir()):
        raise RefusedError(f"{folder.postgres} has data; --replace keeps it under another name", 2)
    if folder.secrets.exists() and backups.secrets.exists():
        here, there = (folder_secrets.keep(each.secrets) for each in (folder, backups))
        if here != there:
            raise RefusedError(
                f"{folder.secrets} is not the one of the backup; restore into another AGENTCHAT_RUN_DIR", 2
            )


async def _recovered(
    folder: RunFolder, backups: BackupFolder, chosen: Path, at: datetime | None, key: str
) -> RunFolder:
    """A folder next to the run folder's data, in which Postgres has come to the time, or to the log's end.

    Raises RefusedError where it does not get there.
    """
    made = RunFolder(folder.path / "restoring")
    shutil.rmtree(made.path, ignore_errors=True)
    made.create()
    try:
        shutil.copytree(chosen, made.postgres)
        made.postgres.chmod(0o700)
        wal = made.postgres / _WAL
        wal.mkdir()
        for segment in backups.segments(info_of(chosen).first_segment):
            shutil.copy2(segment, wal / segment.name.removesuffix(".partial"))
        settings = made.postgres / "postgresql.auto.conf"
        usual = settings.read_text()
        settings.write_text(usual + _recovery_settings(at))
        (made.postgres / "recovery.signal").touch()
        cluster = Cluster(made, key)
        cluster.own()
        server = msgspec.structs.replace(cluster.process(free_port()), prepare=prepare_nothing)
        async with Supervisor(made, [server], _Quiet()) as supervisor:
            await supervisor.wait_up(_RECOVERY_SECONDS)
    except BaseException as error:
        lines = tail(made.log("postgres"))
        shutil.rmtree(made.path, ignore_errors=True)
        if isinstance(error, Exception):
            why = next((line for line in reversed(lines) if "FATAL" in line), str(error))
            raise RefusedError(
                f"nothing was restored: {why.partition('FATAL:')[2].strip() or why}"
            ) from error
        raise
    settings.write_text(usual)
    shutil.rmtree(wal)
    return made


class _Quiet(Report):
    """A recovery that ends early is one line, not the log of a server."""

    def note(self, text: str) -> None:
        pass


def _recovery_settings(at: datetime | None) -> str:
    """The log is read next to the data. Without a hot standby the server is ready once it is recovered."""
    settings = [
        f"restore_command = 'cp {_WAL}/%f %p'",
        "recovery_target_action = 'promote'",
        "hot_standby = off",
    ]
    if at is not None:
        settings.append(f"recovery_target_time = '{at.isoformat()}'")
    return "".join(f"{line}\n" for line in settings)


def _put_in_place(folder: RunFolder, made: RunFolder) -> str | None:
    """The recovered data becomes the run folder's; what was there is kept under another name."""
    replaced = None
    if folder.postgres.exists():
        kept = folder.postgres.with_name(f"postgres.before-{now():%Y%m%dT%H%M%SZ}")
        folder.postgres.replace(kept)
        replaced = str(kept)
    made.postgres.replace(folder.postgres)
    shutil.rmtree(made.path)
    for counters in folder.valkey.glob("*"):  # of requests that the log may not have; counted again from it
        shutil.rmtree(counters) if counters.is_dir() else counters.unlink()
    return replaced


async def _made_right(folder: RunFolder, key: str, chosen: str, replaced: str | None) -> Restored:
    """Positions after all that consumers may know, and EVENTS as the log is."""
    servers = describe_servers(folder, key)
    wanted = [each for each in servers.processes if each.name != "valkey"]
    async with _served(folder, wanted, servers) as (pool, bus):
        head = await Log(pool).head()
        async with Bus.connect(
            servers.operator.nats, name="agentchat restore", on_lost=lambda: None
        ) as operator:
            lost = await find_lost(operator, pool)
        fit = await make_fit(bus, pool, lost, seen=head)
    return Restored(backup=chosen, head=head, next_position=fit.next_position, lost=lost, replaced=replaced)


@contextlib.asynccontextmanager
async def _served(
    folder: RunFolder, processes: Sequence[Process], servers: Servers
) -> AsyncIterator[tuple[Pool, Bus]]:
    async with Supervisor(folder, processes, _Quiet()) as supervisor:
        await supervisor.wait_up(_START_SECONDS)
        async with (
            open_pool(servers.database_url, role=None) as pool,
            Bus.connect(servers.nats_url, name="agentchat restore", on_lost=lambda: None) as bus,
        ):
            yield pool, bus


def _lines(done: Restored) -> list[str]:
    lines = [f"restored {done.backup}; the log ends at position {done.head:,}"]
    if done.replaced:
        lines.append(f"the data that was there is in {done.replaced}")
    lines += lines_of(Repaired(next_position=done.next_position, lost=done.lost))
    lines.append(
        "start it with `agentchat up`, and back it up into another folder: this one has what came after"
    )
    return lines
