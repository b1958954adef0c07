"""Backups of the embedded Postgres, and what a restore makes of the log and of EVENTS."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentchat.bus.bus import Bus
from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.migrations import migrate
from agentchat.ops import folder_secrets
from agentchat.ops.folder_secrets import derive_password
from agentchat.ops.replay.feed_command import refeed
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers.postgres_server import BACKUP
from agentchat.ops.service_processes import Servers
from agentchat.ops.stack import describe_servers
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from agentchat.runtime.postgres import open_pool
from tests.conversations.given import build_conversation_started, turn

pytestmark = pytest.mark.slow

_IS_FOLLOWED = "SELECT 1 FROM pg_replication_slots WHERE restart_lsn >= %s::pg_lsn"


class World:
    """The servers of a run folder without services, and the commands on them."""

    def __init__(self, folder: RunFolder, backups: Path) -> None:
        self.folder = folder
        self.backups = backups
        self.key = folder_secrets.load_or_create_secrets(folder.secrets).servers_key
        self._servers: Servers | None = None

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Servers]:
        servers = describe_servers(self.folder, self.key)
        wanted = [each for each in servers.processes if each.name in ("postgres", "nats")]
        async with Supervisor(self.folder, wanted, QuietReport()) as supervisor:
            await supervisor.wait_up(60)
            self._servers = servers
            yield servers

    async def append(self, servers: Servers, *, erased: bool = False) -> str:
        """A conversation of one run, and its id."""
        async with open_store(servers.database_url) as store:
            return await _conversation(store, erased=erased)

    async def feed(self, servers: Servers) -> None:
        """EVENTS has the log."""
        async with _log(servers) as log, _bus(servers) as bus:
            await refeed(bus, log, 1, lambda _: None)

    async def positions(self, servers: Servers) -> list[int]:
        async with _log(servers) as log:
            return [entry.position for entry in await log.read(0, 1000)]

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "agentchat.ops.main", *words]

    def environ(self) -> dict[str, str]:
        password = derive_password(self.key, "postgres", BACKUP)
        servers = self._servers
        assert servers is not None
        place = servers.database_url.rpartition("@")[2]
        url = f"postgresql://{BACKUP}:{password}@{place}"
        return os.environ | {
            "AGENTCHAT_RUN_DIR": str(self.folder.path),
            "AGENTCHAT_BACKUP_DATABASE_URL": url,
        }

    async def ran(self, *words: str) -> tuple[int, str, str]:
        done = await asyncio.to_thread(
            subprocess.run,
            self.command(*words),
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=90,
        )
        return done.returncode, done.stdout, done.stderr

    async def restore(self, *options: str) -> Any:
        code, out, err = await self.ran("restore", str(self.backups), "--json", *options)
        assert code == 0, err
        return json.loads(out)

    async def _wait_until_received(self) -> None:
        """Until the one who follows has stored all that is committed now."""
        assert self._servers is not None
        async with await psycopg.AsyncConnection.connect(self._servers.database_url, autocommit=True) as conn:
            now = await (await conn.execute("SELECT pg_current_wal_flush_lsn()")).fetchone()
            async with asyncio.timeout(60):
                while await (await conn.execute(_IS_FOLLOWED, now)).fetchone() is None:  # noqa: ASYNC110 - of the server
                    await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def follow_backup(self) -> AsyncIterator[None]:
        """A base backup, and the write-ahead log as it is written while the block runs."""
        running = await asyncio.create_subprocess_exec(
            *self.command("backup", str(self.backups), "--follow", "--json"),
            env=self.environ(),
            stdout=subprocess.PIPE,
        )
        try:
            assert running.stdout is not None
            async with asyncio.timeout(90):
                while await running.stdout.readline() != b"}\n":
                    pass
                while not list((self.backups / "wal").glob("*.partial")):  # noqa: ASYNC110 - its own process
                    await asyncio.sleep(0.02)
            yield
            await self._wait_until_received()
        finally:
            running.send_signal(signal.SIGINT)
            assert await running.wait() == 0


@contextlib.asynccontextmanager
async def _log(servers: Servers) -> AsyncIterator[Log]:
    async with open_pool(servers.database_url, role=None) as pool:
        yield Log(pool)


def _bus(servers: Servers) -> contextlib.AbstractAsyncContextManager[Bus]:
    return Bus.connect(servers.nats_url, name="test", on_lost=lambda: None)


async def _conversation(store: ConversationStore, *, erased: bool) -> str:
    conversation = Conversation(conversation_id=make_id())
    added: list[events.Event] = [build_conversation_started(), *turn("0", "Hello", "Hi")]
    if erased:
        added.append(
            events.ConversationErased(trace_id=make_id(), at="2026-01-01T00:00:00Z", account_id=make_id())
        )
    await store.append(conversation, added)
    return conversation.conversation_id


@pytest.fixture
async def world(folder: RunFolder, tmp_path: Path) -> World:
    made = World(folder, tmp_path / "backups")
    async with made.serve() as servers:
        await migrate(servers.database_url)
    return made


async def test_restore_has_archived_commits_and_lists_lost_ones(
    world: World,
) -> None:
    async with world.serve() as servers:
        await world.append(servers)
        async with world.follow_backup():
            await world.append(servers)
            kept = await world.positions(servers)
        lost = await world.append(servers)
        await world.feed(servers)
        every = await world.positions(servers)
    found = await world.restore("--replace")
    assert found["head"] == kept[-1]
    assert found["lost"] == {
        "events": len(every) - len(kept),
        "first_position": every[len(kept)],
        "last_position": every[-1],
        "conversations": [lost],
        "deletions": [],
    }
    assert found["replaced"].startswith(f"{world.folder.path}/postgres.before-")
    async with world.serve() as servers:
        assert await world.positions(servers) == kept
        async with _bus(servers) as bus:
            assert (await bus.feed.find_end()).position == kept[-1]
        await world.append(servers)
        new = (await world.positions(servers))[len(kept) :]
        assert new[0] == found["next_position"] > every[-1] + 100_000, "no position is used twice"
        code, _, err = await world.ran("backup", str(world.backups))
    assert (code, "from before a restore" in err) == (2, True)


async def test_restore_to_a_time_lists_later_deletions(
    world: World,
) -> None:
    async with world.serve() as servers:
        await world.append(servers)
        async with world.follow_backup():
            before = await world.positions(servers)
            then = await _time_of(servers)
            deleted = await world.append(servers, erased=True)
            await world.feed(servers)
    found = await world.restore("--replace", "--at", then.isoformat())
    assert found["head"] == before[-1]
    assert found["lost"]["deletions"] == [deleted]
    async with world.serve() as servers:
        assert await world.positions(servers) == before


async def test_what_cannot_be_restored_changes_nothing(world: World) -> None:
    async with world.serve() as servers:
        await world.append(servers)
        kept = await world.positions(servers)
        code, out, err = await world.ran("backup", str(world.backups), "--json")
        assert code == 0, err
    made = Path(json.loads(out)["backup"])
    code, _, err = await world.ran("restore", str(world.backups))
    assert (code, "already has data; use --replace" in err) == (2, True)
    code, _, err = await world.ran("restore", str(world.backups), "--replace", "--at", "2020-01-01")
    assert (code, "has no backup from before" in err) == (2, True)
    control = made / "global" / "pg_control"
    control.write_bytes(b"x" + control.read_bytes()[1:])
    code, _, err = await world.ran("restore", str(world.backups), "--replace")
    assert (code, err.strip().endswith("is damaged or incomplete: global/pg_control")) == (1, True)
    os.rename(made, made.with_name("unfinished"))
    code, _, err = await world.ran("restore", str(world.backups), "--replace")
    assert (code, "has no complete backup" in err) == (2, True)
    assert err.count("\n") == 1
    async with world.serve() as servers:
        assert await world.positions(servers) == kept


async def _time_of(servers: Servers) -> datetime:
    """Postgres' own, after all that is committed."""
    async with open_pool(servers.database_url, role=None) as pool, pool.connection() as conn:
        row = await (await conn.execute("SELECT clock_timestamp()")).fetchone()
        await conn.execute("SELECT pg_sleep(0.01)")
    assert row is not None
    at: datetime = row[0]
    return at.astimezone(UTC)
