"""`agentchat restore`: restore a backup as a run folder's Postgres, and repair EVENTS and positions."""

import asyncio
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.conversations.event_store.event_log import Log
from agentchat.ops import demo_env, folder_secrets, printing
from agentchat.ops.backup.base_backups import BackupFolder, read_first_segment, verify
from agentchat.ops.connections import translate_database_errors
from agentchat.ops.errors import RefusedError, StackError
from agentchat.ops.free_ports import find_free_port
from agentchat.ops.process import prepare_nothing
from agentchat.ops.repair_command import Repaired, describe_repair, find_lost, repair_positions
from agentchat.ops.run_folder import RunFolder, write_private
from agentchat.ops.servers.postgres_server import Cluster
from agentchat.ops.stack import describe_servers
from agentchat.ops.stack_report import Report, read_last_lines
from agentchat.ops.supervisor import Supervisor
from agentchat.runtime.postgres import open_pool

_WAL = "agentchat_wal"
_RECOVERY_SECONDS = 24 * 3600.0
_START_SECONDS = 90.0


class Restored(Repaired, frozen=True, kw_only=True):
    """A restored backup, as `--json` prints it. `head` is the newest position of the log."""

    backup: str
    head: int
    replaced: str | None


def restore(path: Path, *, at: datetime | None, replace: bool, as_json: bool) -> None:
    """Restore a backup and report. Raises StackError, whose text says if anything has changed."""
    backups = BackupFolder(path)
    backup = backups.choose(at)
    verify(backup)
    folder = demo_env.find_run_folder()
    folder.create()
    with folder.lock():
        _check_target(folder, backups, replace=replace)
        if not folder.secrets.exists() and backups.secrets.exists():
            write_private(folder.secrets, backups.secrets.read_bytes())
        key = folder_secrets.load_or_create_secrets(folder.secrets).servers_key
        recovered = asyncio.run(_recover(folder, backups, backup, at, key))
        replaced = _put_in_place(folder, recovered)
        try:
            with translate_database_errors():
                done = asyncio.run(_repair_feed(folder, key, str(backup), replaced))
        except (StackError, BusUnavailable) as error:
            raise RefusedError(
                f"Postgres is restored, but EVENTS does not match it: {error}; run it again with --replace"
            ) from error
    if as_json:
        printing.print_json(done)
    else:
        sys.stdout.writelines(f"{line}\n" for line in _describe_restore(done))


def _check_target(folder: RunFolder, backups: BackupFolder, *, replace: bool) -> None:
    if not replace and folder.postgres.exists() and any(folder.postgres.iterdir()):
        raise RefusedError(
            f"{folder.postgres} already has data; use --replace to keep it under another name", 2
        )
    if folder.secrets.exists() and backups.secrets.exists():
        here, there = (folder_secrets.load_or_create_secrets(each.secrets) for each in (folder, backups))
        if here != there:
            raise RefusedError(
                f"{folder.secrets} differs from the backup's; restore into another AGENTCHAT_RUN_DIR", 2
            )


async def _recover(
    folder: RunFolder, backups: BackupFolder, backup: Path, at: datetime | None, key: str
) -> RunFolder:
    """Recover Postgres up to a time, or to the log's end, in a folder within the run folder; return it.

    Raises:
        RefusedError: The recovery failed. Nothing has changed.
    """
    new = RunFolder(folder.path / "restoring")
    shutil.rmtree(new.path, ignore_errors=True)
    new.create()
    try:
        shutil.copytree(backup, new.postgres)
        new.postgres.chmod(0o700)
        wal = new.postgres / _WAL
        wal.mkdir()
        for segment in backups.list_segments(read_first_segment(backup)):
            shutil.copy2(segment, wal / segment.name.removesuffix(".partial"))
        settings = new.postgres / "postgresql.auto.conf"
        usual = settings.read_text()
        settings.write_text(usual + _build_recovery_settings(at))
        (new.postgres / "recovery.signal").touch()
        cluster = Cluster(new, key)
        cluster.take_ownership()
        server = msgspec.structs.replace(cluster.process(find_free_port()), prepare=prepare_nothing)
        async with Supervisor(new, [server], _Quiet()) as supervisor:
            await supervisor.wait_up(_RECOVERY_SECONDS)
    except BaseException as error:
        lines = read_last_lines(new.log("postgres"))
        shutil.rmtree(new.path, ignore_errors=True)
        if not isinstance(error, Exception):
            raise
        why = next((line for line in reversed(lines) if "FATAL" in line), str(error))
        raise RefusedError(f"nothing was restored: {why.partition('FATAL:')[2].strip() or why}") from error
    settings.write_text(usual)
    shutil.rmtree(wal)
    return new


class _Quiet(Report):
    """A report that prints nothing: a failed recovery is one line, not the log of a server."""

    def note(self, text: str) -> None:
        """Print nothing."""


def _build_recovery_settings(at: datetime | None) -> str:
    """Build settings that recover from the log next to the data.

    Without a hot standby the server is ready only when it has recovered.
    """
    settings = [
        f"restore_command = 'cp {_WAL}/%f %p'",
        "recovery_target_action = 'promote'",
        "hot_standby = off",
    ]
    if at is not None:
        settings.append(f"recovery_target_time = '{at.isoformat()}'")
    return "".join(f"{line}\n" for line in settings)


def _put_in_place(folder: RunFolder, recovered: RunFolder) -> str | None:
    """Move the recovered data into the run folder. Return the new name of the data it replaced."""
    replaced = None
    if folder.postgres.exists():
        kept = folder.postgres.with_name(f"postgres.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        folder.postgres.replace(kept)
        replaced = str(kept)
    recovered.postgres.replace(folder.postgres)
    shutil.rmtree(recovered.path)
    for counters in folder.valkey.glob("*"):  # of requests that the log may not have; counted again from it
        shutil.rmtree(counters) if counters.is_dir() else counters.unlink()
    return replaced


async def _repair_feed(folder: RunFolder, key: str, backup: str, replaced: str | None) -> Restored:
    """Move positions past all that consumers may have seen, and fill EVENTS from the log."""
    servers = describe_servers(folder, key)
    wanted = [each for each in servers.processes if each.name != "valkey"]
    async with Supervisor(folder, wanted, _Quiet()) as supervisor:
        await supervisor.wait_up(_START_SECONDS)
        async with (
            open_pool(servers.database_url, role=None) as pool,
            Bus.connect(servers.nats_url, name="agentchat restore", on_lost=lambda: None) as bus,
            Bus.connect(servers.operator.nats, name="agentchat restore", on_lost=lambda: None) as operator,
        ):
            head = await Log(pool).read_head()
            lost = await find_lost(operator, pool)
            fit = await repair_positions(bus, pool, lost, seen=head)
    return Restored(**msgspec.structs.asdict(fit), backup=backup, head=head, replaced=replaced)


def _describe_restore(done: Restored) -> list[str]:
    lines = [f"restored {done.backup}; the log ends at position {done.head:,}"]
    if done.replaced:
        lines.append(f"the previous data is in {done.replaced}")
    lines += describe_repair(done)
    lines.append(
        "start it with `agentchat up`; back it up to another folder, since this one has the discarded log"
    )
    return lines
